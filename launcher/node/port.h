/* port.h - reserves the job's master port for its ranks while the job runs.
 *
 * The agent of the first node keeps a socket that is bound to the port but does not listen. The kernel then gives the
 * port to no other process. Rank 0 can still bind to the port with SO_REUSEADDR, or inherit the socket
 * (CSPEED_MASTER_FD). A Unix socket with an abstract name derived from the port prevents two jobs with the same
 * --master_port from using the port at the same time. */
#ifndef CL_PORT_H
#define CL_PORT_H

#include <stdbool.h>

typedef struct {
    int port;        /* number of the port; 0: any free port */
    bool everywhere; /* true: the port is reserved on every interface; false: on the loopback interface only */
} cl_port_wish;

/* Reserves the port; *fd receives the socket for rank 0, and *port the number of the port. Returns 0, or CL_CODE_SLOTS
 * with a message that says how to find the process that uses the port. */
int cl_port_hold(const cl_port_wish *wish, int *port, int *fd);
void cl_port_release(int *fd);  /* ends the reservation and closes the socket *fd, which may be -1 */
bool cl_port_is_held(int port); /* returns true if a job of this machine has reserved the port for its ranks */

#endif
