/* programs.h - finds the folder of cspeed's own programs: train, generate, eval, pack and bench. */
#ifndef CL_PROGRAMS_H
#define CL_PROGRAMS_H

#include <limits.h>
#include <stdbool.h>

/* Writes the path of the folder. If cspeed is installed, this is the folder libexec/cspeed of the installed tree. If
 * there is no such folder, as in a build tree, it is the folder of cspeed itself. The path is derived from that of the
 * running executable file, so an installed tree may be moved. Returns false if the system does not tell the path of
 * this file. */
bool cl_programs_folder(char path[PATH_MAX]);

#endif
