/* program.h - which file the program's name means. */
#ifndef CS_LAUNCHER_PROGRAM_H
#define CS_LAUNCHER_PROGRAM_H

#include <limits.h>

/* A name with a '/' is a path; else a program beside the cspeed binary, else one in PATH. 0, or
 * CS_CODE_NOT_FOUND or CS_CODE_NOT_EXECUTABLE with a sentence. */
int cs_program_find(const char *name, char path[PATH_MAX]);

#endif
