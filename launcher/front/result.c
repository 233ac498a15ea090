/* result.c - writes the state and the result of a job as JSON. */
#include "front/failure.h"

#include "ground/codes.h"
#include "node/logs.h"
#include "front/rank_position.h"
#include "show/quote.h"

#include "base/must.h"
#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOMENT_BYTES = 32 };

static const char *const phases[] = { [CL_JOINING] = "joining",   [CL_ORDERING] = "ordering", [CL_RUNNING] = "running",
                                      [CL_SETTLING] = "settling", [CL_STOPPING] = "stopping", [CL_OVER] = "over" };

static const char *const states[] = {
    [CL_WORKER_WAITING] = "waiting", [CL_WORKER_RUNNING] = "running", [CL_WORKER_ENDED] = "ended"
};

/* Prints "2026-11-21T14:02:11Z", the wall-clock time that corresponds to a time of the monotonic clock. */
static void print_moment(int64_t moment, char text[MOMENT_BYTES])
{
    time_t wall = time(NULL) - (time_t)((ce_clock_now() - moment) / CE_SECOND);
    struct tm day;
    gmtime_r(&wall, &day);
    strftime(text, MOMENT_BYTES, "%Y-%m-%dT%H:%M:%SZ", &day);
}

/* Returns the highest step that a rank of this attempt has reported, or, before the ranks exist, that of earlier
 * attempts. Returns -1 if no step is known. */
static int64_t last_step(const cl_front *front)
{
    int64_t step = front->worker_count || !front->steps_before ? -1 : front->steps_before;
    for (int rank = 0; rank < front->worker_count; rank++)
        if (cl_rank_position_is_known(&front->workers[rank]) &&
            cl_rank_position_beat(&front->workers[rank])->step > step)
            step = cl_rank_position_beat(&front->workers[rank])->step;
    return step;
}

/* ---- members of an object in JSON, after the first one ---- */

/* A text that is NULL becomes null, and so does a number that is not `known`. */
static void put_text(FILE *out, const char *name, const char *text)
{
    fprintf(out, ",\n  \"%s\": ", name);
    if (text)
        cl_quote(out, text);
    else
        fputs("null", out);
}

static void put_number(FILE *out, const char *name, bool known, int64_t number)
{
    fprintf(out, known ? ",\n  \"%s\": %ld" : ",\n  \"%s\": null", name, number);
}

static void put_moment(FILE *out, const char *name, int64_t moment)
{
    char text[MOMENT_BYTES];
    print_moment(moment, text);
    put_text(out, name, text);
}

/* ---- result.json ---- */

static char *result_text(const cl_front *front)
{
    char *text, log[PATH_MAX + 64];
    int64_t step = last_step(front);
    int code = cl_front_code(front), signal = front->signal;
    bool outside = front->timed_out || front->signal || front->stalled;
    const cl_worker *first = !outside && cl_failure_is_rank(front) ? &front->workers[front->first] : NULL;
    const char *host = front->first_node >= 0 ? front->nodes[front->first_node].host : NULL;
    FILE *out = ce_must_stream(&text, NULL);
    if (first)
        signal = WIFSIGNALED(first->end.status) ? WTERMSIG(first->end.status) : 0;
    snprintf(log, sizeof log, "%s/attempt_%d/%d.err", front->run_dir, front->attempt, front->first);
    fputs("{\n  \"job\": ", out);
    cl_quote(out, front->plan->id);
    put_number(out, "code", true, code);
    put_text(out, "kind", first ? "worker" : code ? "launcher" : NULL);
    put_number(out, "rank", first, front->first);
    put_text(out, "host", first ? cl_rank_position_host(front, front->first) : host);
    put_number(out, "pid", first, first ? first->pid : 0);
    put_text(out, "signal", signal ? cl_codes_signal_name(signal) : NULL);
    fprintf(out, ",\n  \"oom\": %s", first && cl_failure_hint_is_oom(&first->end) ? "true" : "false");
    put_text(out, "log", first && *front->run_dir ? log : NULL);
    put_text(out, "why", cl_failure_why(front));
    put_number(out, "attempts", true, front->attempt + 1);
    put_number(out, "restarts", true, front->restarts);
    put_number(out, "world_size", true, front->plan->rank_count);
    put_number(out, "last_step", step >= 0, step);
    put_moment(out, "started", front->began);
    put_moment(out, "ended", ce_clock_now());
    fputs("\n}\n", out);
    ce_must_finish(out);
    return text;
}

/* Writes the text to the file and closes the file. Returns 0 or an errno value. */
static int write_text(int fd, const char *text)
{
    ssize_t taken;
    if (fd < 0)
        return errno;
    taken = write(fd, text, strlen(text));
    int failed = taken < 0 ? errno : (size_t)taken < strlen(text) ? ENOSPC : 0;
    return close(fd) < 0 && !failed ? errno : failed;
}

void cl_result_write(cl_front *front)
{
    char path[PATH_MAX + 16];
    CE_FREED char *text = result_text(front);
    if (*front->run_dir) {
        snprintf(path, sizeof path, "%s/result.json", front->run_dir);
        int fd = cl_logs_create(path, O_TRUNC);
        int failed = fd < 0 ? 0 : write_text(fd, text);
        if (fd < 0)
            cl_output_say(&front->output, "cspeed: %s", cs_error());
        if (failed)
            cl_output_say(&front->output, "cspeed: %s could not be written: %s", path, strerror(failed));
    }
    /* /dev/termination-log exists in a Kubernetes pod only */
    write_text(open("/dev/termination-log", O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOCTTY), text);
}

/* ---- the state of a running job ---- */

static void print_rank(const cl_front *front, int rank, int64_t now, FILE *out)
{
    const cl_worker *worker = &front->workers[rank];
    int64_t age = cl_rank_position_age(worker, now);
    char position[CL_RANK_POSITION_BYTES], collectives[CL_RANK_POSITION_BYTES];
    fprintf(out, "%s    {\"rank\": %d, \"host\": ", rank ? ",\n" : "\n", rank);
    cl_quote(out, cl_rank_position_host(front, rank));
    fprintf(out, ", \"local_rank\": %d, \"pid\": %d, \"state\": \"%s\"",
            rank - front->plan->nodes[worker->node].first_rank, worker->pid, states[worker->state]);
    if (worker->state == CL_WORKER_ENDED)
        fprintf(out, ", \"code\": %d", cl_codes_of_status(worker->end.status));
    cl_rank_position_print(worker, position);
    fputs(", \"position\": ", out);
    cl_quote(out, position);
    cl_rank_position_waits(worker, collectives);
    if (cl_rank_position_is_known(worker))
        fprintf(out, ", \"step\": %ld, \"collective\": \"%s\", \"seconds_there\": %ld",
                cl_rank_position_beat(worker)->step, collectives, age / CE_SECOND);
    putc('}', out);
}

char *cl_result_state(const cl_front *front)
{
    char *text = NULL;
    size_t length;
    int64_t now = ce_clock_now(), step = last_step(front);
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return strdup("{}\n");
    fputs("{\n  \"job\": ", out);
    cl_quote(out, front->plan->id);
    put_text(out, "state", phases[front->phase]);
    put_number(out, "attempt", true, front->attempt);
    put_moment(out, "started", front->began);
    put_number(out, "world_size", true, front->plan->rank_count);
    put_number(out, "step", step >= 0, step);
    put_text(out, "run_dir", front->run_dir);
    fputs(",\n  \"ranks\": [", out);
    for (int rank = 0; rank < front->worker_count; rank++)
        print_rank(front, rank, now, out);
    fputs("\n  ]\n}\n", out);
    fclose(out);
    return text;
}
