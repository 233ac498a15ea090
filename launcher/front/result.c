/* result.c - writes the state and the result of a job as JSON. */
#include "front/failure.h"

#include "ground/codes.h"
#include "front/failure_hint.h"
#include "node/logs.h"
#include "front/rank_position.h"
#include "show/quote.h"

#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

enum { MOMENT_BYTES = 32 };

static const char *const phases[] = { [CL_JOINING] = "joining",   [CL_ORDERING] = "ordering", [CL_RUNNING] = "running",
                                      [CL_SETTLING] = "settling", [CL_STOPPING] = "stopping", [CL_OVER] = "over" };

static const char *const states[] = {
    [CL_WORKER_WAITING] = "waiting", [CL_WORKER_RUNNING] = "running", [CL_WORKER_ENDED] = "ended"
};

/* Prints "2026-11-21T14:02:11Z", the wall-clock time that corresponds to a time of the monotonic clock. */
static void print_moment(int64_t moment, char text[MOMENT_BYTES])
{
    time_t wall = time(NULL) - (time_t)((ce_clock_now() - moment) / SECOND);
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

/* ---- result.json ---- */

static void print_culprit(const cl_front *front, FILE *out)
{
    const cl_worker *first = &front->workers[front->first];
    int status = first->end.status;
    fprintf(out, "  \"kind\": \"worker\",\n  \"rank\": %d,\n  \"host\": ", front->first);
    cl_quote(out, cl_rank_position_host(front, front->first));
    fprintf(out, ",\n  \"pid\": %d,\n  \"signal\": ", first->pid);
    if (WIFSIGNALED(status))
        cl_quote(out, cl_codes_signal_name(WTERMSIG(status)));
    else
        fputs("null", out);
    fprintf(out, ",\n  \"oom\": %s,\n  \"log\": ", cl_failure_hint_is_oom(&first->end) ? "true" : "false");
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/attempt_%d/%d.err", front->run_dir, front->attempt, front->first);
    if (*front->run_dir)
        cl_quote(out, path);
    else
        fputs("null", out);
    fputs(",\n", out);
}

static void print_launcher(const cl_front *front, FILE *out)
{
    fprintf(out, "  \"kind\": %s,\n  \"rank\": null,\n  \"host\": ", cl_front_code(front) ? "\"launcher\"" : "null");
    if (front->first_node >= 0)
        cl_quote(out, front->nodes[front->first_node].host);
    else
        fputs("null", out);
    fputs(",\n  \"pid\": null,\n  \"signal\": ", out);
    if (front->signal)
        cl_quote(out, cl_codes_signal_name(front->signal));
    else
        fputs("null", out);
    fputs(",\n  \"oom\": false,\n  \"log\": null,\n", out);
}

static char *result_text(const cl_front *front)
{
    char *text = NULL, began[MOMENT_BYTES], ended[MOMENT_BYTES];
    size_t length;
    int64_t step = last_step(front);
    int code = cl_front_code(front);
    bool outside = front->timed_out || front->signal || front->stalled;
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return NULL;
    print_moment(front->began, began);
    print_moment(ce_clock_now(), ended);
    fputs("{\n  \"job\": ", out);
    cl_quote(out, front->plan->id);
    fprintf(out, ",\n  \"code\": %d,\n", code);
    if (!outside && cl_failure_is_rank(front))
        print_culprit(front, out);
    else
        print_launcher(front, out);
    fputs("  \"why\": ", out);
    cl_quote(out, cl_failure_why(front));
    fprintf(out,
            ",\n  \"attempts\": %d,\n  \"restarts\": %d,\n  \"world_size\": %d,\n  \"last_step\": ", front->attempt + 1,
            front->restarts, front->plan->rank_count);
    fprintf(out, step < 0 ? "null" : "%ld", step);
    fprintf(out, ",\n  \"started\": \"%s\",\n  \"ended\": \"%s\"\n}\n", began, ended);
    fclose(out);
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
    char *text = result_text(front);
    if (!text)
        return;
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
    free(text);
}

/* ---- the state of a running job ---- */

static void print_rank(const cl_front *front, int rank, int64_t now, FILE *out)
{
    const cl_worker *worker = &front->workers[rank];
    int64_t age = cl_rank_position_age(worker, now);
    fprintf(out, "%s    {\"rank\": %d, \"host\": ", rank ? ",\n" : "\n", rank);
    cl_quote(out, cl_rank_position_host(front, rank));
    fprintf(out, ", \"local_rank\": %d, \"pid\": %d, \"state\": \"%s\"",
            rank - front->plan->nodes[worker->node].first_rank, worker->pid, states[worker->state]);
    if (worker->state == CL_WORKER_ENDED)
        fprintf(out, ", \"code\": %d", cl_codes_of_status(worker->end.status));
    if (cl_rank_position_is_known(worker))
        fprintf(out, ", \"step\": %ld, \"collective\": \"%s\", \"seconds_there\": %ld",
                cl_rank_position_beat(worker)->step, cl_rank_position_collective(worker), age / SECOND);
    putc('}', out);
}

char *cl_result_state(const cl_front *front)
{
    char *text = NULL, began[MOMENT_BYTES];
    size_t length;
    int64_t now = ce_clock_now(), step = last_step(front);
    FILE *out = open_memstream(&text, &length);
    if (!out)
        return strdup("{}\n");
    print_moment(front->began, began);
    fputs("{\n  \"job\": ", out);
    cl_quote(out, front->plan->id);
    fprintf(out, ",\n  \"state\": \"%s\",\n  \"attempt\": %d,\n  \"started\": \"%s\",\n  \"world_size\": %d,\n",
            phases[front->phase], front->attempt, began, front->plan->rank_count);
    fprintf(out, "  \"step\": ");
    fprintf(out, step < 0 ? "null" : "%ld", step);
    fputs(",\n  \"run_dir\": ", out);
    cl_quote(out, front->run_dir);
    fputs(",\n  \"ranks\": [", out);
    for (int rank = 0; rank < front->worker_count; rank++)
        print_rank(front, rank, now, out);
    fputs("\n  ]\n}\n", out);
    fclose(out);
    return text;
}
