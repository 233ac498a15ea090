/* programs.h - finds the folder of cspeed's own programs: train, generate, eval, pack and bench. */
#ifndef CL_PROGRAMS_H
#define CL_PROGRAMS_H

#include <limits.h>
#include <stdbool.h>

/* Writes the folder's path: libexec/cspeed of the installed tree; or, if that does not exist, as in a build tree, the
 * folder of cspeed itself. Both are found from the path of this executable, so an installed tree may be moved. Returns
 * false if the path of this executable cannot be read. */
bool cl_programs_folder(char path[PATH_MAX]);

#endif
