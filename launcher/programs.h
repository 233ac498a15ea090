/* programs.h - The folder of cspeed's own programs: train, generate, eval and pack. */
#ifndef CL_PROGRAMS_H
#define CL_PROGRAMS_H

#include <limits.h>
#include <stdbool.h>

/* Writes the folder's path, found from the path of this executable, so that an installed tree may be moved: the folder
 * libexec/cspeed of the tree that this cspeed is installed in; if there is none, as in a build tree, the folder of
 * cspeed itself. Returns false if the system does not tell this executable's path. */
bool cl_programs_folder(char path[PATH_MAX]);

#endif
