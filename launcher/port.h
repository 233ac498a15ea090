/* port.h - the job's master port: free now, and nobody else's while the job runs.
 *
 * The launcher keeps a socket bound to it, not listening, so that the kernel gives the port to nobody and
 * rank 0 can still bind it with SO_REUSEADDR; and an abstract Unix socket of the port's name, so that two
 * jobs told the same --master_port do not both believe it theirs. Both go with the process that holds them. */
#ifndef CS_LAUNCHER_PORT_H
#define CS_LAUNCHER_PORT_H

/* `wanted` 0: any. The sockets stay open until the process ends. 0, or CS_CODE_SLOTS with a sentence. */
int cs_port_hold(int wanted, int *port);

#endif
