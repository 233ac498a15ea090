/* inet.h - TCP sockets over IPv4 and IPv6: sockets that are bound on both, and connections to a host that has several
 * addresses. */
#ifndef CE_BASE_INET_H
#define CE_BASE_INET_H

#include <netdb.h>
#include <stdbool.h>
#include <sys/socket.h>

/* Opens a non-blocking TCP socket that is bound to the address. The address :: means all addresses of this host, of
 * IPv4 too; if the kernel has no IPv6, it means 0.0.0.0. Returns 0, or an errno value and sets *made to -1. */
int ce_inet_bind(const struct sockaddr *address, socklen_t bytes, int *made);
/* Returns the port to which a socket is bound. */
int ce_inet_port(int bound);
/* Connects to one of the addresses. The attempts begin in the order of the list, each when all earlier ones have failed
 * or a fraction of a second after the one before it, and the first connection is kept (RFC 8305, "happy eyeballs"): an
 * address that does not answer delays the connection only by this time. When all attempts have begun and an address has
 * refused the connection, the others end after two seconds. `stop`, which may be NULL, is called several times a second;
 * if it returns true, the attempts end. At least one attempt is made. *made receives a non-blocking socket, or -1.
 * Returns 0, or an errno value: ECONNREFUSED if an address has refused the connection, ETIMEDOUT if none has answered. */
int ce_inet_connect(const struct addrinfo *all, double seconds, bool (*stop)(void *), void *context, int *made);

#endif
