/* failure.c - writes the failure report of a job. */
#include "front/failure.h"

#include "base/must.h"
#include "base/names.h"
#include "base/plural.h"
#include "ground/codes.h"
#include "cspeed/options.h"
#include "node/logs.h"
#include "front/rank_position.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#define CONCURRENT (CE_SECOND / 5)

static const char rule[] = "================================", indent[] = "                ";

/* Prints the time since the start of the job, as "00:41:07". */
static void print_elapsed(const cl_front *front, FILE *out)
{
    int64_t seconds = (ce_clock_now() - front->began) / CE_SECOND;
    fprintf(out, "%02ld:%02ld:%02ld", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

/* Prints the wall-clock time that corresponds to a time of the monotonic clock. */
static void print_moment(int64_t moment, FILE *out)
{
    struct timespec now;
    struct tm day;
    char clock[32];
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t wall = now.tv_sec * CE_SECOND + now.tv_nsec - (ce_clock_now() - moment);
    time_t seconds = (time_t)(wall / CE_SECOND);
    localtime_r(&seconds, &day);
    strftime(clock, sizeof clock, "%H:%M:%S", &day);
    fprintf(out, "%s.%03ld", clock, wall / 1000000 % 1000);
}

/* Returns true if a signal that asks for the end has ended the rank after the rank had saved a checkpoint of its last
 * step. */
static bool has_saved(const cl_link_end *end)
{
    return WIFSIGNALED(end->status) && cl_guard_asks_end(WTERMSIG(end->status)) && end->beat.kept > 0 &&
           end->beat.kept == end->beat.step + 1;
}

static void print_cause(const cl_link_end *end, FILE *out)
{
    int code = cl_codes_of_status(end->status);
    if (!WIFSIGNALED(end->status)) {
        const char *meaning = cl_codes_meaning(code);
        if (code > CL_CODE_SIGNAL && code < CL_CODE_SIGNAL + NSIG && !*meaning)
            fprintf(out, "exit code %d, as a shell reports %s", code, cl_codes_signal_name(code - CL_CODE_SIGNAL));
        else
            fprintf(out, "exit code %d%s%s", code, *meaning ? ": " : "", meaning);
        return;
    }
    fprintf(out, "%s (signal %d), not sent by cspeed", cl_codes_signal_name(WTERMSIG(end->status)),
            WTERMSIG(end->status));
    if (has_saved(end))
        fprintf(out, "; the rank has first saved the checkpoint of step %ld", end->beat.step);
    else if (cl_failure_hint_is_oom(end))
        fprintf(out, "; the kernel has killed processes because memory ran out (oom_kill %ld -> %ld)", end->oom_from,
                end->oom_to);
    else if (WCOREDUMP(end->status))
        fprintf(out, "; core dumped");
}

/* Programs that do not use cspeed send no progress records; the report then omits progress. */
static bool any_progress(const cl_front *front)
{
    bool any = false;
    for (int rank = 0; rank < front->worker_count; rank++)
        any |= cl_rank_position_is_known(&front->workers[rank]);
    return any;
}

static void print_progress(const cl_front *front, FILE *out)
{
    char text[CL_RANK_POSITION_BYTES];
    if (!any_progress(front))
        return;
    cl_rank_position_print(&front->workers[front->first], text);
    fprintf(out, "last progress   rank %d: %s\n", front->first, text);
    cl_rank_position_table(front, indent, indent, front->first, 0, out);
}

/* Writes the last stderr lines of a rank of another host to a file on this machine. */
static void save_tail(const cl_front *front, FILE *out)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/failed", front->run_dir);
    if (cl_logs_folder(path) != 0)
        return;
    snprintf(path, sizeof path, "%s/failed/attempt_%d.%d.err", front->run_dir, front->attempt, front->first);
    int fd = cl_logs_create(path, O_TRUNC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    bool kept = file && fputs(front->workers[front->first].tail, file) >= 0;
    if (file && fclose(file) == 0 && kept)
        fprintf(out, "  (these lines: %s)", path);
}

static void print_tail(const cl_front *front, FILE *out)
{
    const cl_worker *first = &front->workers[front->first];
    bool here = front->nodes[first->node].here;
    fprintf(out, "stderr tail\n");
    if (!first->tail || !*first->tail)
        fprintf(out, "  (rank %d wrote nothing to stderr)\n", front->first);
    for (const char *line = first->tail; line && *line; line += strcspn(line, "\n"), line += *line == '\n')
        fprintf(out, "  | %.*s\n", (int)strcspn(line, "\n"), line);
    if (!*front->run_dir)
        return;
    fprintf(out, "full log        %s%s%s/attempt_%d/%d.err", here ? "" : cl_rank_position_host(front, front->first),
            here ? "" : ":", front->run_dir, front->attempt, front->first);
    if (!here && first->tail && *first->tail)
        save_tail(front, out);
    fputc('\n', out);
}

/* Says how the failure of another rank relates to the failure that is reported. */
static const char *relation_to_first(const cl_front *front, int rank)
{
    const cl_worker *worker = &front->workers[rank];
    int64_t first = cl_failure_is_rank(front) ? front->workers[front->first].ended : front->stopped;
    if (cl_codes_of_status(worker->end.status) == CL_CODE_PEER)
        return ", secondary: it lost a peer";
    return llabs(worker->ended - first) <= CONCURRENT ? ", at the same time" : "";
}

static void print_others(const cl_front *front, FILE *out)
{
    ce_names failed = { 0 };
    for (int rank = 0; rank < front->worker_count; rank++)
        if ((rank != front->first || !cl_failure_is_rank(front)) && cl_workers_failed(front, rank))
            ce_names_add(&failed, "rank %d (%d%s)", rank, cl_codes_of_status(front->workers[rank].end.status),
                         relation_to_first(front, rank));
    fprintf(out, "also failed     %s\n", failed.count ? ce_names_text(&failed) : "none");
}

static void print_stopped(const cl_front *front, FILE *out)
{
    int stopped = 0, killed = 0;
    int64_t last = 0;
    for (int rank = 0; rank < front->worker_count; rank++) {
        const cl_worker *worker = &front->workers[rank];
        if (rank == front->first || worker->state != CL_WORKER_ENDED || !worker->end.stopped ||
            cl_workers_failed(front, rank))
            continue;
        stopped++;
        killed += WIFSIGNALED(worker->end.status) && WTERMSIG(worker->end.status) == SIGKILL;
        last = worker->ended > last ? worker->ended : last;
    }
    fprintf(out, "ended by cspeed %d rank%s, %d of them by SIGKILL", stopped, ce_plural(stopped), killed);
    if (stopped && front->stopped && last > front->stopped)
        fprintf(out, ", within %.1f s", (double)(last - front->stopped) / (double)CE_SECOND);
    fputc('\n', out);
}

/* Prints the processes that remain on each host, or "nothing", and ends the line. */
static void print_left(const cl_front *front, FILE *out)
{
    ce_names unknown = { 0 }, left = { 0 };
    for (int node = 0; node < front->node_total; node++) {
        const cl_node *here = &front->nodes[node];
        if (here->state == CL_NODE_LOST && !here->leaves)
            ce_names_add(&unknown, "%s", here->host);
        else if (here->left_count)
            ce_names_add(&left, "%s: %s", here->host, here->left);
    }
    if (left.count)
        fprintf(out, "processes that do not end on %s%s", ce_names_text(&left), unknown.count ? "; " : "");
    if (unknown.count > 1)
        fprintf(out, "unknown for %ld nodes (%s)", unknown.count, ce_names_text(&unknown));
    else if (unknown.count)
        fprintf(out, "unknown for %s", ce_names_text(&unknown));
    if (unknown.count + left.count == 0)
        fprintf(out, "nothing");
    fputc('\n', out);
}

/* Prints the end of a line about the whole job. */
static void print_end(const cl_front *front, FILE *out)
{
    fprintf(out, " after ");
    print_elapsed(front, out);
    fprintf(out, "; not ended: ");
    print_left(front, out);
}

static void print_first(const cl_front *front, FILE *out)
{
    const cl_worker *first = &front->workers[front->first];
    fprintf(out, "first failure   ");
    cl_rank_position_name(front, front->first, out);
    fprintf(out, " at ");
    print_moment(first->ended, out);
    fprintf(out, "\ncause           ");
    print_cause(&first->end, out);
    fputc('\n', out);
    print_progress(front, out);
    print_tail(front, out);
}

static void print_lost(const cl_front *front, FILE *out)
{
    fprintf(out, "first failure   %s\n", front->why);
    if (any_progress(front))
        cl_rank_position_table(front, "last progress   ", indent, -1, 0, out);
}

static void print_block(const cl_front *front, FILE *out)
{
    const char *hint = cl_failure_hint_text(front);
    fprintf(out, "%s job %s FAILED (exit %d) after ", rule, front->plan->id, cl_front_code(front));
    print_elapsed(front, out);
    fputc('\n', out);
    if (cl_failure_is_rank(front))
        print_first(front, out);
    else
        print_lost(front, out);
    print_others(front, out);
    print_stopped(front, out);
    fprintf(out, "not ended       ");
    print_left(front, out);
    fprintf(out, "%s%s%s%s\n", *hint ? "hint            " : "", hint, *hint ? "\n" : "", rule);
}

/* Returns true if the job was ended from outside. */
static bool is_from_outside(const cl_front *front)
{
    return front->timed_out || front->signal || front->stalled;
}

const char *cl_failure_why(const cl_front *front)
{
    static char text[64];
    if (front->timed_out)
        return "the time of --timeout was over";
    if (front->stalled && !front->signal)
        return "no rank made progress for --stall_timeout, and --stall_action is kill";
    snprintf(text, sizeof text, "ended by %s", cl_codes_signal_name(front->signal));
    return front->signal               ? text
           : cl_front_code(front) == 0 ? ""
           : *front->why               ? front->why
                                       : cl_codes_meaning(cl_front_code(front));
}

/* Prints the text that follows "cspeed: job ID failed: ". */
static void print_verdict(const cl_front *front, FILE *out)
{
    int code = cl_front_code(front);
    if (!is_from_outside(front) && cl_failure_is_rank(front)) {
        const cl_worker *first = &front->workers[front->first];
        cl_rank_position_name(front, front->first, out);
        if (WIFSIGNALED(first->end.status))
            fprintf(out, has_saved(&first->end) ? " saved a checkpoint and ended by %s" : " was killed by %s",
                    cl_codes_signal_name(WTERMSIG(first->end.status)));
        else
            fprintf(out, " exited with code %d%s%s%s", code, *cl_codes_meaning(code) ? " (" : "",
                    cl_codes_meaning(code), *cl_codes_meaning(code) ? ")" : "");
    } else {
        fprintf(out, "%s", is_from_outside(front) ? cl_failure_why(front) : front->why);
    }
    fprintf(out, "; exit code %d", code);
    print_end(front, out);
}

/* Returns true if the same command, given again, would not resume from the newest checkpoint: `train` with --fresh, or
 * with --tag and without --load, starts from an earlier state. (A restart by the launcher does resume from the newest
 * checkpoint.) */
static bool starts_over(const cl_front *front)
{
    char **program = front->options->program;
    bool fresh = false;
    for (char **argument = program; argument && *argument; argument++)
        fresh |= strcmp(*argument, "--fresh") == 0;
    return fresh || (program && cs_options_last("tag", program) && !cs_options_last("load", program));
}

/* Prints the hint that the same command resumes, unless that command would fail in the same way or start from an
 * earlier state. */
static void print_resume_hint(const cl_front *front, FILE *out)
{
    int64_t kept = cl_workers_kept(front);
    if (kept > 0 && !cl_failure_is_explained(front) && !starts_over(front))
        fprintf(out, "cspeed: the same command continues from the checkpoint of step %ld\n", kept - 1);
}

static bool left_any(const cl_front *front)
{
    bool any = false;
    for (int node = 0; node < front->node_total; node++)
        any |= front->nodes[node].left_count > 0;
    return any;
}

static bool any_ran(const cl_front *front)
{
    bool any = false;
    for (int rank = 0; rank < front->worker_count; rank++)
        any |= front->workers[rank].pid != 0;
    return any;
}

/* Returns true if the report needs several lines; false if the line "cspeed: job ID failed: ..." alone says
 * everything. */
static bool wants_block(const cl_front *front)
{
    if (is_from_outside(front))
        return false;
    return cl_failure_is_rank(front) ? !cl_failure_is_explained(front) : front->first_node >= 0 && any_ran(front);
}

static void print_all(const cl_front *front, FILE *out)
{
    if (cl_front_code(front) == 0) {
        if (!left_any(front) && !front->options->verbose)
            return;
        fprintf(out, "cspeed: job %s ended", front->plan->id);
        print_end(front, out);
        return;
    }
    if (wants_block(front))
        print_block(front, out);
    fprintf(out, "cspeed: job %s failed: ", front->plan->id);
    print_verdict(front, out);
    print_resume_hint(front, out);
}

bool cl_failure_is_explained(const cl_front *front)
{
    return cl_codes_explained(cl_front_code(front)) ||
           (cl_failure_is_rank(front) && cl_workers_explained(front, front->first));
}

char *cl_failure_text(const cl_front *front)
{
    char *text;
    FILE *out = ce_must_stream(&text, NULL);
    print_all(front, out);
    ce_must_finish(out);
    return text;
}
