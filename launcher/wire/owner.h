/* owner.h - who listens on a port of this machine. */
#ifndef CL_OWNER_H
#define CL_OWNER_H

#include <stddef.h>

/* "python3 (pid 4711)", or "another user's process" when /proc does not show it, or "" when nobody listens. */
void cl_owner_of_port(int port, char *text, size_t room);

#endif
