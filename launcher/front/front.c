/* front.c - the front process of a job: its phases and the transitions between them. */
#include "front/front.h"

#include "ground/codes.h"
#include "front/failure.h"

#include "base/must.h"
#include "base/plural.h"
#include "base/status.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An agent that has sent no SWEPT message this many nanoseconds after the end of the grace period counts as lost. */
#define OVERDUE (10 * CE_SECOND)

void cl_front_enter(cl_front *front, cl_phase phase, int64_t deadline)
{
    front->phase = phase;
    front->deadline = deadline;
}

/* The message PING precedes STOP, so that each agent reports the progress of its ranks before the agent ends these
 * ranks. */
void cl_front_end_ranks(cl_front *front, double grace, int64_t now)
{
    double milliseconds = grace * 1000;
    front->stopped = now;
    cl_nodes_tell(front, CL_LINK_PING, 0);
    cl_nodes_tell(front, CL_LINK_STOP, milliseconds < UINT32_MAX ? (uint32_t)milliseconds : UINT32_MAX);
    cl_front_enter(front, CL_STOPPING, now + ce_clock_span(grace) + OVERDUE);
}

void cl_front_stop(cl_front *front, int64_t now)
{
    if (front->phase < CL_STOPPING)
        cl_front_end_ranks(front, front->options->grace_seconds, now);
}

void cl_front_fail(cl_front *front, int node, int code, const char *why)
{
    if (!front->code) {
        front->first_node = node;
        front->code = code;
        snprintf(front->why, sizeof front->why, "%s", why);
    }
    cl_front_stop(front, ce_clock_now());
}

/* ---- signals ---- */

/* Ends the grace period. An agent that does not answer is lost OVERDUE nanoseconds later. */
static void kill_ranks(cl_front *front, int64_t now)
{
    cl_nodes_tell(front, CL_LINK_KILL, 0);
    front->deadline = front->deadline < now + OVERDUE ? front->deadline : now + OVERDUE;
}

static void take_end(cl_front *front, int number, int64_t now)
{
    bool again = cl_guard_asks_again(&front->signaled, number, now);
    bool caused = front->phase == CL_OVER || front->reforming || (front->first < 0 && !front->code);
    front->last = true;
    if (caused && !front->signal)
        front->signal = number;
    if (front->phase == CL_OVER)
        front->over = true; /* no attempt is running: the signal ends the wait for the next attempt */
    else if (again)
        kill_ranks(front, now);
    else if (front->reforming) /* a checkpoint for new nodes may take longer than the grace period */
        cl_front_end_ranks(front, front->options->grace_seconds, now);
    else
        cl_front_stop(front, now);
}

void cl_front_take_signal(cl_front *front, int number, int64_t now)
{
    if (cl_guard_asks_end(number))
        take_end(front, number, now);
    else if (number != SIGCHLD)
        cl_nodes_tell(front, CL_LINK_SIGNAL, (uint32_t)number);
}

int cl_front_code(const cl_front *front)
{
    if (front->timed_out)
        return CL_CODE_TIMEOUT;
    if (front->signal)
        return CL_CODE_SIGNAL + front->signal;
    if (front->stalled)
        return CL_CODE_STALLED;
    return cl_failure_is_rank(front) ? cl_codes_of_status(front->workers[front->first].end.status) : front->code;
}

/* ---- phases ---- */

int cl_front_begin(cl_front *front, int64_t now)
{
    front->first = front->first_node = -1;
    front->code = 0;
    front->why[0] = '\0';
    front->failed = front->stopped = 0;
    front->ranks_began = front->waiting_since = front->beats_asked_at = 0;
    front->reforming = false;
    front->attempt_began = now;
    /* frees the list of ranks of the previous attempt, because this attempt may use other nodes */
    cl_workers_free(front);
    cl_front_enter(front, CL_JOINING, now + ce_clock_span(front->options->rdzv_timeout));
    return cl_join_agents_call(front, now);
}

static void give_up_joining(cl_front *front, int64_t now)
{
    char why[CE_NAMES_BYTES + 64];
    ce_names missing = { 0 };
    cl_join_agents_list_missing(front, &missing);
    snprintf(why, sizeof why, "%s did not join within %.0f s (--rdzv_timeout)", ce_names_text(&missing),
             (double)(now - front->joining_since) / 1e9);
    cl_front_fail(front, -1, CL_CODE_PEER, why);
}

static bool all_ready(const cl_front *front)
{
    for (int i = 0; i < front->plan->node_count; i++)
        if (front->nodes[i].state < CL_NODE_READY)
            return false;
    return true;
}

/* Returns true if the end of the job need not wait for the node: its agent has ended all processes, or is lost, or has
 * never joined. */
static bool is_swept(const cl_node *node)
{
    return node->state < CL_NODE_JOINED || node->state >= CL_NODE_SWEPT;
}

static bool all_swept(const cl_front *front)
{
    for (int i = 0; i < front->plan->node_count; i++)
        if (!is_swept(&front->nodes[i]))
            return false;
    return true;
}

static void join(cl_front *front, int64_t now)
{
    if (front->code && cl_join_agents_answered(front)) {
        cl_front_stop(front, now);
    } else if (!front->code && cl_join_agents_complete(front, now)) {
        int code = cl_workers_make(front);
        code = code ? code : cl_node_orders_send(front);
        if (code)
            cl_front_fail(front, -1, code, cs_error());
        else
            cl_front_enter(front, CL_ORDERING, front->deadline);
    } else if (now >= front->deadline) {
        give_up_joining(front, now);
    } else {
        cl_join_agents_remind(front, now);
    }
}

/* ---- the message at the start ---- */

static void say_here(cl_front *front)
{
    const cl_plan *plan = front->plan;
    cl_output_say(&front->output, "cspeed %s  job %s  %d rank%s on this machine  master %s:%d%s%s", CS_VERSION,
                  plan->id, plan->rank_count, ce_plural(plan->rank_count), front->master_addr, front->master_port,
                  *front->run_dir ? "  logs " : "", front->run_dir);
    const char *devices = cl_env_value(&plan->env, "CUDA_VISIBLE_DEVICES"), *caller = getenv("CUDA_VISIBLE_DEVICES");
    cl_output_say(&front->output, "  %s%s",
                  devices || plan->has_devices ? "" : "without CUDA a slot \"gpu\" is a rank on the CPU: ",
                  front->nodes[0].binding_text);
    if (caller && *caller)
        cl_output_say(&front->output, "  CUDA_VISIBLE_DEVICES=%s: %s", devices ? devices : caller,
                      devices ? "local rank 0 has the first of these GPUs" : "there is no GPU here");
}

static void say_table(cl_front *front)
{
    const cl_plan *plan = front->plan;
    cl_output_say(&front->output, "cspeed %s  job %s  %d node%s, %d rank%s  master %s:%d%s%s", CS_VERSION, plan->id,
                  plan->node_count, ce_plural(plan->node_count), plan->rank_count, ce_plural(plan->rank_count),
                  front->master_addr, front->master_port, *front->run_dir ? "  logs " : "", front->run_dir);
    cl_output_say(&front->output, "  node host             slots  ranks      cores");
    for (int i = 0; i < plan->node_count; i++) {
        char ranks[32];
        int from = plan->nodes[i].first_rank, count = plan->nodes[i].host->slot_count;
        snprintf(ranks, sizeof ranks, count == 1 ? "%d" : "%d-%d", from, from + count - 1);
        cl_output_say(&front->output, "  %-4d %-16s %-6d %-10s %s", i, front->nodes[i].host, count, ranks,
                      front->nodes[i].binding_text);
    }
}

/* Prints the number of ranks, their hosts and cores, and the log folder, at the start of every attempt. Prints nothing
 * with --quiet. */
static void print_start(cl_front *front)
{
    if (front->options->quiet)
        return;
    if (front->plan->node_count == 1 && front->nodes[0].here)
        say_here(front);
    else
        say_table(front);
    if (front->options->verbose)
        cl_output_say(&front->output, "  program %s, in %s, hosts from %s", front->plan->arguments[0],
                      front->plan->workdir, front->plan->hosts.origin);
}

/* ---- phases ---- */

static void start_ranks(cl_front *front, int64_t now)
{
    cl_node_orders_start(front);
    print_start(front);
    front->ranks_began = now;
    front->called_already = false;
    cl_front_enter(front, CL_RUNNING, INT64_MAX);
}

/* Prints why the current attempt failed, and when the next one starts. */
static void announce_restart(cl_front *front, int64_t now)
{
    CE_FREED char *text = cl_failure_text(front);
    cl_output_say(&front->output, "%s", text);
    double delay = front->called_already ? 0 : front->options->restart_delay;
    front->deadline = now + ce_clock_span(delay);
    cl_output_say(&front->output, "cspeed: job %s starts again in %.0f s, restart %d of %d", front->plan->id, delay,
                  front->restarts, front->options->max_restarts);
}

static void finish_attempt(cl_front *front, int64_t now)
{
    bool again = cl_retry_wanted(front, now);
    cl_front_enter(front, CL_OVER, now);
    front->over = !again;
    if (!again)
        return;
    if (!front->reforming)
        announce_restart(front, now);
    for (int i = 0; i < front->node_total; i++)
        if (front->nodes[i].leaves)
            cl_join_agents_let_go(&front->nodes[i]);
    front->attempt++;
}

void cl_front_take_time(cl_front *front, int64_t now)
{
    double timeout = front->options->timeout_seconds;
    if (timeout > 0 && front->phase < CL_STOPPING && now >= front->began + ce_clock_span(timeout)) {
        front->timed_out = true;
        cl_front_stop(front, now);
    }
    if (front->phase == CL_JOINING)
        join(front, now);
    if (front->phase == CL_ORDERING && all_ready(front))
        start_ranks(front, now);
    else if (front->phase == CL_ORDERING)
        cl_join_agents_remind(front, now);
    cl_reform_check(front, now);
    if (front->phase >= CL_RUNNING && front->phase <= CL_STOPPING && all_swept(front))
        finish_attempt(front, now);
    if (front->phase == CL_SETTLING && now >= front->deadline)
        cl_front_stop(front, now);
    if (front->phase == CL_STOPPING && now >= front->deadline)
        for (int i = 0; i < front->plan->node_count; i++)
            if (!is_swept(&front->nodes[i]))
                cl_nodes_lose(front, i, "it did not end its ranks in time");
    if (front->phase == CL_OVER && !front->over && now >= front->deadline) {
        int code = cl_front_begin(front, now);
        if (code)
            cl_front_fail(front, -1, code, cs_error());
    }
}
