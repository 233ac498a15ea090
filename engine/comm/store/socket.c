/* socket.c - TCP sockets: resolves host names, listens, connects, and finds the address by which other hosts reach this
 * host. */
#include "comm/store/socket.h"
#include "base/inet.h"
#include "security/join.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BACKLOG = 1024 };
/* Times and number of keepalive probes: they detect within a minute that a host does not answer. */
enum { PROBE_IDLE_SECONDS = 15, PROBE_SECONDS = 15, PROBES = 3 };

static struct sockaddr_in *four_of(const ce_address *address)
{
    return (struct sockaddr_in *)(void *)(size_t)&address->name;
}

static struct sockaddr_in6 *six_of(const ce_address *address)
{
    return (struct sockaddr_in6 *)(void *)(size_t)&address->name;
}

static const struct sockaddr *plain(const ce_address *address)
{
    return (const struct sockaddr *)(const void *)&address->name;
}

/* Finds all addresses of a host name, or of the loopback interface if `host` is NULL. */
static cs_status find(struct addrinfo **all, const char *host, int port)
{
    struct addrinfo wish = { .ai_socktype = SOCK_STREAM };
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    int code = getaddrinfo(host, service, &wish, all);
    return code == 0 ? CS_OK : ce_fail(CS_NO_PEER, "the host \"%s\" is not found: %s", host, gai_strerror(code));
}

/* An IPv4 address that a socket for both versions of IP reports becomes a plain IPv4 address, which hosts without IPv6
 * can use. */
static void unmap(ce_address *address)
{
    const struct sockaddr_in6 six = *six_of(address);
    if (address->name.ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&six.sin6_addr))
        return;
    *address = (ce_address){ .bytes = sizeof(struct sockaddr_in) };
    *four_of(address) = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = six.sin6_port };
    memcpy(&four_of(address)->sin_addr, &six.sin6_addr.s6_addr[12], sizeof(struct in_addr));
}

const char *ce_socket_text(const ce_address *address, char *text)
{
    char host[INET6_ADDRSTRLEN] = "?";
    ce_address own = *address;
    unmap(&own);
    bool six = own.name.ss_family == AF_INET6;
    if (six)
        inet_ntop(AF_INET6, &six_of(&own)->sin6_addr, host, sizeof host);
    else
        inet_ntop(AF_INET, &four_of(&own)->sin_addr, host, sizeof host);
    snprintf(text, CE_SOCKET_TEXT, six ? "[%s]:%d" : "%s:%d", host, ce_socket_port(address));
    return text;
}

void ce_socket_set_port(ce_address *address, int port)
{
    if (address->name.ss_family == AF_INET6)
        six_of(address)->sin6_port = htons((uint16_t)port);
    else
        four_of(address)->sin_port = htons((uint16_t)port);
}

int ce_socket_port(const ce_address *address)
{
    return ntohs(address->name.ss_family == AF_INET6 ? six_of(address)->sin6_port : four_of(address)->sin_port);
}

bool ce_socket_is_any(const ce_address *address)
{
    return address->name.ss_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&six_of(address)->sin6_addr)
                                               : four_of(address)->sin_addr.s_addr == htonl(INADDR_ANY);
}

void ce_socket_set_any(ce_address *address, int port)
{
    *address = (ce_address){ .name.ss_family = AF_INET6, .bytes = sizeof(struct sockaddr_in6) };
    ce_socket_set_port(address, port);
}

cs_status ce_socket_listen(int *made, ce_address *address, bool keyed)
{
    char text[CE_SOCKET_TEXT];
    *made = -1;
    CE_TRY(ce_join_allow(plain(address), keyed));
    int listener, error = ce_inet_bind(plain(address), address->bytes, &listener);
    if (error == 0 && listen(listener, BACKLOG) == 0) {
        *made = listener;
        address->bytes = sizeof address->name;
        getsockname(listener, (struct sockaddr *)(void *)&address->name, &address->bytes);
        return CS_OK;
    }
    error = error ? error : errno;
    if (listener >= 0)
        close(listener);
    ce_fail_errno(CS_IO_ERROR, error, "cannot listen at %s%s", ce_socket_text(address, text),
                  error == EADDRINUSE ? " (another job or program does: choose another port)" : "");
    errno = error;
    return CS_IO_ERROR;
}

/* Returns true if a socket for this host's name is to be bound to one of the addresses: to the only one, or to one of
 * several loopback addresses. A name that has other addresses too is that of a host which other hosts reach. */
static bool has_own_address(const struct addrinfo *all)
{
    const struct addrinfo *a = all;
    while (a && ce_join_is_loopback(a->ai_addr))
        a = a->ai_next;
    return !a || !all->ai_next;
}

cs_status ce_socket_listen_at(int *made, ce_address *address, const char *host, int port, bool keyed)
{
    struct addrinfo *all;
    cs_status status = CS_OK;
    bool elsewhere = true;
    CE_TRY(find(&all, host, port));
    for (const struct addrinfo *a = has_own_address(all) ? all : NULL; a && elsewhere; a = a->ai_next) {
        *address = (ce_address){ .bytes = a->ai_addrlen };
        memcpy(&address->name, a->ai_addr, a->ai_addrlen);
        status = ce_socket_listen(made, address, keyed);
        elsewhere = status == CS_IO_ERROR && errno == EADDRNOTAVAIL;
    }
    freeaddrinfo(all);
    if (!elsewhere)
        return status;
    ce_socket_set_any(address, port);
    return ce_socket_listen(made, address, keyed);
}

static cs_status connect_to_list(int *made, const struct addrinfo *all, bool keyed, double seconds)
{
    *made = -1;
    for (const struct addrinfo *a = all; a; a = a->ai_next)
        CE_TRY(ce_join_allow(a->ai_addr, keyed));
    int error = ce_inet_connect(all, seconds, NULL, NULL, made);
    return error == 0 ? CS_OK : ce_fail(CS_NO_PEER, "%s", strerror(error));
}

cs_status ce_socket_connect(int *made, const char *host, int port, bool keyed, double seconds)
{
    struct addrinfo *all;
    *made = -1;
    CE_TRY(find(&all, host, port));
    cs_status status = connect_to_list(made, all, keyed, seconds);
    freeaddrinfo(all);
    return status != CS_NO_PEER || !host
               ? status
               : ce_fail(CS_NO_PEER, strchr(host, ':') ? "[%s]:%d: %s" : "%s:%d: %s", host, port, cs_error());
}

cs_status ce_socket_connect_to(int *made, const ce_address *address, bool keyed, double seconds)
{
    ce_address copy = *address;
    struct addrinfo one = { .ai_family = copy.name.ss_family,
                            .ai_addrlen = copy.bytes,
                            .ai_addr = (struct sockaddr *)(void *)&copy.name };
    return connect_to_list(made, &one, keyed, seconds);
}

void ce_socket_peer(ce_address *address, int socket)
{
    *address = (ce_address){ .bytes = sizeof address->name };
    getpeername(socket, (struct sockaddr *)(void *)&address->name, &address->bytes);
    unmap(address);
}

void ce_socket_tune(int socket)
{
    int on = 1, idle = PROBE_IDLE_SECONDS, between = PROBE_SECONDS, probes = PROBES;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

/* ---- which interface ---- */

static bool is_named(const char *name, const char *list)
{
    bool whole = list[0] == '=';
    for (const char *at = list + whole; *at;) {
        size_t length = strcspn(at, ",");
        if (length && strncmp(name, at, length) == 0 && (!whole || !name[length]))
            return true;
        at += length + (at[length] == ',');
    }
    return false;
}

static bool is_allowed(const char *name, const char *list)
{
    return list[0] == '^' ? !is_named(name, list + 1) : is_named(name, list);
}

static bool is_usable(const struct ifaddrs *interface, int family)
{
    if (!interface->ifa_addr || interface->ifa_addr->sa_family != family || !(interface->ifa_flags & IFF_UP))
        return false;
    return family == AF_INET ||
           !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)(const void *)interface->ifa_addr)->sin6_addr);
}

/* Returns the first usable interface that has this address family and a name that `list` allows, or NULL. `list` has
 * the syntax of CSPEED_SOCKET_IFNAME. A loopback interface is returned only if the list allows no other one. */
static const struct ifaddrs *choose(const struct ifaddrs *all, const char *list, int family)
{
    const struct ifaddrs *loopback = NULL;
    for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
        if (!is_usable(one, family) || !is_allowed(one->ifa_name, list))
            continue;
        if (!(one->ifa_flags & IFF_LOOPBACK))
            return one;
        loopback = loopback ? loopback : one;
    }
    return loopback;
}

cs_status ce_socket_local(ce_address *address, int socket)
{
    const char *list = getenv("CSPEED_SOCKET_IFNAME");
    struct ifaddrs *all = NULL;
    *address = (ce_address){ .bytes = sizeof address->name };
    if (getsockname(socket, (struct sockaddr *)(void *)&address->name, &address->bytes) < 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "the address of a socket cannot be read");
    unmap(address);
    ce_socket_set_port(address, 0);
    if (!list || !list[0])
        return CS_OK;
    if (getifaddrs(&all) < 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "the system does not list its network interfaces");
    int family = address->name.ss_family;
    const struct ifaddrs *chosen = choose(all, list, family);
    if (!chosen)
        chosen = choose(all, list, family == AF_INET ? AF_INET6 : AF_INET);
    if (chosen) {
        bool six = chosen->ifa_addr->sa_family == AF_INET6;
        address->bytes = six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
        memcpy(&address->name, chosen->ifa_addr, address->bytes);
        ce_socket_set_port(address, 0);
    }
    freeifaddrs(all);
    return chosen ? CS_OK
                  : ce_fail(CS_BAD_CONFIG,
                            "CSPEED_SOCKET_IFNAME=%s: no active interface of this host has such a name (`ip addr` "
                            "lists them)",
                            list);
}
