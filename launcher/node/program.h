/* program.h - which file the program's name means. */
#ifndef CL_PROGRAM_H
#define CL_PROGRAM_H

#include <limits.h>

/* A name with a '/' is a path; else a program beside the cspeed binary, else one in PATH. 0, or
 * CL_CODE_NOT_FOUND or CL_CODE_NOT_EXECUTABLE with a sentence. */
int cl_program_find(const char *name, char path[PATH_MAX]);

/* Whether a word that stands where a command of cspeed could may name a program: a path, or a program beside cspeed.
 * One that is found in PATH alone is refused, since a misspelt command must not start a program of that name on every
 * rank; `cspeed run` takes it. 0, or CL_CODE_USAGE with a sentence that says what to write. */
int cl_program_may_be(const char *word);

#endif
