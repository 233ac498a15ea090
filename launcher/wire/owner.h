/* owner.h - finds the process that listens on a port of this machine. */
#ifndef CL_OWNER_H
#define CL_OWNER_H

#include <stddef.h>

/* Writes the name of the process that listens on the port, such as "python3 (pid 4711)". Writes "another user's
 * process" if /proc shows no process that has the socket open, and "" if no process listens on the port. */
void cl_owner_of_port(int port, char *text, size_t capacity);

#endif
