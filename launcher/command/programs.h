/* programs.h - cspeed's own programs as commands of cspeed. */
#ifndef CL_COMMAND_PROGRAMS_H
#define CL_COMMAND_PROGRAMS_H

/* Replaces this process by the program `name` with the NULL-terminated `arguments`. Returns only on failure: the result
 * is an exit code, and cs_error() has the message. */
int cl_programs_become(const char *name, char **arguments);

#endif
