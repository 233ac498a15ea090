/* rendezvous.c - the front process's side of the rendezvous: listens on a port, and authenticates nodes that connect.
 */
#include "wire/rendezvous.h"

#include "ground/codes.h"
#include "wire/secret.h"

#include "base/clock.h"
#include "base/must.h"
#include "base/inet.h"
#include "security/join.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* One iteration of the event loop accepts at most MAX_ACCEPTED connections, because the loop must also serve links,
 * signals and deadlines. If further connections are then still pending, no connection is accepted for a while:
 * PAUSE_FACTOR times as long as it took to accept these MAX_ACCEPTED connections. */
enum {
    MAX_CONNECTIONS = 128,
    MAX_ACCEPTED = 64,
    PAUSE_FACTOR = 4,
    MAX_REPORTS = 32,
    MAX_REFUSED = 64,
    REPORT_BYTES = 512
};

typedef struct {
    int fd;
    uint64_t number; /* serial number of the connection: an older connection has a lower number */
    ce_join join;
    char address[INET6_ADDRSTRLEN];
} connection;

struct cl_rendezvous {
    int fd, port;
    bool keyed, port_given; /* port_given: true: the port is the user's or the default; false: the kernel chose it */
    bool listens, reported; /* reported: the user was told that the port could not be opened again */
    unsigned char key[CE_MAC_BYTES];
    char job[CE_JOIN_JOB + 1];
    connection connections[MAX_CONNECTIONS]; /* the open connections, unordered */
    int connection_count;
    uint64_t accepted_count;                     /* number of connections accepted so far */
    int64_t paused_until;                        /* no connection is accepted before this time of ce_clock_now */
    char refused[MAX_REFUSED][INET6_ADDRSTRLEN]; /* the addresses whose refusal was reported */
    int refused_count;
    char reports[MAX_REPORTS][REPORT_BYTES];
    int report_count, reports_taken;
};

/* Queues a line for the user; if the queue is full, the line is dropped. */
static void __attribute__((format(printf, 2, 3))) add_report(cl_rendezvous *rendezvous, const char *format, ...)
{
    va_list arguments;
    if (rendezvous->report_count - rendezvous->reports_taken == MAX_REPORTS)
        return;
    va_start(arguments, format);
    vsnprintf(rendezvous->reports[rendezvous->report_count++ % MAX_REPORTS], REPORT_BYTES, format, arguments);
    va_end(arguments);
}

/* ---- the port ---- */

typedef union {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
} address;

static void set_port(address *a, int port)
{
    if (a->any.sa_family == AF_INET6)
        a->six.sin6_port = htons((uint16_t)port);
    else
        a->four.sin_port = htons((uint16_t)port);
}

static void name_address(const address *a, char text[INET6_ADDRSTRLEN])
{
    const bool six = a->any.sa_family == AF_INET6;
    const void *bytes = six ? (const void *)&a->six.sin6_addr : (const void *)&a->four.sin_addr;
    if (six && IN6_IS_ADDR_V4MAPPED(&a->six.sin6_addr))
        inet_ntop(AF_INET, &a->six.sin6_addr.s6_addr[12], text, INET6_ADDRSTRLEN);
    else
        inet_ntop(a->any.sa_family, bytes, text, INET6_ADDRSTRLEN);
}

/* Finds the address of an interface: one of IPv4 if there is one. Other hosts cannot use a link-local address, because
 * it lacks the name of their interface. */
static int find_interface(const char *name, address *a)
{
    struct ifaddrs *all = NULL;
    bool found = false;
    if (getifaddrs(&all) < 0)
        return cl_codes_fail(CL_CODE_SYSTEM, "the interfaces of this machine cannot be read: %s", strerror(errno));
    for (const struct ifaddrs *i = all; i && !(found && a->any.sa_family == AF_INET); i = i->ifa_next) {
        int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
        if (strcmp(i->ifa_name, name) != 0 || (family != AF_INET && family != AF_INET6) ||
            (family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)(void *)i->ifa_addr)->sin6_addr)))
            continue;
        memcpy(a, i->ifa_addr, family == AF_INET ? sizeof a->four : sizeof a->six);
        found = true;
    }
    freeifaddrs(all);
    if (!found)
        return cl_codes_fail(CL_CODE_USAGE, "--master_if %s: this machine has no such interface with an address", name);
    return 0;
}

int cl_rendezvous_interface(const char *name, char *text, size_t capacity)
{
    address a = { 0 };
    char found[INET6_ADDRSTRLEN];
    int code = find_interface(name, &a);
    if (code)
        return code;
    name_address(&a, found);
    snprintf(text, capacity, "%s", found);
    return 0;
}

/* Reads the address on which to listen. A numeric address is used unchanged. A host name means all interfaces, because
 * each machine may resolve it to a different address. */
static void read_address(const char *text, address *a)
{
    *a = (address){ .four = { .sin_family = AF_INET } };
    if (strcmp(text, "localhost") == 0)
        a->four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    else if (inet_pton(AF_INET6, text, &a->six.sin6_addr) == 1)
        a->six.sin6_family = AF_INET6;
    else if (inet_pton(AF_INET, text, &a->four.sin_addr) != 1)
        *a = (address){ .six = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT } };
}

/* Listens at the address. Returns 0, or an errno value. */
static int listen_at(cl_rendezvous *rendezvous, const address *a)
{
    int reason = ce_inet_bind(&a->any, a->any.sa_family == AF_INET6 ? sizeof a->six : sizeof a->four, &rendezvous->fd);
    if (reason == 0 && listen(rendezvous->fd, SOMAXCONN) < 0) {
        reason = errno;
        close(rendezvous->fd);
        rendezvous->fd = -1;
    }
    if (reason)
        return reason;
    rendezvous->port = ce_inet_port(rendezvous->fd);
    rendezvous->listens = true;
    return 0;
}

static int explain(const cl_plan *plan, int port, int reason)
{
    char owner[160] = "";
    if (reason == EADDRINUSE) {
        cl_owner_of_port(port, owner, 128);
        return cl_codes_fail(CL_CODE_SLOTS,
                             "--master_port %d: %s; another job of this machine needs another --master_port, the same "
                             "on all its nodes",
                             port,
                             *owner ? strcat(owner, " listens there")
                                    : "a process uses it without listening there now, such as a job that has all its "
                                      "nodes");
    }
    return cl_codes_fail(CL_CODE_SYSTEM, "cannot listen on %s port %d: %s",
                         *plan->master_addr ? plan->master_addr : "any address", port, ce_reason(reason));
}

static int listen_for(cl_rendezvous *rendezvous, const cl_plan *plan)
{
    address a;
    int port = plan->master_port, code = 0;
    read_address(plan->master_addr, &a);
    if (plan->options->master_if)
        code = find_interface(plan->options->master_if, &a);
    if (code)
        return code;
    if (plan->options->insecure_join)
        setenv("CSPEED_INSECURE_JOIN", "1", 1);
    if (ce_join_allow(&a.any, rendezvous->keyed) != CS_OK)
        return cl_codes_fail(CL_CODE_USAGE,
                             "nodes on other hosts must prove that they belong to the job: put the same random text "
                             "(openssl rand -hex 32) into CSPEED_SECRET, or a file for --secret_file, mode 0600, on "
                             "every node; --insecure_join turns this off");
    rendezvous->port_given = port != 0;
    set_port(&a, port);
    int reason = listen_at(rendezvous, &a);
    return reason ? explain(plan, port, reason) : 0;
}

static int build(cl_rendezvous *rendezvous, const cl_plan *plan)
{
    rendezvous->fd = -1;
    if (strlen(cl_rendezvous_job(plan)) > CE_JOIN_JOB)
        return cl_codes_fail(CL_CODE_USAGE, "--job_id: at most %d bytes", CE_JOIN_JOB);
    snprintf(rendezvous->job, sizeof rendezvous->job, "%s", cl_rendezvous_job(plan));
    int code = cl_secret_key(rendezvous->key, &rendezvous->keyed);
    return code ? code : listen_for(rendezvous, plan);
}

int cl_rendezvous_open(cl_rendezvous **rendezvous, const cl_plan *plan)
{
    *rendezvous = ce_must_alloc(sizeof **rendezvous);
    int code = build(*rendezvous, plan);
    if (code) {
        cl_rendezvous_close(*rendezvous);
        *rendezvous = NULL;
    }
    return code;
}

static void close_connections(cl_rendezvous *rendezvous)
{
    for (; rendezvous->connection_count > 0; rendezvous->connection_count--)
        close(rendezvous->connections[rendezvous->connection_count - 1].fd);
}

static void stop_listening(cl_rendezvous *rendezvous)
{
    close_connections(rendezvous);
    if (rendezvous->fd >= 0)
        close(rendezvous->fd);
    rendezvous->fd = -1;
    rendezvous->listens = false;
}

/* Starts or stops listening.
 *
 * How listening stops depends on who chose the port. If the kernel chose the port, the socket is closed: a node that
 * knows the port connects only once. Otherwise (port_given) the socket is shut down: the socket remains bound to the
 * port, refuses connections, and can listen again.
 *
 * While the socket does not listen, SO_REUSEADDR is off, so that no other socket can be bound to the port. Before the
 * socket listens, SO_REUSEADDR is switched on, because listening would otherwise fail while connections to the port
 * still exist. */
void cl_rendezvous_listen(cl_rendezvous *rendezvous, bool wanted)
{
    int reuse = wanted;
    if (rendezvous->fd < 0 || rendezvous->listens == wanted)
        return;
    setsockopt(rendezvous->fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
    if (wanted) {
        rendezvous->listens = listen(rendezvous->fd, SOMAXCONN) == 0;
        if (!rendezvous->listens && !rendezvous->reported)
            add_report(rendezvous, "no more nodes can join: cannot listen on port %d again: %s", rendezvous->port,
                       strerror(errno));
        rendezvous->reported = !rendezvous->listens;
        return;
    }
    close_connections(rendezvous);
    rendezvous->listens = false;
    if (!rendezvous->port_given || shutdown(rendezvous->fd, SHUT_RD) < 0)
        stop_listening(rendezvous);
}

void cl_rendezvous_share_port(cl_rendezvous *rendezvous)
{
    int on = 1;
    cl_rendezvous_listen(rendezvous, false);
    setsockopt(rendezvous->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
}

void cl_rendezvous_close(cl_rendezvous *rendezvous)
{
    if (!rendezvous)
        return;
    stop_listening(rendezvous);
    ce_mac_forget(rendezvous->key, sizeof rendezvous->key);
    free(rendezvous);
}

int cl_rendezvous_port(const cl_rendezvous *rendezvous)
{
    return rendezvous->port;
}

/* ---- connections ---- */

static void remove_connection(cl_rendezvous *rendezvous, connection *client)
{
    /* the last entry takes the place of the removed one */
    *client = rendezvous->connections[--rendezvous->connection_count];
}

/* Reports a refused caller, once for each address. If the list of addresses is full, its oldest address is removed. */
static void refuse(cl_rendezvous *rendezvous, const connection *client, const char *why)
{
    int known = rendezvous->refused_count < MAX_REFUSED ? rendezvous->refused_count : MAX_REFUSED;
    for (int i = 0; i < known; i++)
        if (strcmp(rendezvous->refused[i], client->address) == 0)
            return;
    char address_text[INET6_ADDRSTRLEN];
    memcpy(address_text, client->address, sizeof address_text);
    memcpy(rendezvous->refused[rendezvous->refused_count++ % MAX_REFUSED], address_text, sizeof address_text);
    add_report(rendezvous, "refused a connection from %s: %s (reported once for each address)", address_text, why);
}

const char *cl_rendezvous_report(cl_rendezvous *rendezvous)
{
    return rendezvous->reports_taken < rendezvous->report_count
               ? rendezvous->reports[rendezvous->reports_taken++ % MAX_REPORTS]
               : NULL;
}

/* Returns the connection to drop: the oldest that has not named a job yet, or else the oldest of all. */
static connection *find_oldest(cl_rendezvous *rendezvous)
{
    connection *oldest = &rendezvous->connections[0];
    for (connection *client = oldest + 1; client < rendezvous->connections + rendezvous->connection_count; client++) {
        bool heard = ce_join_heard(&client->join), oldest_heard = ce_join_heard(&oldest->join);
        if (heard == oldest_heard ? client->number < oldest->number : oldest_heard)
            oldest = client;
    }
    return oldest;
}

static void drop_oldest(cl_rendezvous *rendezvous)
{
    connection *oldest = find_oldest(rendezvous);
    refuse(rendezvous, oldest, "it had not joined when too many others called");
    close(oldest->fd);
    remove_connection(rendezvous, oldest);
}

static void add_connection(cl_rendezvous *rendezvous, int fd, const address *from)
{
    int on = 1;
    if (rendezvous->connection_count == MAX_CONNECTIONS)
        drop_oldest(rendezvous);
    connection *client = &rendezvous->connections[rendezvous->connection_count++];
    client->fd = fd;
    client->number = rendezvous->accepted_count++;
    name_address(from, client->address);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ce_join_begin(&client->join, false, rendezvous->keyed ? rendezvous->key : NULL, rendezvous->job, CE_JOIN_NODES,
                  "front", 5);
}

static bool has_waiting(const cl_rendezvous *rendezvous)
{
    return poll(&(struct pollfd){ .fd = rendezvous->fd, .events = POLLIN }, 1, 0) > 0;
}

/* Accepts one connection. Returns 0, or an errno value. EAGAIN means that no connection is pending; any other value
 * means that this process or the system has run out of resources. */
static int accept_one(cl_rendezvous *rendezvous)
{
    address from = { 0 };
    socklen_t length = sizeof from;
    int fd = accept4(rendezvous->fd, &from.any, &length, SOCK_CLOEXEC | SOCK_NONBLOCK), reason = errno;
    if (fd >= 0) {
        add_connection(rendezvous, fd, &from);
        return 0;
    }
    bool exhausted = reason == EMFILE || reason == ENFILE || reason == ENOBUFS || reason == ENOMEM;
    if (!exhausted ||
        !has_waiting(rendezvous)) /* if no descriptor is free, accept fails even if no connection is pending */
        return EAGAIN;
    if (reason != EMFILE || rendezvous->connection_count == 0)
        return reason;
    drop_oldest(rendezvous); /* frees a descriptor, because the next caller may be a node */
    return 0;
}

int cl_rendezvous_accept(cl_rendezvous *rendezvous)
{
    int64_t began = ce_clock_now();
    int count = 0, reason = 0;
    if (!rendezvous->listens || began < rendezvous->paused_until)
        return 0;
    while (reason == 0 && count++ < MAX_ACCEPTED)
        reason = accept_one(rendezvous);
    if (reason == EAGAIN)
        return 0;
    int64_t now = ce_clock_now();
    rendezvous->paused_until = now + (reason ? CE_SECOND : PAUSE_FACTOR * (now - began));
    return reason ? cl_codes_fail(CL_CODE_SYSTEM, "no more nodes can be accepted: %s", ce_reason(reason)) : 0;
}

/* Parses NODE_RANK NUL HOST NUL DIGEST SPACE RANKS NUL. The handshake (security/join.h) has put a zero byte after these
 * bytes. */
static bool read_identity(const ce_join *join, cl_joined_node *node)
{
    const char *text = (const char *)join->peer, *host = text + strlen(text) + 1, *end = text + join->peer_bytes;
    if (host >= end || host + strlen(host) + 1 >= end)
        return false;
    node->node_rank = atoi(text);
    snprintf(node->host, sizeof node->host, "%s", host);
    char *ranks;
    node->digest = strtoull(host + strlen(host) + 1, &ranks, 16);
    node->ranks = atoi(ranks);
    return true;
}

static bool admit(const cl_rendezvous *rendezvous, const connection *client, cl_joined_node *node)
{
    *node = (cl_joined_node){ .fd = client->fd, .sealed = rendezvous->keyed };
    memcpy(node->key, client->join.session, sizeof node->key);
    memcpy(node->own_address, client->address, sizeof client->address);
    address here = { 0 };
    if (getsockname(client->fd, &here.any, &(socklen_t){ sizeof here }) == 0)
        name_address(&here, node->front_address);
    return read_identity(&client->join, node);
}

bool cl_rendezvous_advance(cl_rendezvous *rendezvous, cl_joined_node *node)
{
    for (int i = 0; i < rendezvous->connection_count;) {
        connection *client = &rendezvous->connections[i];
        ce_join_state state = ce_join_advance(&client->join, client->fd);
        if (state == CE_JOIN_WAITS) {
            i++;
            continue;
        }
        bool joined = state == CE_JOIN_DONE && admit(rendezvous, client, node);
        if (!joined) {
            refuse(rendezvous, client, state == CE_JOIN_DONE ? "it does not say who it is" : cs_error());
            close(client->fd);
            ce_clear_error(); /* the error of a handshake with an unknown program is not an error of the job */
        }
        remove_connection(rendezvous, client);
        if (joined)
            return true;
    }
    return false;
}

int cl_rendezvous_poll(const cl_rendezvous *rendezvous, struct pollfd *polled, int max)
{
    int count = 0;
    if (max > 0 && rendezvous->listens && ce_clock_now() >= rendezvous->paused_until)
        polled[count++] = (struct pollfd){ .fd = rendezvous->fd, .events = POLLIN };
    for (int i = 0; i < rendezvous->connection_count && count < max; i++)
        polled[count++] = (struct pollfd){ .fd = rendezvous->connections[i].fd,
                                           .events = ce_join_events(&rendezvous->connections[i].join) };
    return count;
}

int64_t cl_rendezvous_due(const cl_rendezvous *rendezvous)
{
    return rendezvous->listens && ce_clock_now() < rendezvous->paused_until ? rendezvous->paused_until : INT64_MAX;
}
