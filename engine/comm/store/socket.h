/* socket.h - TCP addresses and sockets of IPv4 and IPv6: functions that resolve names, listen and connect.
 *
 * If the job has no key, sockets may be bound and connected to loopback addresses only (base/join.h). */
#ifndef CS_COMM_SOCKET_H
#define CS_COMM_SOCKET_H

#include "base/status.h"

#include <sys/socket.h>

typedef struct {
    struct sockaddr_storage name;
    socklen_t bytes;
} ce_address;

enum { CS_SOCKET_TEXT = 64 };

/* Sets *address to the first address of a host name, with this port. */
cs_status ce_socket_resolve(ce_address *address, const char *host, int port);
/* Writes the address to `text`, which has CS_SOCKET_TEXT bytes, in the form "127.0.0.1:29500" or "[::1]:29500", and
 * returns `text`. */
const char *ce_socket_text(const ce_address *address, char *text);
void ce_socket_set_port(ce_address *address, int port);
int ce_socket_port(const ce_address *address);
bool ce_socket_is_any(const ce_address *address); /* returns true for 0.0.0.0 and :: */

/* Opens a non-blocking listening socket and sets *address to the address to which the socket is bound. If it returns
 * CS_IO_ERROR, errno is set. */
cs_status ce_socket_listen(int *socket, ce_address *address, bool keyed);
/* Returns a connected, non-blocking socket. On failure it returns -1 and sets errno, to ETIMEDOUT after `seconds`. */
int ce_socket_connect(const ce_address *address, double seconds);
/* Sets TCP_NODELAY, and keepalive probes that detect within a minute that the peer's host is lost. */
void ce_socket_tune(int socket);

/* Sets *address to the address by which other hosts reach this host, with port 0. If the variable CSPEED_SOCKET_IFNAME
 * is set, this is the address of the first network interface that it allows. The variable has the syntax of
 * NCCL_SOCKET_IFNAME: a list of prefixes of interface names. "=" before the list means whole names, "^" means all
 * interfaces except those of the list. If the variable is not set, the address is the local address of `socket`, which
 * must be connected. */
cs_status ce_socket_local(ce_address *address, int socket);

#endif
