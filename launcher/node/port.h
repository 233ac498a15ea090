/* port.h - the job's master port: free now, and nobody else's while the job runs.
 *
 * The agent of the first node keeps a socket bound to it, not listening, so that the kernel gives the port to nobody
 * and rank 0 can still bind it with SO_REUSEADDR, or take the socket over (CSPEED_MASTER_FD); and an abstract Unix
 * socket of the port's name, so that two jobs told the same --master_port do not both believe it theirs. */
#ifndef CL_PORT_H
#define CL_PORT_H

#include <stdbool.h>

typedef struct {
    int port;        /* 0: any                                              */
    bool everywhere; /* on every interface; else on the loopback one alone */
} cl_port_wish;

/* The socket for rank 0 goes to *fd. 0, or CL_CODE_SLOTS with a sentence that names who has the port. */
int cl_port_hold(const cl_port_wish *wish, int *port, int *fd);
void cl_port_release(int *fd);  /* accepts -1 */
bool cl_port_is_held(int port); /* whether a job of this machine holds it for its ranks */

#endif
