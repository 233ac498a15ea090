/* rendezvous_join.c - the node's side of the rendezvous: connects to the front process, with retries. */
#include "ground/codes.h"
#include "wire/rendezvous.h"
#include "wire/secret.h"

#include "base/clock.h"
#include "base/inet.h"
#include "security/join.h"
#include "base/status.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REMIND_SECONDS = 10, CONNECT_SECONDS = 5, PAUSE_MILLISECONDS = 100, LONG_PAUSE_MILLISECONDS = 500 };

typedef struct {
    const cl_join_parameters *parameters;
    bool keyed;
    unsigned char key[CE_MAC_BYTES];
    double began, remind_at;
    char why[256]; /* the reason why the front process has not answered yet */
} attempt;

/* Returns a blocked signal that is pending and asks this process to end; 0: there is none. */
static int pending_signal(void)
{
    static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    sigset_t pending;
    sigpending(&pending);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (sigismember(&pending, ends[i]) == 1)
            return ends[i];
    return 0;
}

static void remind(attempt *c)
{
    double now = ce_clock_seconds();
    if (now < c->remind_at)
        return;
    c->remind_at = now + REMIND_SECONDS;
    fprintf(stderr,
            "cspeed: node %d (%s) waits for the first node at %s port %d: %s; %.0f s of %.0f (--rdzv_timeout)\n",
            c->parameters->node_rank, c->parameters->host, c->parameters->address, c->parameters->port, c->why,
            now - c->began, c->parameters->timeout_seconds);
}

/* Returns true if the attempts to connect shall end. */
static bool is_over(void *context)
{
    attempt *c = context;
    remind(c);
    return pending_signal() || ce_clock_seconds() > c->began + c->parameters->timeout_seconds;
}

/* Waits until the socket is ready, in intervals of a fraction of a second. Returns false if the deadline has passed or
 * a signal is pending. */
static bool await(attempt *c, int fd, short events, double until)
{
    while (ce_clock_seconds() < until && !is_over(c))
        if (poll(&(struct pollfd){ .fd = fd, .events = events }, 1, PAUSE_MILLISECONDS) > 0)
            return true;
    return false;
}

static const char shared_or_absent[] =
    ": cspeed is not running there yet, or the ranks of its job run and have the port; "
    "then this node comes when the next attempt begins";
static const char shared_answer[] = "it is not cspeed's first node that answers now: the ranks of the job run and have "
                                    "the port; this node comes when the next attempt begins";

/* Connects to one of the addresses of the front process. *fd receives the socket, or -1 if no address answered. */
static int connect_to_front(attempt *c, int *fd)
{
    struct addrinfo *all = NULL, hints = { .ai_socktype = SOCK_STREAM };
    char service[16];
    int reason, on = 1;
    *fd = -1;
    snprintf(service, sizeof service, "%d", c->parameters->port);
    int unresolved = getaddrinfo(c->parameters->address, service, &hints, &all);
    if (unresolved) { /* the name may become resolvable later, as the name of a Kubernetes pod does */
        snprintf(c->why, sizeof c->why, "the name cannot be resolved: %s", gai_strerror(unresolved));
        return 0;
    }
    for (const struct addrinfo *a = all; a; a = a->ai_next) {
        if (ce_join_allow(a->ai_addr, c->keyed) != CS_OK) {
            freeaddrinfo(all);
            return cl_codes_fail(CL_CODE_USAGE,
                                 "joining %s needs the secret of the job: set CSPEED_SECRET or give --secret_file, "
                                 "the same on every node; --insecure_join turns this off",
                                 c->parameters->address);
        }
    }
    reason = ce_inet_connect(all, CONNECT_SECONDS, is_over, c, fd);
    freeaddrinfo(all);
    if (*fd >= 0)
        setsockopt(*fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (*fd < 0)
        snprintf(c->why, sizeof c->why, "%s%s", reason == ETIMEDOUT ? "no answer" : ce_reason(reason),
                 reason != ECONNREFUSED       ? ""
                 : c->parameters->port_shared ? shared_or_absent
                                              : ": cspeed is not running there yet, or its job has all its nodes");
    return 0;
}

static bool has_hung_up(int fd)
{
    char byte;
    ssize_t count = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
}

/* Runs the handshake on an open connection. If it returns 0 and *joined is false, the caller must connect again. */
static int run_handshake(attempt *c, int fd, cl_joined_node *node, bool *joined)
{
    ce_join join;
    char identity[CE_JOIN_IDENTITY];
    int length = snprintf(identity, sizeof identity, "%d%c%.200s%c%llx %d%c", c->parameters->node_rank, 0,
                          c->parameters->host, 0, c->parameters->digest, c->parameters->ranks, 0);
    ce_join_state state = CE_JOIN_WAITS;
    if (ce_join_begin(&join, true, c->keyed ? c->key : NULL, c->parameters->job, CE_JOIN_NODES, identity,
                      (size_t)length) != CS_OK)
        return CL_CODE_USAGE;
    snprintf(c->why, sizeof c->why, "%s",
             c->parameters->port_shared ? shared_answer : "it accepted the connection and closed it");
    while (state == CE_JOIN_WAITS) {
        state = ce_join_advance(&join, fd);
        if (state == CE_JOIN_WAITS && !await(c, fd, ce_join_events(&join), join.deadline + 1))
            break;
        if (state == CE_JOIN_WAITS && has_hung_up(fd))
            /* the front process is ending, or a forwarded port answers although the front process does not listen yet
             */
            break;
    }
    *joined = state == CE_JOIN_DONE;
    if (state == CE_JOIN_REFUSED && !join.silent && !(join.elsewhere && c->parameters->port_shared)) {
        char why[512];
        snprintf(why, sizeof why, "%s", cs_error());
        return cl_codes_fail(CL_CODE_DISAGREE, "%s port %d: %s", c->parameters->address, c->parameters->port, why);
    }
    *node = (cl_joined_node){
        .fd = fd, .sealed = c->keyed, .node_rank = c->parameters->node_rank, .digest = c->parameters->digest
    };
    memcpy(node->key, join.session, sizeof node->key);
    snprintf(node->host, sizeof node->host, "%s", c->parameters->host);
    return 0;
}

static int give_up(const attempt *c)
{
    int signal = pending_signal();
    if (signal)
        return cl_codes_fail(CL_CODE_SIGNAL + signal, "%s, while waiting for the first node",
                             cl_codes_signal_name(signal));
    return cl_codes_fail(CL_CODE_PEER,
                         "node %d (%s) has not reached the first node at %s port %d in %.0f s (--rdzv_timeout): %s; "
                         "check that cspeed is running there with this --master_port, and that no firewall blocks it",
                         c->parameters->node_rank, c->parameters->host, c->parameters->address, c->parameters->port,
                         c->parameters->timeout_seconds, c->why);
}

int cl_rendezvous_join(const cl_join_parameters *parameters, cl_joined_node *node)
{
    double now = ce_clock_seconds();
    attempt c = { .parameters = parameters,
                  .began = now,
                  .remind_at = now + (parameters->port_shared ? 1 : REMIND_SECONDS) };
    bool joined = false;
    int fd, code = cl_secret_key(c.key, &c.keyed);
    while (code == 0 && !joined) {
        code = connect_to_front(&c, &fd);
        if (code == 0 && fd >= 0)
            code = run_handshake(&c, fd, node, &joined);
        if (joined || code)
            break;
        if (fd >= 0)
            close(fd);
        poll(NULL, 0, fd >= 0 && parameters->port_shared ? LONG_PAUSE_MILLISECONDS : PAUSE_MILLISECONDS);
        if (is_over(&c))
            code = give_up(&c);
    }
    ce_mac_forget(c.key, sizeof c.key);
    return code;
}

const char *cl_rendezvous_job(const cl_plan *plan)
{
    if (!plan->no_ssh)
        return plan->id;
    return plan->options->job_id ? plan->options->job_id : "none";
}

/* Returns true if the ranks use the port to which this node connects. Nodes may then connect again after the ranks have
 * ended. */
static bool is_port_shared(const cl_plan *plan)
{
    bool again = plan->min_nodes < plan->max_nodes || plan->options->max_restarts > 0;
    return again && cl_hostplan_ranks_port(plan) != 0;
}

int cl_rendezvous_join_plan(const cl_plan *plan, cl_joined_node *node)
{
    char host_name[256] = "?";
    const char *host = host_name;
    gethostname(host_name, sizeof host_name - 1);
    bool placed = plan->node_rank >= 0 && plan->node_rank < plan->node_count;
    if (placed)
        host = plan->nodes[plan->node_rank].host->name;
    if (plan->options->insecure_join)
        setenv("CSPEED_INSECURE_JOIN", "1", 1);
    return cl_rendezvous_join(&(cl_join_parameters){ .address = plan->master_addr,
                                                     .port = plan->master_port,
                                                     .job = cl_rendezvous_job(plan),
                                                     .host = host,
                                                     .node_rank = plan->node_rank,
                                                     .ranks =
                                                         plan->nodes[placed ? plan->node_rank : 0].host->slot_count,
                                                     .digest = cl_hostplan_digest(plan),
                                                     .port_shared = is_port_shared(plan),
                                                     .timeout_seconds = plan->options->rdzv_timeout },
                              node);
}
