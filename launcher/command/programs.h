/* programs.h - cspeed's own programs, which are commands too. */
#ifndef CL_COMMAND_PROGRAMS_H
#define CL_COMMAND_PROGRAMS_H

/* Replaces this process by the program `name` with the NULL-terminated `arguments`. Returns only on failure: an exit
 * code, with a message in cs_error(). */
int cl_programs_become(const char *name, char **arguments);

#endif
