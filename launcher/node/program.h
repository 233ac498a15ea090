/* program.h - finds the executable file of a program. */
#ifndef CL_PROGRAM_H
#define CL_PROGRAM_H

#include <limits.h>
#include <stdbool.h>

/* Finds the file of a program. A name with a '/' is a path. Any other name is looked up first in the folder of cspeed's
 * own programs (programs.h), then in PATH. Every node searches by itself. Returns 0, or CL_CODE_NOT_FOUND or
 * CL_CODE_NOT_EXECUTABLE with a message. */
int cl_program_find(const char *name, char path[PATH_MAX]);

/* Returns true if the name is that of one of cspeed's own programs. */
bool cl_program_is_own(const char *name);

/* Checks that a word in the place of a command may name a program: a path, or a program in the folder of cspeed's own
 * programs. A program that is only in PATH is refused, because a misspelt command must not start a program on every
 * rank; `cspeed run` accepts such a program. A word that names no program on this machine is accepted, because other
 * hosts may have the program; but NAME.py is refused, because a script needs `cspeed run python3 NAME.py`. Returns 0,
 * or CL_CODE_USAGE with a message that says what to write. */
int cl_program_may_be(const char *word);

#endif
