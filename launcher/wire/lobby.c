/* lobby.c - The front's side of the rendezvous: listens on a port and authenticates the nodes that connect. */
#include "wire/lobby.h"

#include "codes.h"
#include "wire/owner.h"
#include "wire/secret.h"

#include "base/clock.h"
#include "base/join.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

/* MOST_ACCEPTED limits the connections accepted in one iteration of the front's loop, which also serves links,
 * signals and deadlines. If more are pending, the next ones are accepted only after REST times the duration that
 * these took, so that the front sleeps in between. */
enum {
    MOST_CALLS = 128,
    MOST_ACCEPTED = 64,
    REST = 4,
    MOST_NEWS = 32,
    MOST_REFUSED = 64,
    NEWS_BYTES = 512,
    DEFAULT_PORT = 29500
};

typedef struct {
    int fd;
    uint64_t number; /* serial number of the connection: lower is older */
    ce_join join;
    char address[INET6_ADDRSTRLEN];
} caller;

struct cl_lobby {
    int fd, port;
    bool keyed, named;      /* named: the user chose the port, not the kernel */
    bool listens, reported; /* reported: the user was told that the port could not be reopened */
    unsigned char key[CS_MAC_BYTES];
    char job[CS_JOIN_JOB + 1];
    caller calls[MOST_CALLS]; /* unordered */
    int call_count;
    uint64_t connections;                         /* accepted so far */
    int64_t rests_until;                          /* time of ce_clock_now before which none is accepted */
    char refused[MOST_REFUSED][INET6_ADDRSTRLEN]; /* addresses whose refusal was reported */
    int refused_count;
    char news[MOST_NEWS][NEWS_BYTES];
    int news_count, news_taken;
};

/* Queues a line for the user; drops it if the queue is full. */
static void __attribute__((format(printf, 2, 3))) add_news(cl_lobby *lobby, const char *format, ...)
{
    va_list arguments;
    if (lobby->news_count - lobby->news_taken == MOST_NEWS)
        return;
    va_start(arguments, format);
    vsnprintf(lobby->news[lobby->news_count++ % MOST_NEWS], NEWS_BYTES, format, arguments);
    va_end(arguments);
}

/* ---- where to listen --------------------------------------------------------------------------- */

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

static int find_interface(const char *name, address *a)
{
    struct ifaddrs *all = NULL;
    bool found = false;
    if (getifaddrs(&all) < 0)
        return cl_codes_fail(CL_CODE_SYSTEM, "the interfaces of this machine cannot be read: %s", strerror(errno));
    for (const struct ifaddrs *i = all; i && !(found && a->any.sa_family == AF_INET); i = i->ifa_next) {
        int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
        if (strcmp(i->ifa_name, name) != 0 || (family != AF_INET && family != AF_INET6))
            continue;
        memcpy(a, i->ifa_addr, family == AF_INET ? sizeof a->four : sizeof a->six);
        found = true;
    }
    freeifaddrs(all);
    if (!found)
        return cl_codes_fail(CL_CODE_USAGE, "--master_if %s: this machine has no such interface with an address", name);
    return 0;
}

int cl_lobby_interface(const char *name, char *text, size_t room)
{
    address a = { 0 };
    char found[INET6_ADDRSTRLEN];
    int code = find_interface(name, &a);
    if (code)
        return code;
    name_address(&a, found);
    snprintf(text, room, "%s", found);
    return 0;
}

/* Parses the address to listen on. A numeric address is used as it is. A host name may resolve to a different
 * address on each machine, so it means all interfaces. */
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

static bool is_any(const address *a)
{
    return a->any.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&a->six.sin6_addr);
}

/* Returns 0, or an errno value. */
static int listen_at(cl_lobby *lobby, const address *a)
{
    int on = 1, off = 0;
    address bound;
    socklen_t length = sizeof bound;
    lobby->fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (lobby->fd < 0)
        return errno;
    setsockopt(lobby->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (is_any(a))
        setsockopt(lobby->fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    if (bind(lobby->fd, &a->any, a->any.sa_family == AF_INET6 ? sizeof a->six : sizeof a->four) < 0 ||
        listen(lobby->fd, SOMAXCONN) < 0 || getsockname(lobby->fd, &bound.any, &length) < 0) {
        int reason = errno;
        close(lobby->fd);
        lobby->fd = -1;
        return reason;
    }
    lobby->port = ntohs(bound.any.sa_family == AF_INET6 ? bound.six.sin6_port : bound.four.sin_port);
    lobby->listens = true;
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
                                    : "it is held by a process that does not listen there now, such as a job "
                                      "that has all its nodes");
    }
    return cl_codes_fail(CL_CODE_SYSTEM, "cannot listen on %s port %d: %s",
                         *plan->master_addr ? plan->master_addr : "any address", port, ce_reason(reason));
}

static int listen_for(cl_lobby *lobby, const cl_plan *plan)
{
    address a;
    int port = plan->master_port > 0 ? plan->master_port : plan->no_ssh ? DEFAULT_PORT : 0, code = 0;
    read_address(plan->master_addr, &a);
    if (plan->options->master_if)
        code = find_interface(plan->options->master_if, &a);
    if (code)
        return code;
    if (plan->options->insecure_join)
        setenv("CSPEED_INSECURE_JOIN", "1", 1);
    if (ce_join_allow(&a.any, lobby->keyed) != CS_OK)
        return cl_codes_fail(CL_CODE_USAGE,
                             "nodes on other hosts must prove that they are of the job: put the same random "
                             "text (openssl rand -hex 32) into CSPEED_SECRET, or a file for --secret_file, mode "
                             "0600, on every node; --insecure_join does without");
    lobby->named = port != 0;
    set_port(&a, port);
    int reason = listen_at(lobby, &a);
    if (reason == EAFNOSUPPORT && is_any(&a)) { /* a kernel without IPv6 */
        a = (address){ .four = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) } };
        reason = listen_at(lobby, &a);
    }
    return reason ? explain(plan, port, reason) : 0;
}

static int build(cl_lobby *lobby, const cl_plan *plan)
{
    lobby->fd = -1;
    if (strlen(cl_lobby_job(plan)) > CS_JOIN_JOB)
        return cl_codes_fail(CL_CODE_USAGE, "--job_id: at most %d bytes", CS_JOIN_JOB);
    snprintf(lobby->job, sizeof lobby->job, "%s", cl_lobby_job(plan));
    int code = cl_secret_key(lobby->key, &lobby->keyed);
    return code ? code : listen_for(lobby, plan);
}

int cl_lobby_open(cl_lobby **lobby, const cl_plan *plan)
{
    *lobby = calloc(1, sizeof **lobby);
    if (!*lobby)
        return cl_codes_fail(CL_CODE_SYSTEM, "no memory for the nodes that join");
    int code = build(*lobby, plan);
    if (code) {
        cl_lobby_close(*lobby);
        *lobby = NULL;
    }
    return code;
}

static void close_calls(cl_lobby *lobby)
{
    for (; lobby->call_count > 0; lobby->call_count--)
        close(lobby->calls[lobby->call_count - 1].fd);
}

static void stop_listening(cl_lobby *lobby)
{
    close_calls(lobby);
    if (lobby->fd >= 0)
        close(lobby->fd);
    lobby->fd = -1;
    lobby->listens = false;
}

/* A socket that is shut down remains bound, and refuses connections until it listens again. Without SO_REUSEADDR no
 * other socket can be bound to its port meanwhile; with it, the socket can listen again even if connections of that
 * port remain. A port chosen by the kernel would be lost by this; the nodes that were told that port connect only
 * once, so such a socket is closed instead. */
void cl_lobby_listen(cl_lobby *lobby, bool wanted)
{
    int reuse = wanted;
    if (lobby->fd < 0 || lobby->listens == wanted)
        return;
    setsockopt(lobby->fd, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse);
    if (wanted) {
        lobby->listens = listen(lobby->fd, SOMAXCONN) == 0;
        if (!lobby->listens && !lobby->reported)
            add_news(lobby, "no more nodes can join: cannot listen on port %d again: %s", lobby->port, strerror(errno));
        lobby->reported = !lobby->listens;
        return;
    }
    close_calls(lobby);
    lobby->listens = false;
    if (!lobby->named || shutdown(lobby->fd, SHUT_RD) < 0)
        stop_listening(lobby);
}

void cl_lobby_lend(cl_lobby *lobby)
{
    int on = 1;
    cl_lobby_listen(lobby, false);
    setsockopt(lobby->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
}

void cl_lobby_close(cl_lobby *lobby)
{
    if (!lobby)
        return;
    stop_listening(lobby);
    ce_mac_forget(lobby->key, sizeof lobby->key);
    free(lobby);
}

int cl_lobby_port(const cl_lobby *lobby)
{
    return lobby->port;
}

/* ---- connections ------------------------------------------------------------------------------- */

static void forget_call(cl_lobby *lobby, caller *call)
{
    *call = lobby->calls[--lobby->call_count]; /* the last entry moves into the gap */
}

/* Reports a refused caller, once for each address. The oldest address is forgotten first if the list is full. */
static void refuse(cl_lobby *lobby, const caller *call, const char *why)
{
    int known = lobby->refused_count < MOST_REFUSED ? lobby->refused_count : MOST_REFUSED;
    for (int i = 0; i < known; i++)
        if (strcmp(lobby->refused[i], call->address) == 0)
            return;
    char address_text[INET6_ADDRSTRLEN];
    memcpy(address_text, call->address, sizeof address_text);
    memcpy(lobby->refused[lobby->refused_count++ % MOST_REFUSED], address_text, sizeof address_text);
    add_news(lobby, "refused a caller from %s: %s (reported once for each address)", address_text, why);
}

const char *cl_lobby_news(cl_lobby *lobby)
{
    return lobby->news_taken < lobby->news_count ? lobby->news[lobby->news_taken++ % MOST_NEWS] : NULL;
}

/* Returns the caller to drop: the oldest that has not yet named a job, otherwise the oldest. */
static caller *find_oldest(cl_lobby *lobby)
{
    caller *oldest = &lobby->calls[0];
    for (caller *call = oldest + 1; call < lobby->calls + lobby->call_count; call++) {
        bool heard = ce_join_heard(&call->join), oldest_heard = ce_join_heard(&oldest->join);
        if (heard == oldest_heard ? call->number < oldest->number : oldest_heard)
            oldest = call;
    }
    return oldest;
}

static void dismiss_oldest(cl_lobby *lobby)
{
    caller *oldest = find_oldest(lobby);
    refuse(lobby, oldest, "it had not joined when too many others called");
    close(oldest->fd);
    forget_call(lobby, oldest);
}

static void add_call(cl_lobby *lobby, int fd, const address *from)
{
    int on = 1;
    if (lobby->call_count == MOST_CALLS)
        dismiss_oldest(lobby);
    caller *call = &lobby->calls[lobby->call_count++];
    call->fd = fd;
    call->number = lobby->connections++;
    name_address(from, call->address);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ce_join_begin(&call->join, false, lobby->keyed ? lobby->key : NULL, lobby->job, CS_JOIN_NODES, "front", 5);
}

static bool has_waiting(const cl_lobby *lobby)
{
    return poll(&(struct pollfd){ .fd = lobby->fd, .events = POLLIN }, 1, 0) > 0;
}

/* Accepts one connection. Returns 0, or an errno value: EAGAIN if none is pending; any other means that this process
 * or the system has run out of resources. */
static int accept_one(cl_lobby *lobby)
{
    address from = { 0 };
    socklen_t length = sizeof from;
    int fd = accept4(lobby->fd, &from.any, &length, SOCK_CLOEXEC | SOCK_NONBLOCK), reason = errno;
    if (fd >= 0) {
        add_call(lobby, fd, &from);
        return 0;
    }
    bool exhausted = reason == EMFILE || reason == ENFILE || reason == ENOBUFS || reason == ENOMEM;
    if (!exhausted || !has_waiting(lobby)) /* without a free descriptor accept fails even if no connection is pending */
        return EAGAIN;
    if (reason != EMFILE || lobby->call_count == 0)
        return reason;
    dismiss_oldest(lobby); /* frees a descriptor for a caller that may be a node */
    return 0;
}

int cl_lobby_accept(cl_lobby *lobby)
{
    int64_t began = ce_clock_now();
    int count = 0, reason = 0;
    if (!lobby->listens || began < lobby->rests_until)
        return 0;
    while (reason == 0 && count++ < MOST_ACCEPTED)
        reason = accept_one(lobby);
    if (reason == EAGAIN)
        return 0;
    int64_t now = ce_clock_now();
    lobby->rests_until = now + (reason ? SECOND : REST * (now - began));
    return reason ? cl_codes_fail(CL_CODE_SYSTEM, "no more nodes can be accepted: %s", ce_reason(reason)) : 0;
}

/* Parses NODE_RANK NUL HOST NUL DIGEST NUL. The join has already terminated the bytes with a zero. */
static bool read_identity(const ce_join *join, cl_guest_node *guest)
{
    const char *text = (const char *)join->peer, *host = text + strlen(text) + 1, *end = text + join->peer_bytes;
    if (host >= end || host + strlen(host) + 1 >= end)
        return false;
    guest->node_rank = atoi(text);
    snprintf(guest->host, sizeof guest->host, "%s", host);
    guest->digest = strtoull(host + strlen(host) + 1, NULL, 16);
    return true;
}

static bool admit(const cl_lobby *lobby, const caller *call, cl_guest_node *guest)
{
    *guest = (cl_guest_node){ .fd = call->fd, .sealed = lobby->keyed };
    memcpy(guest->key, call->join.session, sizeof guest->key);
    return read_identity(&call->join, guest);
}

bool cl_lobby_serve(cl_lobby *lobby, cl_guest_node *guest)
{
    for (int i = 0; i < lobby->call_count;) {
        caller *call = &lobby->calls[i];
        ce_join_state state = ce_join_advance(&call->join, call->fd);
        if (state == CS_JOIN_WAITS) {
            i++;
            continue;
        }
        bool joined = state == CS_JOIN_DONE && admit(lobby, call, guest);
        if (!joined) {
            refuse(lobby, call, state == CS_JOIN_DONE ? "it does not say who it is" : cs_error());
            close(call->fd);
            ce_clear_error(); /* a failed handshake of a stranger is not a failure of the job */
        }
        forget_call(lobby, call);
        if (joined)
            return true;
    }
    return false;
}

int cl_lobby_poll(const cl_lobby *lobby, struct pollfd *polled, int max)
{
    int count = 0;
    if (max > 0 && lobby->listens && ce_clock_now() >= lobby->rests_until)
        polled[count++] = (struct pollfd){ .fd = lobby->fd, .events = POLLIN };
    for (int i = 0; i < lobby->call_count && count < max; i++)
        polled[count++] = (struct pollfd){ .fd = lobby->calls[i].fd, .events = ce_join_events(&lobby->calls[i].join) };
    return count;
}

int64_t cl_lobby_due(const cl_lobby *lobby)
{
    return lobby->listens && ce_clock_now() < lobby->rests_until ? lobby->rests_until : INT64_MAX;
}
