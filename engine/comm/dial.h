/* dial.h - addresses of ranks: found, listened at, called. IPv4 and IPv6.
 *
 * Without the job's key only loopback addresses are bound or called (base/join.h). */
#ifndef CS_COMM_DIAL_H
#define CS_COMM_DIAL_H

#include "base/status.h"

#include <sys/socket.h>

typedef struct {
    struct sockaddr_storage name;
    socklen_t bytes;
} cs_address;

enum { CS_DIAL_TEXT = 64 };

/* The first address of a host's name, with the port. */
cs_status cs_dial_resolve(cs_address *address, const char *host, int port);
/* "127.0.0.1:29500", "[::1]:29500". Returns `text`. */
const char *cs_dial_text(const cs_address *address, char *text /* CS_DIAL_TEXT */);
void cs_dial_set_port(cs_address *address, int port);
int cs_dial_port(const cs_address *address);
bool cs_dial_is_any(const cs_address *address); /* 0.0.0.0 or :: */

/* A listening socket that does not block; *address becomes what it is bound to. CS_IO_ERROR leaves errno. */
cs_status cs_dial_listen(int *socket, cs_address *address, bool keyed);
/* A socket that does not block and is connected, or -1 and errno (ETIMEDOUT after `seconds`). */
int cs_dial_call(const cs_address *address, double seconds);
/* No delay, and the peer's host is probed, so that its loss is seen within a minute. */
void cs_dial_tune(int socket);

/* The own address that others reach this host at: of the first interface that CSPEED_SOCKET_IFNAME allows (a list of
 * prefixes, "=" before it for whole names, "^" before it for all others: NCCL_SOCKET_IFNAME's), or else the one by
 * which `socket`, connected to another host, goes out. Its port is 0. */
cs_status cs_dial_own(cs_address *own, int socket);

#endif
