/* agent.c - the agent of a node: one event loop for the messages of the front process, the ranks, signals and timers.
 */
#include "node/agent.h"

#include "ground/codes.h"
#include "node/sweep.h"

#include "base/cgroup.h"
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
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MILLISECOND (CE_SECOND / 1000)
#define TICK (CE_SECOND / 50)
#define BEATS_EVERY CE_SECOND
/* Nanoseconds for which the pipes of a rank are read after its end, because its child processes may keep them open. */
#define OUTPUT_WAIT (CE_SECOND / 10)
#define ORPHAN_GRACE CE_SECOND
/* If a process still exists this many nanoseconds after SIGKILL, it is stuck in the kernel, and a longer wait would be
 * useless. */
#define ORPHAN_LIMIT (5 * CE_SECOND)

enum { READ_BYTES = 32 << 10, WINDOW_BYTES = 4 << 20, LEFT = 16, MAX_POLLED = 4 };

/* Sends a signal to the process group of each rank. The process id of a rank is valid until the rank is reaped. */
static void signal_ranks(const cl_agent *agent, int number)
{
    for (int i = 0; i < agent->order.rank_count; i++)
        if (agent->processes[i].alive)
            kill(-agent->processes[i].pid, number);
}

static void mark_stopped(cl_agent *agent)
{
    for (int i = 0; i < agent->order.rank_count; i++)
        agent->processes[i].stopped |= agent->processes[i].alive;
}

static void enter(cl_agent *agent, cl_agent_phase phase, int64_t deadline)
{
    agent->phase = phase;
    agent->deadline = deadline;
}

static void kill_all(cl_agent *agent, int64_t now)
{
    if (agent->phase < CL_AGENT_RUNNING)
        return;
    mark_stopped(agent);
    signal_ranks(agent, SIGKILL);
    cl_sweep_signal(SIGKILL, NULL, NULL, 0);
    if (agent->phase != CL_AGENT_SWEEPING)
        enter(agent, CL_AGENT_KILLING, now + TICK);
}

/* Sends the stop signal, then SIGCONT, because a suspended rank (SIGSTOP) must run to handle the stop signal. If the
 * ranks have got the stop signal, a shorter grace period (in nanoseconds) replaces theirs. */
static void stop_all(cl_agent *agent, int64_t grace, int64_t now)
{
    if (agent->phase != CL_AGENT_RUNNING && agent->phase != CL_AGENT_STOPPING)
        return;
    if (grace <= 0) {
        kill_all(agent, now);
    } else if (agent->phase == CL_AGENT_STOPPING) {
        agent->deadline = now + grace < agent->deadline ? now + grace : agent->deadline;
    } else {
        mark_stopped(agent);
        signal_ranks(agent, agent->order.stop_signal);
        signal_ranks(agent, SIGCONT);
        enter(agent, CL_AGENT_STOPPING, now + grace);
    }
}

static void say_swept(cl_agent *agent, const pid_t *left, int count)
{
    char text[16 * LEFT] = "";
    size_t used = 0;
    for (int i = 0; i < count && i < LEFT; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%d", i ? " " : "", left[i]);
    /* The attempt's port is released before SWEPT is sent, because the front process may listen on this port as soon as
     * it receives SWEPT. */
    cl_prepare_undo(agent);
    cl_link_say(&agent->link, CL_LINK_SWEPT, (uint32_t)count, "%s", text);
    enter(agent, CL_AGENT_IDLE, INT64_MAX);
}

/* ---- messages of the front process ---- */

static void handle_order(cl_agent *agent, const cl_message *message)
{
    if (agent->phase > CL_AGENT_READY)
        return;             /* the order is ignored, because ranks of the previous order still run */
    cl_prepare_undo(agent); /* the ranks of the previous order were never started, because the plan has changed */
    int code = cl_prepare(agent, message->bytes, message->length);
    if (code) {
        cl_agent_send_failed(agent, code);
        cl_prepare_undo(agent);
        return;
    }
    char answer[sizeof agent->binding.text + sizeof agent->interface + 16];
    int length = snprintf(answer, sizeof answer, "%d%c%s%c%s", agent->order.master_port, 0, agent->binding.text, 0,
                          agent->interface) +
                 1;
    cl_link_send(&agent->link, CL_LINK_READY, 0, answer, (size_t)length);
    enter(agent, CL_AGENT_READY, INT64_MAX);
}

static void start(cl_agent *agent, const cl_message *message)
{
    const char *port = memchr(message->bytes, '\0', message->length);
    if (agent->phase != CL_AGENT_READY || !port)
        return;
    snprintf(agent->order.master_addr, sizeof agent->order.master_addr, "%s", message->bytes);
    agent->order.master_port = atoi(port + 1);
    agent->oom_kills = ce_cgroup_oom_kills();
    cl_local_job job = { &agent->order,    &agent->binding,      agent->program, agent->keyed ? agent->key : NULL,
                         agent->master_fd, &agent->guard->before };
    int code = cl_local_start(&job, agent->processes);
    if (code) {
        cl_agent_send_failed(agent, code);
        agent->order.rank_count = 0; /* no rank has been started */
    }
    agent->alive = agent->order.rank_count;
    for (int i = 0; i < agent->alive; i++)
        cl_link_say(&agent->link, CL_LINK_STARTED, (uint32_t)(agent->order.first_rank + i), "%d",
                    agent->processes[i].pid);
    enter(agent, CL_AGENT_RUNNING, INT64_MAX);
}

static void handle_message(cl_agent *agent, const cl_message *message, int64_t now)
{
    switch ((int)message->kind) {
    case CL_LINK_ORDER:
        handle_order(agent, message);
        break;
    case CL_LINK_STAGE: {
        int code = cl_stage_write(message);
        if (code)
            cl_agent_send_failed(agent, code);
        break;
    }
    case CL_LINK_START:
        start(agent, message);
        break;
    case CL_LINK_STOP:
        stop_all(agent, (int64_t)message->rank * MILLISECOND, now);
        break;
    case CL_LINK_KILL:
        kill_all(agent, now);
        break;
    case CL_LINK_SIGNAL:
        if (agent->phase == CL_AGENT_RUNNING)
            signal_ranks(agent, (int)message->rank);
        break;
    case CL_LINK_STACK:
        cl_agent_send_stack(agent, (int)message->rank);
        break;
    case CL_LINK_CREDIT:
        agent->unshown -= message->rank < agent->unshown ? message->rank : agent->unshown;
        break;
    case CL_LINK_PING:
        cl_agent_send_beats(agent, now);
        break;
    case CL_LINK_FINISH:
        agent->finished = true;
        break;
    default:
        break; /* all nodes run the same version of cspeed, so no other kinds of message arrive */
    }
    if ((message->kind == CL_LINK_STOP || message->kind == CL_LINK_KILL) && agent->phase <= CL_AGENT_READY)
        say_swept(agent, NULL, 0); /* no rank had been started */
}

/* ---- the ranks ---- */

static void keep_log(cl_agent *agent, cl_log_file *file, const char *bytes, size_t count)
{
    long long lost = file->lost;
    bool written = cl_logs_write(file, bytes, count);
    if (written && lost > 0)
        cl_link_say(&agent->link, CL_LINK_SAY, 0, "cspeed: %s: %s can be written again; %lld bytes are missing in it",
                    agent->order.host, file->path, lost);
    if (!written && !agent->log_full)
        cl_link_say(&agent->link, CL_LINK_SAY, 0,
                    "cspeed: %s: %s cannot be written: %s; the job continues, and tries again to write its log files",
                    agent->order.host, file->path, strerror(errno));
    agent->log_full = !written || (agent->log_full && lost == 0);
}

static void close_output(cl_process *process, int which)
{
    close(process->outputs[which]);
    process->outputs[which] = -1;
}

/* Reads one of the outputs of a rank and forwards the bytes. Returns true if any bytes were read. */
static bool pump(cl_agent *agent, int local, int which)
{
    char bytes[READ_BYTES];
    cl_process *process = &agent->processes[local];
    if (process->outputs[which] < 0 || agent->unshown > WINDOW_BYTES)
        return false;
    ssize_t count = read(process->outputs[which], bytes, sizeof bytes);
    if (count > 0) {
        keep_log(agent, &agent->logs[2 * local + which], bytes, (size_t)count);
        if (which == 1)
            cl_tail_feed(&agent->tails[local], bytes, (size_t)count);
        cl_link_send(&agent->link, which ? CL_LINK_ERROR : CL_LINK_OUTPUT, (uint32_t)(agent->order.first_rank + local),
                     bytes, (size_t)count);
        agent->unshown += (uint64_t)count;
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
        close_output(process, which);
    }
    return count > 0;
}

static void pump_all(cl_agent *agent)
{
    for (int i = 0; agent->processes && i < 2 * agent->order.rank_count; i++)
        pump(agent, i / 2, i % 2);
}

/* Reaps processes that have ended. Returns true if this process still has descendants. */
static bool reap(cl_agent *agent, int64_t now)
{
    int status;
    pid_t ended;
    while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
        for (int i = 0; i < agent->order.rank_count; i++) {
            cl_process *process = &agent->processes[i];
            if (process->pid != ended || !process->alive)
                continue;
            process->alive = false;
            process->status = status;
            process->ended = now;
            agent->alive--;
        }
    return !(ended < 0 && errno == ECHILD);
}

static bool is_dry(const cl_process *process)
{
    return process->outputs[0] < 0 && process->outputs[1] < 0;
}

/* Reports the end of each rank after the last output of that rank. Returns true if the end of a rank is still to be
 * reported. */
static bool report_ends(cl_agent *agent, int64_t now)
{
    bool waits = false;
    for (int i = 0; agent->phase >= CL_AGENT_RUNNING && i < agent->order.rank_count; i++) {
        cl_process *process = &agent->processes[i];
        if (process->alive || process->reported)
            continue;
        while (pump(agent, i, 0) || pump(agent, i, 1))
            ;
        if (!is_dry(process) && now < process->ended + OUTPUT_WAIT) {
            waits = true;
            continue;
        }
        cl_agent_send_ended(agent, i, now);
        process->reported = true;
    }
    return waits;
}

/* Ends processes that the ranks left behind: sends the stop signal, waits for one second, and sends SIGKILL. Sends
 * SIGKILL at once if the front process or the guard process is lost, or if the grace period is shorter than one
 * second. */
static void begin_sweep(cl_agent *agent, int64_t now)
{
    bool at_once = agent->abandoned || agent->order.grace_seconds < 1;
    cl_sweep_signal(at_once ? SIGKILL : agent->order.stop_signal, NULL, NULL, 0);
    enter(agent, CL_AGENT_SWEEPING, now + (at_once ? 0 : ORPHAN_GRACE));
}

static void sweep(cl_agent *agent, int64_t now)
{
    pid_t left[LEFT];
    if (now < agent->deadline)
        return;
    int count = cl_sweep_signal(SIGKILL, NULL, left, LEFT);
    if (now >= agent->deadline + ORPHAN_LIMIT)
        say_swept(agent, left, count);
}

static void handle_timers(cl_agent *agent, bool any_left, bool unreported, int64_t now)
{
    if (agent->phase < CL_AGENT_RUNNING || unreported)
        return;
    if (!any_left && agent->alive == 0)
        say_swept(agent, NULL, 0);
    else if (agent->alive == 0 && agent->phase != CL_AGENT_SWEEPING)
        begin_sweep(agent, now);
    else if (agent->phase == CL_AGENT_SWEEPING)
        sweep(agent, now);
    else if (now >= agent->deadline)
        kill_all(agent, now);
}

/* ---- the loop ---- */

/* Handles signals that were sent to the agent itself. A signal that asks for the end stops the ranks of this node, or
 * kills them if it comes again, and is reported to the front process. Other signals are ignored. */
static void handle_signals(cl_agent *agent, int64_t now)
{
    struct signalfd_siginfo received;
    while (read(agent->signal_fd, &received, sizeof received) == (ssize_t)sizeof received) {
        int number = (int)received.ssi_signo;
        if (!cl_guard_asks_end(number))
            continue;
        cl_link_send(&agent->link, CL_LINK_FAILED, (uint32_t)(CL_CODE_SIGNAL + number), NULL, 0);
        bool again = cl_guard_asks_again(&agent->signaled, number, now);
        stop_all(agent, again ? 0 : ce_clock_span(agent->order.grace_seconds), now);
    }
}

static void read_front(cl_agent *agent, int64_t now)
{
    cl_message message;
    int64_t dead_after = ce_clock_span(agent->order.dead_after);
    cl_link_fill(&agent->link, now);
    while (cl_link_next(&agent->link, &message))
        handle_message(agent, &message, now);
    bool silent = dead_after > 0 && now - agent->link.heard > dead_after;
    if ((agent->link.broken || silent) && !agent->finished && !agent->abandoned) {
        agent->abandoned = true;
        kill_all(agent, now);
    }
}

static int64_t next_due(const cl_agent *agent, bool unreported, int64_t now)
{
    int64_t due = agent->deadline;
    if (agent->phase >= CL_AGENT_RUNNING && agent->beats_at < due)
        due = agent->beats_at;
    if (agent->phase == CL_AGENT_SWEEPING || agent->phase == CL_AGENT_KILLING || unreported)
        due = now + TICK < due ? now + TICK : due;
    return due;
}

static int list_polled(const cl_agent *agent, struct pollfd *polled)
{
    int count = 0;
    polled[count++] = (struct pollfd){ .fd = agent->signal_fd, .events = POLLIN };
    polled[count++] = (struct pollfd){ .fd = agent->guard->alive_fd, .events = POLLIN };
    polled[count++] = (struct pollfd){ .fd = agent->abandoned ? -1 : agent->link.in_fd, .events = POLLIN };
    polled[count++] = (struct pollfd){ .fd = cl_link_waits(&agent->link) ? agent->link.out_fd : -1, .events = POLLOUT };
    for (int i = 0; agent->processes && i < 2 * agent->order.rank_count; i++)
        if (agent->processes[i / 2].outputs[i % 2] >= 0 && agent->unshown <= WINDOW_BYTES)
            polled[count++] = (struct pollfd){ .fd = agent->processes[i / 2].outputs[i % 2], .events = POLLIN };
    return count;
}

/* Sleeps until an event occurs or a deadline is reached. Returns true if the guard process has ended. */
static bool sleep_on(cl_agent *agent, bool unreported, int64_t now)
{
    struct pollfd *polled = calloc((size_t)(MAX_POLLED + 2 * agent->order.rank_count), sizeof *polled);
    if (!polled)
        return true;
    int64_t due = next_due(agent, unreported, now);
    int64_t wait = due <= now ? 0 : (due - now) / 1000000 + 1;
    int count = list_polled(agent, polled);
    int ready = poll(polled, (nfds_t)count, wait > 1000 ? 1000 : (int)wait);
    bool gone = ready > 0 && polled[1].revents;
    free(polled);
    return gone;
}

static bool is_over(const cl_agent *agent)
{
    return (agent->abandoned || agent->finished) && agent->phase <= CL_AGENT_READY;
}

static void run(cl_agent *agent)
{
    bool unreported = false;
    for (int64_t now = ce_clock_now(); !is_over(agent); now = ce_clock_now()) {
        cl_link_flush(&agent->link);
        if (sleep_on(agent, unreported, now) && !agent->abandoned) {
            agent->abandoned = true; /* the guard process has ended */
            kill_all(agent, now);
        }
        now = ce_clock_now();
        pump_all(agent);
        /* ended ranks are reaped first, because a message or a signal may be a consequence of the end of a rank */
        bool any_left = reap(agent, now);
        unreported = report_ends(agent, now);
        read_front(agent, now);
        handle_signals(agent, now);
        if (agent->phase >= CL_AGENT_RUNNING && now >= agent->beats_at) {
            cl_agent_send_beats(agent, now);
            agent->beats_at = now + BEATS_EVERY;
        }
        handle_timers(agent, any_left, unreported, now);
    }
}

int cl_agent_serve(int in_fd, int out_fd, const unsigned char *key, const cl_guard *guard)
{
    CE_FREED cl_agent *agent = ce_must_alloc(sizeof *agent);
    agent->guard = guard;
    agent->deadline = INT64_MAX;
    agent->master_fd = -1;
    agent->signal_fd = signalfd(-1, &guard->signals, SFD_NONBLOCK | SFD_CLOEXEC);
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    cl_link_open(&agent->link, in_fd, out_fd, key, true);
    agent->link.heard = ce_clock_now();
    cl_agent_send_hello(agent);
    run(agent);
    cl_prepare_undo(agent);
    cl_link_flush(&agent->link);
    cl_link_close(&agent->link);
    close(agent->signal_fd);
    return agent->abandoned ? CL_CODE_PEER : 0;
}

int cl_agent_start(pid_t *pid, cl_link *link, const cl_guard *guard, void (*release)(void *owner), void *owner)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return cl_codes_fail(CL_CODE_SYSTEM, "no socket can be opened for the agent of this machine: %s",
                             ce_reason(errno));
    fflush(NULL);
    *pid = fork();
    if (*pid < 0)
        return cl_codes_fail(CL_CODE_SYSTEM, "the agent of this machine cannot be started: %s", strerror(errno));
    if (*pid == 0) {
        release(owner);
        close(ends[0]);
        setsid();
        cl_guard none = { .signals = guard->signals, .before = guard->before, .alive_fd = -1 };
        _exit(cl_agent_serve(ends[1], ends[1], NULL, &none));
    }
    close(ends[1]);
    cl_link_open(link, ends[0], ends[0], NULL, false);
    return 0;
}
