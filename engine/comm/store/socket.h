/* socket.h - TCP addresses and sockets of IPv4 and IPv6: functions that resolve names, listen and connect.
 *
 * If the job has no key, sockets may be bound and connected to loopback addresses only (security/join.h). */
#ifndef CE_COMM_STORE_SOCKET_H
#define CE_COMM_STORE_SOCKET_H

#include "base/status.h"

#include <sys/socket.h>

typedef struct {
    struct sockaddr_storage name;
    socklen_t bytes;
} ce_address;

enum { CE_SOCKET_TEXT = 64 };

/* Writes the address to `text`, which has CE_SOCKET_TEXT bytes, in the form "127.0.0.1:29500" or "[::1]:29500", and
 * returns `text`. */
const char *ce_socket_text(const ce_address *address, char *text);
void ce_socket_set_port(ce_address *address, int port);
int ce_socket_port(const ce_address *address);
bool ce_socket_is_any(const ce_address *address); /* returns true for 0.0.0.0 and :: */
/* Sets *address to :: with this port: a socket that listens there is reached by IPv6 and IPv4. */
void ce_socket_set_any(ce_address *address, int port);

/* Opens a non-blocking listening socket and sets *address to the address to which the socket is bound. If it returns
 * CS_IO_ERROR, errno is set. */
cs_status ce_socket_listen(int *socket, ce_address *address, bool keyed);
/* Does the same at an address of the host name. If the name has several addresses, or none that is this host's, the
 * socket listens on all addresses of this host; if all of them are loopback addresses, it listens on one of these. */
cs_status ce_socket_listen_at(int *socket, ce_address *address, const char *host, int port, bool keyed);
/* Connects to one of the addresses of a host name; NULL means this host's loopback addresses. *socket receives a
 * non-blocking socket, or -1. Returns CS_NO_PEER if no address answers within `seconds`, or CS_BAD_CONFIG if the job has
 * no key and an address is not a loopback address. */
cs_status ce_socket_connect(int *socket, const char *host, int port, bool keyed, double seconds);
/* Does the same with one address. */
cs_status ce_socket_connect_to(int *socket, const ce_address *address, bool keyed, double seconds);
/* Sets *address to the address of the peer of a connected socket. */
void ce_socket_peer(ce_address *address, int socket);
/* Sets TCP_NODELAY, and keepalive probes that detect within a minute that the peer's host is lost. */
void ce_socket_tune(int socket);

/* Sets *address to the address by which other hosts reach this host, with port 0. If the variable CSPEED_SOCKET_IFNAME
 * is set, this is the address of the first network interface that it allows. The variable has the syntax of
 * NCCL_SOCKET_IFNAME: a list of prefixes of interface names. "=" before the list means whole names, "^" means all
 * interfaces except those of the list. If the variable is not set, the address is the local address of `socket`, which
 * must be connected. */
cs_status ce_socket_local(ce_address *address, int socket);

#endif
