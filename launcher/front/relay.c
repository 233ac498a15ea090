/* relay.c - the relay: the launcher process on each node of a --no_ssh job except the first node. */
#include "front/relay.h"

#include "node/agent.h"
#include "ground/codes.h"
#include "wire/rendezvous.h"
#include "show/output.h"
#include "node/sweep.h"

#include "base/clock.h"
#include "base/must.h"
#include "base/status.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    cl_plan *plan;
    cl_link front, agent;
    pid_t agent_pid;
    cl_output output;
    char job[64];     /* the id of the job, "" until the first order */
    uint64_t shown;   /* bytes of output that were shown since CREDIT was last sent to the agent */
    cl_message last;  /* the content of the FINISH message from the front process */
    int64_t signaled; /* when a signal first asked this node to end, in CLOCK_MONOTONIC nanoseconds; 0: none did */
    bool finished;
    int code;
} relay;

static void release(void *owner)
{
    cl_link_close(&((relay *)owner)->front);
}

/* Reduces the plan to the nodes of this attempt, which the order lists. The console needs this plan, because output
 * lines begin with the name of their rank. */
static int take_world(relay *here, const cl_order *order)
{
    int code = cl_hostplan_cut(here->plan, order->places, order->node_count);
    if (code == 0 && here->plan->rank_count != order->world_size)
        code = cl_codes_fail(CL_CODE_DISAGREE,
                             "a message from the first node says %d ranks, but its nodes have slots for %d",
                             order->world_size, here->plan->rank_count);
    return code ? code : cl_output_rank(&here->output);
}

/* Sends the order to this node's agent. The program to run does not come from the network, but from this node's own
 * command line. */
static void hand_to_agent(relay *here, cl_order *order)
{
    size_t length;
    char **theirs = order->arguments;
    const char *script = here->plan->options->venv_script;
    order->arguments = here->plan->arguments;
    snprintf(order->venv_script, sizeof order->venv_script, "%s", script ? script : "");
    CE_FREED char *bytes = cl_order_encode(order, &length);
    cl_link_send(&here->agent, CL_LINK_ORDER, 0, bytes, length);
    order->arguments = theirs;
}

/* Says on this node what the front process says on the first one. */
static void say_joined(relay *here, const cl_order *order)
{
    snprintf(here->job, sizeof here->job, "%s", order->job);
    cl_output_say(&here->output,
                  "cspeed: node %d of %d joined %s:%d, job %s, ranks %d-%d; output is shown by node 0%s%s",
                  order->node_rank, order->node_count, here->plan->master_addr, here->plan->master_port, order->job,
                  order->first_rank, order->first_rank + order->rank_count - 1, *order->log_dir ? ", files in " : "",
                  order->log_dir);
}

static void pass_order(relay *here, const cl_message *message)
{
    cl_order order;
    int code = cl_order_decode(&order, message->bytes, message->length);
    if (code == 0)
        code = take_world(here, &order);
    if (code == 0) {
        say_joined(here, &order);
        hand_to_agent(here, &order);
    } else
        cl_link_say(&here->front, CL_LINK_FAILED, (uint32_t)code, "%s", cs_error());
    cl_order_free(&order);
}

static void pass_down(relay *here, int64_t now)
{
    cl_message message;
    cl_link_fill(&here->front, now);
    while (cl_link_next(&here->front, &message)) {
        if (message.kind == CL_LINK_ORDER)
            pass_order(here, &message);
        if (message.kind == CL_LINK_SAY)
            cl_output_say(&here->output, "%.*s", (int)message.length, message.bytes);
        if (message.kind == CL_LINK_FINISH) {
            cl_output_finish(&here->output);
            if (message.length)
                cl_output_say(&here->output, "%.*s", (int)message.length, message.bytes);
            else
                cl_output_say(&here->output, "cspeed: job %s has ended, exit code %u", here->job, message.rank);
            here->finished = true;
            here->code = (int)message.rank;
        }
        if (message.kind != CL_LINK_CREDIT && message.kind != CL_LINK_ORDER && message.kind != CL_LINK_STAGE &&
            message.kind != CL_LINK_SAY)
            cl_link_send(&here->agent, message.kind, message.rank, message.bytes, message.length);
    }
}

static void pass_up(relay *here, int64_t now)
{
    cl_message message;
    cl_link_fill(&here->agent, now);
    while (cl_link_next(&here->agent, &message)) {
        bool error = message.kind == CL_LINK_ERROR;
        if (!error && message.kind != CL_LINK_OUTPUT) {
            cl_link_send(&here->front, message.kind, message.rank, message.bytes, message.length);
            continue;
        }
        here->shown += message.length;
        if (message.rank < (uint32_t)here->plan->rank_count)
            cl_output_feed(&here->output, (int)message.rank, error, message.bytes, message.length, now);
    }
    if (here->shown && cl_output_has_room(&here->output)) {
        cl_link_send(&here->agent, CL_LINK_CREDIT, (uint32_t)here->shown, NULL, 0);
        here->shown = 0;
    }
}

/* A signal that asks for the end is reported to the front process, which then ends the part of this node. If it comes
 * again, this node ends at once. */
static void take_signals(relay *here, int signal_fd, int64_t now)
{
    struct signalfd_siginfo received;
    while (read(signal_fd, &received, sizeof received) == (ssize_t)sizeof received) {
        int number = (int)received.ssi_signo;
        if (cl_guard_asks_end(number) && cl_guard_asks_again(&here->signaled, number, now)) {
            cl_output_say(&here->output, "cspeed: %s was received again: the ranks of this node are killed now",
                          cl_codes_signal_name(number));
            here->finished = true;
            here->code = CL_CODE_SIGNAL + number;
        } else if (cl_guard_asks_end(number)) {
            cl_link_send(&here->front, CL_LINK_FAILED, (uint32_t)(CL_CODE_SIGNAL + number), NULL, 0);
        } else if (number != SIGCHLD) {
            cl_link_send(&here->agent, CL_LINK_SIGNAL, (uint32_t)number, NULL, 0);
        }
    }
}

static void sleep_on(relay *here, int signal_fd)
{
    struct pollfd polled[8] = {
        { .fd = signal_fd, .events = POLLIN },
        { .fd = here->front.in_fd, .events = cl_link_waits(&here->front) ? POLLIN | POLLOUT : POLLIN },
        { .fd = here->agent.in_fd, .events = cl_link_waits(&here->agent) ? POLLIN | POLLOUT : POLLIN }
    };
    int count = 3 + cl_output_poll(&here->output, polled + 3);
    int64_t now = ce_clock_now(), due = cl_output_due(&here->output);
    int64_t wait = due <= now ? 0 : (due - now) / 1000000 + 1;
    poll(polled, (nfds_t)count, wait > 1000 ? 1000 : (int)wait);
}

/* Ends the agent. The agent ends its ranks when the link to it is closed. If the agent does not end in time or was
 * killed, this process ends the ranks. */
static void end_agent(relay *here)
{
    enum { SECONDS = 10, MARGIN = 10 };
    const cl_options *options = here->plan->options;
    bool frozen =
        options->dead_after > 0 && 2 * (double)(ce_clock_now() - here->agent.heard) > options->dead_after * CE_SECOND;
    int status = 0;
    cl_link_flush(&here->agent);
    cl_link_close(&here->agent);
    if (!cl_sweep_await(here->agent_pid, frozen ? 0 : options->grace_seconds + MARGIN, &status)) {
        kill(here->agent_pid, SIGKILL);
        waitpid(here->agent_pid, &status, 0);
    }
    if (WIFSIGNALED(status))
        cl_sweep_kill(SECONDS, NULL);
}

static void run(relay *here, int signal_fd)
{
    double dead_after = here->plan->options->dead_after;
    int64_t lost = dead_after > 0 ? ce_clock_span(dead_after) : INT64_MAX;
    while (!here->finished) {
        cl_link_flush(&here->front);
        cl_link_flush(&here->agent);
        sleep_on(here, signal_fd);
        int64_t now = ce_clock_now();
        pass_down(here, now);
        pass_up(here, now);
        take_signals(here, signal_fd, now);
        cl_output_serve(&here->output, now);
        if (!here->finished && (here->front.broken || now - here->front.heard > lost)) {
            cl_output_say(&here->output, "cspeed: the first node of job %s was lost (%s); this node ends",
                          here->plan->id, here->front.broken ? here->front.why : "no message came from it");
            here->finished = true;
            here->code = CL_CODE_PEER;
        } else if (!here->finished && here->agent.broken) {
            cl_output_say(&here->output, "cspeed: the agent of this node was killed; the first node is informed");
            here->finished = true;
            here->code = CL_CODE_PEER;
        }
    }
}

static int open_relay(relay *here, const cl_guard *guard)
{
    cl_joined_node joined;
    int code = cl_output_open(&here->output, here->plan, ce_clock_now());
    if (code == 0)
        code = cl_rendezvous_join_plan(here->plan, &joined);
    if (code)
        return code;
    cl_link_open(&here->front, joined.fd, joined.fd, joined.sealed ? joined.key : NULL, true);
    here->front.heard = ce_clock_now();
    code = cl_agent_start(&here->agent_pid, &here->agent, guard, release, here);
    here->agent.heard = ce_clock_now();
    return code;
}

int cl_relay_run(cl_plan *plan, const cl_guard *guard)
{
    relay here = { .plan = plan };
    int signal_fd = signalfd(-1, &guard->signals, SFD_NONBLOCK | SFD_CLOEXEC);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int code =
        signal_fd < 0 ? cl_codes_fail(CL_CODE_SYSTEM, "no signalfd: %s", strerror(errno)) : open_relay(&here, guard);
    if (code == 0) {
        run(&here, signal_fd);
        code = here.code;
    }
    if (here.agent_pid > 0)
        end_agent(&here);
    cl_link_flush(&here.front);
    cl_link_close(&here.front);
    if (here.output.streams)
        cl_output_drain(&here.output, signal_fd);
    cl_output_close(&here.output);
    return code;
}
