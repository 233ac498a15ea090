/* programs.h - finds the folder of cspeed's own programs: train, generate, eval, pack and bench.
 *
 * An installation puts them into libexec/cspeed, because their names are general (eval is also a command of the shell).
 * An installed cspeed does not take other programs of its own folder as commands: in /usr/bin a misspelt command could
 * be the name of any program. */
#ifndef CL_PROGRAMS_H
#define CL_PROGRAMS_H

#include <limits.h>
#include <stdbool.h>

/* Writes the path of this executable; "" and false if it cannot be read. */
bool cl_programs_self(char path[PATH_MAX]);

/* Writes the path of the folder that contains cspeed's own programs. In an installed tree this is libexec/cspeed. If
 * libexec/cspeed does not exist, as in a build tree, it is the folder of this executable. Both paths are derived from
 * the path of this executable, so an installed tree may be moved. Returns false if the path of this executable cannot
 * be read. */
bool cl_programs_folder(char path[PATH_MAX]);

#endif
