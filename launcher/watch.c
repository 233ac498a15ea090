/* watch.c - supervision: signals, deaths and output in one loop. */
#include "watch.h"

#include "cgroup.h"
#include "codes.h"
#include "sweep.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)
#define SETTLE (SECOND / 5)
#define TICK (SECOND / 50)
#define ORPHAN_GRACE SECOND
#define ORPHAN_LIMIT (5 * SECOND) /* then a process sits in the kernel, and waiting longer tells nothing */

int64_t cs_watch_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

int cs_watch_open(cs_watch *watch, const cs_job *job, const cs_guard *guard, cs_process *processes, cs_output *output)
{
    *watch = (cs_watch){ .job = job, .guard = guard, .processes = processes, .output = output, .first = -1 };
    watch->began     = cs_watch_now();
    watch->deadline  = job->options->timeout_seconds > 0
                           ? watch->began + (int64_t)(job->options->timeout_seconds * (double)SECOND)
                           : INT64_MAX;
    watch->alive     = job->rank_count;
    watch->oom_kills = cs_cgroup_oom_kills();
    watch->polled    = calloc((size_t)output->stream_count + 4, sizeof *watch->polled);
    watch->progress  = calloc((size_t)job->rank_count, sizeof *watch->progress);
    watch->signal_fd = signalfd(-1, &guard->signals, SFD_NONBLOCK | SFD_CLOEXEC);
    if (!watch->polled || !watch->progress || watch->signal_fd < 0) {
        cs_watch_close(watch);
        return cs_codes_fail(CS_CODE_SYSTEM, "no memory or signalfd to watch with: %s", strerror(errno));
    }
    return 0;
}

void cs_watch_close(cs_watch *watch)
{
    free(watch->polled);
    free(watch->progress);
    if (watch->signal_fd >= 0)
        close(watch->signal_fd);
}

/* A rank leads its own group. Its id is safe to use while the rank is not reaped. */
static void signal_ranks(cs_watch *watch, int number)
{
    for (int rank = 0; rank < watch->job->rank_count; rank++)
        if (watch->processes[rank].alive)
            kill(-watch->processes[rank].pid, number);
}

static void enter(cs_watch *watch, cs_phase phase, int64_t deadline)
{
    watch->phase    = phase;
    watch->deadline = deadline;
}

static void kill_all(cs_watch *watch, int64_t now)
{
    for (int rank = 0; rank < watch->job->rank_count; rank++)
        watch->processes[rank].stopped |= watch->processes[rank].alive;
    if (!watch->stopped)
        watch->stopped = now;
    signal_ranks(watch, SIGKILL);
    cs_sweep_signal(SIGKILL, NULL, 0);
    enter(watch, CS_WATCH_KILLING, now + TICK);
}

/* A frozen rank (SIGSTOP) must run to obey. */
static void stop_all(cs_watch *watch, int64_t now)
{
    if (watch->job->options->grace_seconds <= 0) {
        kill_all(watch, now);
        return;
    }
    for (int rank = 0; rank < watch->job->rank_count; rank++)
        watch->processes[rank].stopped |= watch->processes[rank].alive;
    watch->stopped = now;
    signal_ranks(watch, watch->job->options->stop_signal);
    signal_ranks(watch, SIGCONT);
    enter(watch, CS_WATCH_STOPPING, now + (int64_t)(watch->job->options->grace_seconds * (double)SECOND));
}

bool cs_watch_failed(const cs_watch *watch, int rank)
{
    const cs_process *process = &watch->processes[rank];
    if (process->alive || process->status == 0)
        return false;
    if (!process->stopped)
        return true;
    if (cs_codes_of_status(process->status) == CS_CODE_PEER)
        return true;
    /* a signal that was not ours may have struck before ours did */
    int number = WIFSIGNALED(process->status) ? WTERMSIG(process->status) : 0;
    return number && number != SIGKILL && number != watch->job->options->stop_signal;
}

/* Whether rank `a` is rather the cause than rank `b`. */
static bool is_rather(const cs_watch *watch, int a, int b)
{
    int code_a = cs_codes_of_status(watch->processes[a].status);
    int code_b = cs_codes_of_status(watch->processes[b].status);
    if ((code_a == CS_CODE_PEER) != (code_b == CS_CODE_PEER))
        return code_b == CS_CODE_PEER;
    if (code_a == code_b && cs_codes_explained(code_a))
        return a < b; /* all know it, and the lowest has said it */
    return watch->processes[a].ended < watch->processes[b].ended;
}

static void find_first(cs_watch *watch)
{
    for (int rank = 0; rank < watch->job->rank_count; rank++)
        if (cs_watch_failed(watch, rank) && (watch->first < 0 || is_rather(watch, rank, watch->first)))
            watch->first = rank;
}

static void note_progress(cs_watch *watch)
{
    for (int rank = 0; rank < watch->job->rank_count; rank++) {
        cs_beat *beat = watch->processes[rank].beat, *copy = &watch->progress[rank];
        atomic_store(&copy->step, atomic_load(&beat->step));
        atomic_store(&copy->since, atomic_load(&beat->since));
        atomic_store(&copy->collective, atomic_load(&beat->collective));
    }
}

/* Collects what has ended. Returns whether any process is left below us. */
static bool reap(cs_watch *watch, int64_t now)
{
    int   status;
    pid_t ended;
    while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
        for (int rank = 0; rank < watch->job->rank_count; rank++) {
            cs_process *process = &watch->processes[rank];
            if (process->pid != ended || !process->alive)
                continue;
            process->alive  = false;
            process->status = status;
            process->ended  = now;
            watch->alive--;
            if (watch->job->options->verbose)
                cs_output_say(watch->output, "cspeed: rank %d (pid %d) ended with %d", rank, ended,
                              cs_codes_of_status(status));
        }
    return !(ended < 0 && errno == ECHILD);
}

/* What the deaths so far ask for. */
static void judge(cs_watch *watch, int64_t now)
{
    if (watch->phase > CS_WATCH_SETTLING)
        return;
    find_first(watch);
    if (watch->first < 0)
        return;
    if (!watch->failed) {
        watch->failed = now;
        note_progress(watch);
    }
    int status = watch->processes[watch->first].status;
    if (WIFSIGNALED(status))
        stop_all(watch, now);
    else if (watch->phase == CS_WATCH_RUNNING)
        enter(watch, CS_WATCH_SETTLING, now + SETTLE);
}

static void take_signal(cs_watch *watch, int number, int64_t now)
{
    bool going = watch->phase == CS_WATCH_RUNNING || watch->phase == CS_WATCH_SETTLING;
    if (number == SIGCHLD)
        return;
    if (number == SIGUSR1 || number == SIGUSR2) {
        signal_ranks(watch, number);
    } else if (going) {
        if (watch->first < 0)
            watch->signal = number;
        stop_all(watch, now);
    } else if (number == SIGINT || number == SIGQUIT) { /* service managers repeat TERM; only a person repeats these */
        kill_all(watch, now);
    }
}

static void take_signals(cs_watch *watch, int64_t now)
{
    struct signalfd_siginfo news;
    while (read(watch->signal_fd, &news, sizeof news) == (ssize_t)sizeof news)
        take_signal(watch, (int)news.ssi_signo, now);
}

/* Ranks have ended; others may be below us still: they get the stop signal, a second, then SIGKILL. */
static void begin_sweep(cs_watch *watch, int64_t now)
{
    watch->phase   = CS_WATCH_SWEEPING;
    watch->stopped = watch->stopped ? watch->stopped : now;
    cs_sweep_signal(watch->abandoned ? SIGKILL : watch->job->options->stop_signal, NULL, 0);
    watch->deadline = now + (watch->job->options->grace_seconds < 1 || watch->abandoned ? 0 : ORPHAN_GRACE);
}

static void sweep(cs_watch *watch, int64_t now)
{
    if (now < watch->deadline)
        return;
    if (now < watch->deadline + ORPHAN_LIMIT) {
        cs_sweep_signal(SIGKILL, NULL, 0);
        return;
    }
    watch->left_count = cs_sweep_signal(SIGKILL, watch->left, CS_WATCH_LEFT);
    watch->phase      = CS_WATCH_DONE;
}

static void take_time(cs_watch *watch, bool any_left, int64_t now)
{
    if (!any_left)
        watch->phase = CS_WATCH_DONE;
    else if (watch->alive == 0 && watch->phase != CS_WATCH_SWEEPING)
        begin_sweep(watch, now);
    else if (watch->phase == CS_WATCH_SWEEPING)
        sweep(watch, now);
    else if (now < watch->deadline)
        return;
    else if (watch->phase == CS_WATCH_RUNNING) {
        watch->timed_out = true;
        stop_all(watch, now);
    } else if (watch->phase == CS_WATCH_SETTLING) {
        stop_all(watch, now);
    } else {
        kill_all(watch, now);
    }
}

/* Sleeps until something happens; returns whether the guard is gone. */
static bool sleep_on(cs_watch *watch, int64_t now)
{
    int64_t due   = cs_output_due(watch->output);
    int     count = cs_output_poll(watch->output, watch->polled);
    due           = watch->deadline < due ? watch->deadline : due;
    if (watch->phase == CS_WATCH_SWEEPING)
        due = now + TICK;
    if (cs_output_waits(watch->output) && due > now + SECOND)
        due = now + SECOND; /* a console that stands still is noticed by the clock */
    int64_t wait      = due == INT64_MAX ? -1 : due <= now ? 0 : (due - now) / 1000000 + 1;
    int     guard_fd  = watch->abandoned ? -1 : watch->guard->alive_fd;
    watch->polled[count]     = (struct pollfd){ .fd = watch->signal_fd, .events = POLLIN };
    watch->polled[count + 1] = (struct pollfd){ .fd = guard_fd, .events = POLLIN };
    if (poll(watch->polled, (nfds_t)count + 2, wait > 60000 ? 60000 : (int)wait) < 0)
        return false;
    return watch->polled[count + 1].revents != 0;
}

void cs_watch_run(cs_watch *watch)
{
    int64_t now = cs_watch_now();
    while (watch->phase != CS_WATCH_DONE) {
        bool guard_gone = sleep_on(watch, now);
        now             = cs_watch_now();
        if (guard_gone) {
            watch->abandoned = true;
            kill_all(watch, now);
        }
        cs_output_serve(watch->output, now);
        bool any_left = reap(watch, now); /* before signals: a rank that has failed is the cause, not what followed */
        judge(watch, now);
        take_signals(watch, now);
        take_time(watch, any_left, now);
    }
}

int cs_watch_code(const cs_watch *watch)
{
    if (watch->timed_out)
        return CS_CODE_TIMEOUT;
    if (watch->signal)
        return CS_CODE_SIGNAL + watch->signal;
    return watch->first < 0 ? 0 : cs_codes_of_status(watch->processes[watch->first].status);
}

void cs_watch_drain(cs_watch *watch)
{
    watch->deadline = INT64_MAX;
    while (!watch->abandoned) {
        if (cs_output_serve(watch->output, cs_watch_now()))
            continue;
        if (!cs_output_waits(watch->output))
            return;
        watch->abandoned = sleep_on(watch, cs_watch_now());
        struct signalfd_siginfo news;
        while (read(watch->signal_fd, &news, sizeof news) == (ssize_t)sizeof news)
            watch->abandoned |= news.ssi_signo != SIGCHLD;
    }
}
