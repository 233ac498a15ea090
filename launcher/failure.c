/* failure.c - the last words about a job that did not end well. */
#include "failure.h"

#include "cgroup.h"
#include "codes.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#define SECOND INT64_C(1000000000)

enum { TAIL_LINES = 20, TEXT_BYTES = 512 };

static const char rule[] = "================================";

/* "00:41:07" */
static void print_elapsed(int64_t nanoseconds, char text[TEXT_BYTES])
{
    int64_t seconds = nanoseconds / SECOND;
    snprintf(text, TEXT_BYTES, "%02ld:%02ld:%02ld", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

/* The wall clock at a moment of the monotonic one. */
static void print_moment(int64_t moment, char text[TEXT_BYTES])
{
    struct timespec now;
    struct tm       day;
    char            clock[32];
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t wall    = now.tv_sec * SECOND + now.tv_nsec - (cs_watch_now() - moment);
    time_t  seconds = (time_t)(wall / SECOND);
    localtime_r(&seconds, &day);
    strftime(clock, sizeof clock, "%H:%M:%S", &day);
    snprintf(text, TEXT_BYTES, "%s.%03ld", clock, wall / 1000000 % 1000);
}

static void print_cause(const cs_watch *watch, int status, char text[TEXT_BYTES])
{
    int code = cs_codes_of_status(status);
    if (!WIFSIGNALED(status)) {
        const char *meaning = cs_codes_meaning(code);
        if (code > CS_CODE_SIGNAL && code < CS_CODE_SIGNAL + NSIG && !*meaning)
            snprintf(text, TEXT_BYTES, "exit code %d, as a shell reports %s", code,
                     cs_codes_signal_name(code - CS_CODE_SIGNAL));
        else
            snprintf(text, TEXT_BYTES, "exit code %d%s%s", code, *meaning ? ": " : "", meaning);
        return;
    }
    int     number = WTERMSIG(status);
    int64_t before = watch->oom_kills, after = number == SIGKILL ? cs_cgroup_oom_kills() : -1;
    int     used   = snprintf(text, TEXT_BYTES, "%s (signal %d), not sent by cspeed", cs_codes_signal_name(number),
                              number);
    if (before >= 0 && after > before)
        snprintf(text + used, TEXT_BYTES - (size_t)used,
                 "; the kernel has killed for want of memory (oom_kill %ld -> %ld)", before, after);
    else if (WCOREDUMP(status))
        snprintf(text + used, TEXT_BYTES - (size_t)used, "; core dumped");
}

static const char *collective_name(cs_beat *beat)
{
    int index = atomic_load(&beat->collective);
    return index > CS_BEAT_NONE && index <= CS_BEAT_RECEIVE ? cs_beat_names[index] : "";
}

/* "step 12, waiting in all_reduce" */
static void print_progress(cs_beat *beat, char text[TEXT_BYTES])
{
    const char *name = collective_name(beat);
    if (atomic_load(&beat->since) == 0)
        snprintf(text, TEXT_BYTES, "none told");
    else
        snprintf(text, TEXT_BYTES, "step %ld%s%s", atomic_load(&beat->step), *name ? ", waiting in " : "", name);
}

/* Ranks that stood at the same place share a line: "ranks 0,2-3  step 12, waiting in all_reduce". */
static void say_progress(const cs_watch *watch)
{
    int  count = watch->job->rank_count;
    char mine[TEXT_BYTES], text[TEXT_BYTES], other[TEXT_BYTES], list[TEXT_BYTES];
    print_progress(&watch->progress[watch->first], mine);
    cs_output_say(watch->output, "last progress   rank %d: %s", watch->first, mine);
    cpu_set_t told;
    CPU_ZERO(&told);
    for (int rank = 0; rank < count && rank < CPU_SETSIZE; rank++) {
        if (rank == watch->first || CPU_ISSET((size_t)rank, &told))
            continue;
        cpu_set_t same;
        CPU_ZERO(&same);
        print_progress(&watch->progress[rank], text);
        for (int i = rank; i < count && i < CPU_SETSIZE; i++) {
            print_progress(&watch->progress[i], other);
            if (i != watch->first && strcmp(text, other) == 0)
                CPU_SET((size_t)i, &same);
        }
        CPU_OR(&told, &told, &same);
        cs_cores_print(&same, list, sizeof list);
        cs_output_say(watch->output, "                rank%s %s: %s", CPU_COUNT(&same) == 1 ? "" : "s", list, text);
    }
}

static void say_tail(const cs_watch *watch)
{
    cs_output_say(watch->output, "stderr tail");
    if (cs_output_say_tail(watch->output, watch->first, "  | ", TAIL_LINES) == 0)
        cs_output_say(watch->output, "  (rank %d wrote nothing there)", watch->first);
    if (*watch->output->log_dir)
        cs_output_say(watch->output, "full log        %s/%d.err", watch->output->log_dir, watch->first);
}

static void say_others(const cs_watch *watch)
{
    int  failed = 0, stopped = 0, killed = 0;
    char also[TEXT_BYTES] = "";
    for (int rank = 0; rank < watch->job->rank_count; rank++) {
        const cs_process *process = &watch->processes[rank];
        if (rank == watch->first)
            continue;
        if (cs_watch_failed(watch, rank)) {
            size_t used = strlen(also);
            snprintf(also + used, sizeof also - used, "%srank %d (%d)", failed++ ? ", " : "", rank,
                     cs_codes_of_status(process->status));
        } else if (process->stopped) {
            stopped++;
            killed += WIFSIGNALED(process->status) && WTERMSIG(process->status) == SIGKILL;
        }
    }
    cs_output_say(watch->output, "also failed     %s", failed ? also : "none");
    cs_output_say(watch->output, "ended by cspeed %d rank%s, %d of them by SIGKILL", stopped, stopped == 1 ? "" : "s",
                  killed);
}

static void print_left(const cs_watch *watch, char text[TEXT_BYTES])
{
    int used = snprintf(text, TEXT_BYTES, "%s", watch->left_count ? "processes that do not end:" : "nothing");
    for (int i = 0; i < watch->left_count && i < CS_WATCH_LEFT; i++)
        used += snprintf(text + used, TEXT_BYTES - (size_t)used, " %d", watch->left[i]);
}

static void say_block(const cs_watch *watch, const char *elapsed)
{
    const cs_process *first = &watch->processes[watch->first];
    char              text[TEXT_BYTES];
    cs_output_say(watch->output, "%s job %s FAILED (exit %d) after %s", rule, watch->job->id, cs_watch_code(watch),
                  elapsed);
    print_moment(first->ended, text);
    cs_output_say(watch->output, "first failure   rank %d (pid %d) at %s", watch->first, first->pid, text);
    print_cause(watch, first->status, text);
    cs_output_say(watch->output, "cause           %s", text);
    say_progress(watch);
    say_tail(watch);
    say_others(watch);
    print_left(watch, text);
    cs_output_say(watch->output, "left behind     %s", text);
    cs_output_say(watch->output, "%s", rule);
}

void cs_failure_say(const cs_watch *watch)
{
    char elapsed[TEXT_BYTES], left[TEXT_BYTES];
    int  code = cs_watch_code(watch);
    print_elapsed(cs_watch_now() - watch->began, elapsed);
    print_left(watch, left);
    if (watch->timed_out || watch->signal)
        cs_output_say(watch->output, "cspeed: job %s ended by %s after %s; left behind: %s", watch->job->id,
                      watch->timed_out ? "--timeout" : cs_codes_signal_name(watch->signal), elapsed, left);
    else if (watch->first >= 0 && cs_codes_explained(code))
        cs_output_say(watch->output, "cspeed: job %s failed: rank %d exited with code %d (%s); left behind: %s",
                      watch->job->id, watch->first, code, cs_codes_meaning(code), left);
    else if (watch->first >= 0)
        say_block(watch, elapsed);
    else if (watch->left_count || watch->job->options->verbose)
        cs_output_say(watch->output, "cspeed: job %s ended after %s; left behind: %s", watch->job->id, elapsed, left);
}
