/* programs.h - cspeed's own programs, which are commands too. */
#ifndef CL_COMMAND_PROGRAMS_H
#define CL_COMMAND_PROGRAMS_H

/* Replaces this process by the program of that name with these arguments, of which there may be any number. Returns an
 * exit code, with a message, if that is not possible. */
int cl_programs_become(const char *name, char **arguments);

#endif
