/* owner.h - finds the process that listens on a port of this machine. */
#ifndef CL_OWNER_H
#define CL_OWNER_H

#include <stddef.h>

/* Writes the name of the process, such as "python3 (pid 4711)"; "another user's process" if /proc does not show it; ""
 * if no process listens. */
void cl_owner_of_port(int port, char *text, size_t room);

#endif
