/* nodes.c - the nodes of a job: handles the messages of their agents, and the loss of a node. */
#include "front/front.h"

#include "base/must.h"
#include "base/plural.h"
#include "ground/codes.h"
#include "ground/command.h"
#include "node/sweep.h"

#include "base/status.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

void cl_nodes_tell(cl_front *front, cl_link_kind kind, uint32_t rank)
{
    for (int i = 0; i < front->plan->node_count; i++)
        if (front->nodes[i].state >= CL_NODE_JOINED && front->nodes[i].state <= CL_NODE_RUNNING)
            cl_link_send(&front->nodes[i].link, kind, rank, NULL, 0);
}

/* ---- the loss of a node ---- */

static void list_spared(const cl_front *front, const cl_node *lost, cl_spared *spared)
{
    const int max = (int)(sizeof spared->list / sizeof *spared->list) - 1;
    spared->count = 0;
    for (int i = 0; i < front->node_total && spared->count < max; i++)
        if (front->nodes[i].pid > 0 && &front->nodes[i] != lost)
            spared->list[spared->count++] = front->nodes[i].pid;
    if (front->starter > 0)
        spared->list[spared->count++] = front->starter;
}

/* Returns true if the child process of the node has ended. If the node's link is broken, waits up to a second, because
 * a process that ends closes its sockets shortly before waitpid can report its end. */
static bool has_ended(const cl_node *node, int *status)
{
    return cl_sweep_await(node->pid, node->link.broken, status);
}

/* Ends the agent of this machine, which is a child of this process, and the processes that this agent left behind,
 * which are now children of this process too. Returns the exit code for the failure. If the agent was killed from
 * outside, `why` receives a sentence about this. */
static int clean_here(cl_front *front, cl_node *node, char why[512])
{
    enum { SECONDS = 10 };
    cl_spared spared;
    int status = 0, code = CL_CODE_PEER;
    if (!has_ended(node, &status)) { /* the agent has not ended although its link is broken: it is suspended */
        kill(node->pid, SIGKILL);
        waitpid(node->pid, NULL, 0);
    } else if (WIFSIGNALED(status)) {
        snprintf(why, 512, "the agent of this machine (pid %d) was killed by %s", node->pid,
                 cl_codes_signal_name(WTERMSIG(status)));
        code = CL_CODE_SIGNAL + WTERMSIG(status);
    }
    node->pid = 0;
    list_spared(front, node, &spared);
    node->left_count = cl_sweep_kill(SECONDS, &spared);
    return code;
}

/* Returns true if a process gets this signal because of a fault in its own program. */
static bool is_fault(int number)
{
    return number == SIGSEGV || number == SIGABRT || number == SIGBUS || number == SIGILL || number == SIGFPE;
}

/* Ends the carrier: the process on this machine that carried the connection to a node. If a signal has already ended
 * the carrier, `why` receives a sentence about this, because the node itself may be healthy. Returns the exit code for
 * the failure. */
static int end_carrier(cl_node *node, int index, char why[512])
{
    int status = 0;
    pid_t pid = node->pid;
    if (!has_ended(node, &status)) {
        kill(pid, SIGTERM); /* node->pid keeps its value, so that the process is reaped after it has ended */
        return CL_CODE_PEER;
    }
    node->pid = 0;
    if (!WIFSIGNALED(status))
        return CL_CODE_PEER;
    snprintf(why, 512,
             "node %d (%s) was lost: the process on this machine that held its SSH connection (pid %d) was killed by "
             "%s",
             index, node->host, pid, cl_codes_signal_name(WTERMSIG(status)));
    return is_fault(WTERMSIG(status)) ? cl_codes_of_status(status) : CL_CODE_PEER;
}

void cl_nodes_lose(cl_front *front, int index, const char *reason)
{
    cl_node *node = &front->nodes[index];
    char why[512];
    int code = CL_CODE_PEER;
    bool took_part = node->state != CL_NODE_SWEPT && index < front->plan->node_count;
    /* A node that has reported its failure needs no second report. Its link is closed, because poll would otherwise
     * report the link again and again. */
    if (node->state == CL_NODE_LOST) {
        cl_link_close(&node->link);
        return;
    }
    snprintf(why, sizeof why, "node %d (%s) was lost: %s", index, node->host, reason);
    if (node->here && node->pid > 0)
        code = clean_here(front, node, why);
    else if (node->pid > 0)
        code = end_carrier(node, index, why);
    node->state = CL_NODE_LOST;
    cl_link_close(&node->link);
    if (front->workers)
        cl_workers_write_off(front, index, ce_clock_now());
    if (took_part && front->phase != CL_OVER)
        cl_front_fail(front, index, code, why);
}

/* ---- messages of the agents ---- */

/* Returns a value NAME=VALUE of a HELLO message; "" if the message has no such name. */
static const char *value_of(const cl_message *message, const char *name)
{
    const char *value = cl_env_find(message->bytes, message->length, name);
    return value ? value : "";
}

/* Refuses a node with another version or with another form of messages. A node with another commit of the same version
 * is reported, but not refused: it understands all messages, and its commit may differ only in its documentation.
 * Builds without git have no commit and are not compared, and a message without a value is not judged. */
static void check_build(cl_front *front, cl_node *node, const cl_message *message)
{
    const char *version = value_of(message, "version"), *commit = value_of(message, "commit"),
               *edition = value_of(message, "edition");
    bool fits = (!*version || strcmp(version, CS_VERSION) == 0) && (!*edition || strcmp(edition, CL_LINK_EDITION) == 0);
    char why[512];
    if (fits && (!*commit || !*cl_commit || strcmp(commit, cl_commit) == 0))
        return;
    snprintf(why, sizeof why, "%s has cspeed %.40s (commit %.60s), this is %s (commit %s)", node->host, version,
             *commit ? commit : "unknown", CS_VERSION, *cl_commit ? cl_commit : "unknown");
    if (fits) {
        cl_output_say(&front->output, "cspeed: warning: %s; the results may differ from those of one build", why);
        return;
    }
    strcat(why, "; install the same version on both");
    cl_front_fail(front, (int)(node - front->nodes), CL_CODE_DISAGREE, why);
}

static void keep_address(char address[64], const char *told)
{
    if (!*address)
        snprintf(address, 64, "%s", told);
}

/* Tells a new node that this node takes part only in the next attempt of the running job (reform.c). Without this
 * message, nothing would be printed on that node until then. */
static void tell_to_wait(cl_front *front, cl_node *node)
{
    bool useful = cl_join_agents_possible(front) > front->plan->node_count;
    CE_FREED char *until = useful
                               ? ce_must_copy("for the next attempt, for which the ranks are ended soon (--last_call)")
                               : ce_must_print("for more nodes, because %s allows no larger world with those there",
                                               cl_world_sizes_limit(&front->world_sizes));
    char text[640];
    snprintf(text, sizeof text,
             "cspeed: node %d (%s) has joined job %s, which is already running with %d rank%s; it waits %s",
             node->place, node->host, front->plan->id, front->plan->rank_count, ce_plural(front->plan->rank_count),
             until);
    cl_link_say(&node->link, CL_LINK_SAY, 0, "%s", text);
    cl_output_say(&front->output, "%s", text);
}

static void take_hello(cl_front *front, cl_node *node, const cl_message *message)
{
    if (node->state != CL_NODE_CALLED)
        return;
    node->state = CL_NODE_JOINED;
    check_build(front, node, message);
    keep_address(node->own_address, value_of(message, "own_address"));
    keep_address(node->front_address, value_of(message, "front_address"));
    if (front->phase == CL_ORDERING || front->phase == CL_RUNNING || front->phase == CL_SETTLING)
        tell_to_wait(front, node);
    /* This node joined after STOP was sent to the other nodes. This node must get STOP too, because the attempt ends
     * only after every joined node of the attempt has sent SWEPT or is lost. */
    if (front->phase == CL_STOPPING)
        cl_link_send(&node->link, CL_LINK_STOP, 0, NULL, 0);
}

static void take_ready(cl_front *front, cl_node *node, const cl_message *message)
{
    const char *binding_text = memchr(message->bytes, '\0', message->length);
    if (!binding_text || node->state != CL_NODE_JOINED)
        return;
    if (node == &front->nodes[0])
        front->master_port = atoi(message->bytes);
    snprintf(node->binding_text, sizeof node->binding_text, "%s", binding_text + 1);
    const char *interface = binding_text + 1 + strlen(binding_text + 1) + 1, *end = message->bytes + message->length;
    snprintf(node->interface, sizeof node->interface, "%s", interface < end ? interface : "");
    node->state = CL_NODE_READY;
}

/* Handles a signal that has asked a node to end. A node that takes no part in the running attempt leaves alone, if the
 * job can go on without it or wait for its replacement. */
static void take_drain(cl_front *front, int index, int number)
{
    cl_node *node = &front->nodes[index];
    char why[512];
    bool runs = front->phase >= CL_ORDERING && front->phase <= CL_STOPPING && index < front->plan->node_count;
    if (node->here) { /* the job ends with the machine of its launcher */
        if (!front->last)
            cl_front_take_signal(front, number, ce_clock_now());
        return;
    }
    node->leaves = number;
    cl_join_agents_say_leaving(node, why);
    if (runs || (!cl_join_agents_is_elastic(front) && front->options->max_restarts == 0)) {
        cl_front_fail(front, index, CL_CODE_SIGNAL + number, why);
        return;
    }
    cl_output_say(&front->output, "cspeed: %s; it leaves job %s, in whose present attempt it has no ranks", why,
                  front->plan->id);
    cl_join_agents_let_go(node);
}

static void take_failure(cl_front *front, int index, const cl_message *message)
{
    cl_node *node = &front->nodes[index];
    char why[512];
    int code = message->rank > 0 && message->rank < 256 ? (int)message->rank : CL_CODE_SYSTEM;
    if (code > CL_CODE_SIGNAL) {
        take_drain(front, index, code - CL_CODE_SIGNAL);
        return;
    }
    snprintf(why, sizeof why, "%s", message->bytes);
    bool joining = node->state == CL_NODE_CALLED, elastic = cl_join_agents_is_elastic(front);
    if (joining)
        node->state = CL_NODE_LOST;
    if (joining && (elastic || front->code))
        cl_output_say(&front->output, "cspeed: %s", why);
    if (joining && elastic)
        return; /* the job runs without this node */
    if (front->phase == CL_ORDERING && cl_join_agents_is_new(front, index)) {
        /* a new node cannot run the program: this attempt ends, and the next attempt begins without the node */
        cl_join_agents_dismiss(&node->link, code, why);
        node->state = CL_NODE_LOST;
        cl_front_fail(front, index, CL_CODE_PEER, why);
        return;
    }
    /* the job does not end yet: other nodes may also have something to report */
    if (joining && front->plan->node_count > 1) {
        if (!front->code) {
            front->first_node = index;
            front->code = code;
            snprintf(front->why, sizeof front->why, "%s", why);
        }
        return;
    }
    cl_front_fail(front, index, code, why);
}

static void take_swept(cl_node *node, const cl_message *message)
{
    if (node->state < CL_NODE_JOINED || node->state > CL_NODE_RUNNING)
        return;
    node->state = CL_NODE_SWEPT;
    node->left_count = (int)message->rank;
    snprintf(node->left, sizeof node->left, "%s", message->bytes);
}

static void take_message(cl_front *front, int index, const cl_message *message, int64_t now)
{
    cl_node *node = &front->nodes[index];
    switch ((int)message->kind) {
    case CL_LINK_HELLO:
        take_hello(front, node, message);
        break;
    case CL_LINK_READY:
        take_ready(front, node, message);
        break;
    case CL_LINK_FAILED:
        take_failure(front, index, message);
        break;
    case CL_LINK_SAY:
        cl_output_say(&front->output, "%s", message->bytes);
        break;
    case CL_LINK_BEATS:
        cl_workers_take_beats(front, message, now);
        break;
    case CL_LINK_SWEPT:
        take_swept(node, message);
        break;
    default:
        if (message->rank < (uint32_t)front->worker_count && front->workers[message->rank].node == index)
            cl_workers_take(front, (int)message->rank, message, now);
    }
}

static void listen_to(cl_front *front, int index, int64_t now)
{
    cl_node *node = &front->nodes[index];
    int64_t dead_after = ce_clock_span(front->options->dead_after);
    cl_message message;
    char why[256];
    if (!cl_link_is_open(&node->link))
        return;
    cl_link_fill(&node->link, now);
    while (cl_link_next(&node->link, &message))
        take_message(front, index, &message, now);
    if (node->link.broken) {
        snprintf(why, sizeof why, "%s", node->link.why);
        cl_nodes_lose(front, index, why);
    } else if (node->state >= CL_NODE_JOINED && dead_after > 0 && now - node->link.heard > dead_after) {
        snprintf(why, sizeof why,
                 "no message came from it for %.0f s (--dead_after): its network is interrupted, or the machine hangs",
                 front->options->dead_after);
        cl_nodes_lose(front, index, why);
    }
}

/* Tells each agent by the message CREDIT how many bytes of its output have been shown, so that the agent may send
 * more. */
static void give_credit(cl_front *front)
{
    if (!cl_output_has_room(&front->output))
        return;
    for (int i = 0; i < front->node_total; i++)
        if (front->nodes[i].shown) {
            cl_link_send(&front->nodes[i].link, CL_LINK_CREDIT, (uint32_t)front->nodes[i].shown, NULL, 0);
            front->nodes[i].shown = 0;
        }
}

void cl_nodes_listen(cl_front *front, int64_t now)
{
    for (int i = 0; i < front->node_total; i++)
        listen_to(front, i, now);
    give_credit(front);
    if (now >= front->heartbeat_at) {
        front->heartbeat_at = now + ce_clock_span(front->options->heartbeat);
        for (int i = 0; i < front->node_total; i++)
            cl_link_send(&front->nodes[i].link, CL_LINK_PING, 0, NULL, 0);
    }
}
