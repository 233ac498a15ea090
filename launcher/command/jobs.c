/* jobs.c - the commands for jobs: `cspeed ps`, `cspeed status` and `cspeed stop`. */
#include "ground/codes.h"
#include "ground/command.h"
#include "front/logdir.h"

#include "base/plural.h"
#include "base/progress.h"
#include "base/status.h"
#include "json/json.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

enum { AGAIN_MILLISECONDS = 200, MOMENT_BYTES = 32 };

/* Returns the state of a job as parsed JSON; or NULL, with a sentence in cs_error(), if the job's front process does
 * not answer. */
static json_t *ask(const cl_registry_job *job, char **text)
{
    *text = cl_registry_read_ask(job);
    json_t *state = *text ? json_loads(*text, JSON_ALLOW_NUL, NULL) : NULL;
    if (*text && !state)
        cl_codes_fail(CL_CODE_SYSTEM, "job %s (pid %d): its state cannot be read", job->job, job->pid);
    return state;
}

static const char *word(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "?";
}

/* Returns a JSON number as text; JSON null becomes "-". */
static const char *number(const json_t *object, const char *key, char text[MOMENT_BYTES])
{
    json_t *value = json_object_get(object, key);
    snprintf(text, MOMENT_BYTES, json_is_integer(value) ? "%lld" : "-", json_integer_value(value));
    return text;
}

static void print_moment(time_t moment, char text[MOMENT_BYTES])
{
    struct tm day;
    localtime_r(&moment, &day);
    strftime(text, MOMENT_BYTES, "%Y-%m-%d %H:%M:%S", &day);
}

/* ---- jobs that have ended ---- */

/* Returns the contents of a job's result.json; NULL: there is none, because the launcher was killed. */
static json_t *read_result(const char *folder)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/result.json", folder);
    return json_load_file(path, JSON_ALLOW_NUL, NULL);
}

/* Returns how a job has ended. If a rank failed, the result's "kind" is "worker". */
static const char *end_of(const json_t *result)
{
    json_int_t code = json_integer_value(json_object_get(result, "code"));
    bool launcher = strcmp(word(result, "kind"), "launcher") == 0;
    if (!result)
        return "killed";
    if (launcher && json_is_string(json_object_get(result, "signal")))
        return "stopped";
    if (launcher && (code == CL_CODE_TIMEOUT || code == CL_CODE_STALLED))
        return code == CL_CODE_TIMEOUT ? "timeout" : "stalled";
    return code ? "failed" : "done";
}

/* Writes the time when a job has ended, and how long it has run, as text. */
static void print_end(const json_t *result, char ended[MOMENT_BYTES], char duration[CE_PROGRESS_TIME_BYTES])
{
    static const char form[] = "%Y-%m-%dT%H:%M:%SZ";
    struct tm from = { 0 }, to = { 0 };
    strcpy(ended, "-");
    strcpy(duration, "-");
    if (!strptime(word(result, "started"), form, &from) || !strptime(word(result, "ended"), form, &to))
        return;
    print_moment(timegm(&to), ended);
    ce_progress_time(duration, difftime(timegm(&to), timegm(&from)));
}

typedef struct {
    int width, printed; /* width: of the column of the ids; printed: the number of rows */
} ended_list;

static void print_ended(const char *folder, const char *id, void *argument)
{
    ended_list *list = argument;
    cl_registry_job running;
    char ended[MOMENT_BYTES], duration[CE_PROGRESS_TIME_BYTES], code[MOMENT_BYTES], step[MOMENT_BYTES];
    if (cl_registry_read_find_folder(&running, folder))
        return;
    if (list->printed++ == 0)
        printf("%-*s %-8s %4s  %-19s %10s %8s  %s\n", list->width, "ENDED JOB", "STATE", "CODE", "ENDED", "DURATION",
               "STEP", "FOLDER");
    json_t *result = read_result(folder);
    print_end(result, ended, duration);
    printf("%-*s %-8s %4s  %-19s %10s %8s  %s\n", list->width, id, end_of(result), number(result, "code", code), ended,
           duration, number(result, "last_step", step), folder);
    json_decref(result);
}

/* Prints how a job has ended, for `cspeed status`. */
static int print_result(const char *folder, bool bare)
{
    char ended[MOMENT_BYTES], duration[CE_PROGRESS_TIME_BYTES], code[MOMENT_BYTES], step[MOMENT_BYTES];
    json_t *result = read_result(folder);
    if (!result)
        return cl_codes_fail(CL_CODE_NO_FILE,
                             "the job of %s has ended; its launcher was killed before it wrote result.json", folder);
    print_end(result, ended, duration);
    if (bare) {
        json_dumpf(result, stdout, JSON_INDENT(2));
        putchar('\n');
    } else {
        const char *why = word(result, "why"), *by = json_string_value(json_object_get(result, "signal"));
        json_int_t ranks = json_integer_value(json_object_get(result, "world_size")),
                   restarts = json_integer_value(json_object_get(result, "restarts"));
        printf("job %s: %s%s%s%s, exit code %s, %lld rank%s, %lld restart%s, step %s\n", word(result, "job"),
               end_of(result), by ? " (" : "", by ? by : "", by ? ")" : "", number(result, "code", code), ranks,
               ce_plural(ranks), restarts, ce_plural(restarts), number(result, "last_step", step));
        if (*why)
            printf("reason   %s\n", why);
        if (json_is_integer(json_object_get(result, "rank")))
            printf("failed   rank %s on %s\n", number(result, "rank", code), word(result, "host"));
        char *path = realpath(folder, NULL);
        printf("ended    %s, after %s\nlogs     %s\n", ended, duration, path ? path : folder);
        free(path);
    }
    json_decref(result);
    return 0;
}

/* ---- ps ---- */

enum { HOSTS_WIDTH = 16 };

/* Writes the hosts as "a,b,c" if this text fits; otherwise writes the first host and the number of the other hosts:
 * "worker-0 +63". */
static void shorten_hosts(const char *hosts, char text[HOSTS_WIDTH + 1])
{
    int count = 0, first = (int)strcspn(hosts, ",");
    char more[16] = "";
    for (const char *at = hosts; (at = strchr(at, ',')); at++)
        count++;
    if (strlen(hosts) <= HOSTS_WIDTH)
        first = (int)strlen(hosts);
    else if (count)
        snprintf(more, sizeof more, " +%d", count);
    int capacity = HOSTS_WIDTH - (int)strlen(more);
    memcpy(text, hosts, (size_t)(first < capacity ? first : capacity));
    strcpy(text + (first < capacity ? first : capacity), more);
}

static int widest_id(const cl_registry_job *jobs, int count)
{
    enum { MIN_WIDTH = 12 };
    int width = MIN_WIDTH;
    for (int i = 0; i < count; i++)
        width = (int)strlen(jobs[i].job) > width ? (int)strlen(jobs[i].job) : width;
    return width;
}

static void print_running(const cl_registry_job *jobs, int count, int width)
{
    if (count)
        printf("%-*s %8s  %-19s %6s  %-9s %8s  %-16s %s\n", width, "JOB", "PID", "SINCE", "RANKS", "STATE", "STEP",
               "HOSTS", "COMMAND");
    else
        printf("no job runs\n");
    for (int i = 0; i < count; i++) {
        char *text, since[MOMENT_BYTES], step[MOMENT_BYTES], hosts[HOSTS_WIDTH + 1];
        json_t *state = ask(&jobs[i], &text);
        print_moment(jobs[i].since, since);
        shorten_hosts(jobs[i].hosts, hosts);
        printf("%-*s %8d  %-19s %6d  %-9s %8s  %-16s %.60s\n", width, jobs[i].job, jobs[i].pid, since, jobs[i].ranks,
               word(state, "state"), number(state, "step", step), hosts, jobs[i].command);
        json_decref(state);
        free(text);
    }
    ce_clear_error(); /* of a front process that does not answer; the row of its job shows "?" */
}

static int run_ps(const cl_options *options, char **arguments)
{
    static const cs_option table[] = { { .names = "all a", .kind = CS_OPTION_SWITCH } };
    static const cs_options_form form = { CL_COMMAND_FORM("ps", 0, 0, NULL), CS_OPTIONS_TABLE(table) };
    cl_registry_job *jobs = NULL;
    bool all = false;
    int count;
    (void)options;
    int code = cs_options_read(&form, &all, &arguments);
    if (code == 0)
        code = cl_registry_read_list(&jobs, &count, NULL);
    if (code)
        return code;
    ended_list list = { .width = widest_id(jobs, count) };
    print_running(jobs, count, list.width);
    if (all)
        cl_logdir_each(print_ended, &list);
    if (all && !list.printed)
        printf("no job has ended in ./cspeed_runs\n");
    free(jobs);
    return 0;
}

const cl_command cl_command_ps = {
    .name = "ps",
    .group = "Look",
    .summary = "list the running jobs, and with --all those that have ended",
    .usage = "cspeed ps [--all]",
    .text = "Lists the jobs that you started on this machine and that are still running, the oldest first: id,\n"
            "process id of the launcher, start time, number of ranks, state, last step, hosts and command. --all (-a)\n"
            "also lists the jobs in ./cspeed_runs that have ended: id, state (done, failed, stopped by a signal,\n"
            "timeout, stalled; killed: the launcher was killed and has left no result.json), exit code, end time,\n"
            "duration, last step and folder.\n",
    .example = "cspeed ps --all",
    .run = run_ps,
};

/* ---- status ---- */

static void print_table(const cl_registry_job *job, const json_t *state)
{
    char numbers[4][MOMENT_BYTES];
    size_t index;
    json_t *rank;
    printf("job %s (pid %d): %s, attempt %s, %d rank%s, step %s\n", job->job, job->pid, word(state, "state"),
           number(state, "attempt", numbers[0]), job->ranks, ce_plural(job->ranks), number(state, "step", numbers[1]));
    printf("command  %s\n", job->command);
    if (*job->run_dir)
        printf("logs     %s\n", job->run_dir);
    printf("%6s  %-20s %5s %8s  %-8s %s\n", "RANK", "HOST", "LOCAL", "PID", "STATE", "POSITION");
    json_array_foreach (json_object_get(state, "ranks"), index, rank) {
        printf("%6s  %-20s %5s %8s  %-8s %s", number(rank, "rank", numbers[0]), word(rank, "host"),
               number(rank, "local_rank", numbers[1]), number(rank, "pid", numbers[2]), word(rank, "state"),
               word(rank, "position"));
        if (json_object_get(rank, "seconds_there"))
            printf(" (%s s)", number(rank, "seconds_there", numbers[3]));
        putchar('\n');
    }
}

static int print_state(const cl_registry_job *job, bool bare)
{
    char *text;
    json_t *state = ask(job, &text);
    if (state && bare)
        fputs(text, stdout);
    else if (state)
        print_table(job, state);
    int code = state ? 0 : CL_CODE_SYSTEM;
    json_decref(state);
    free(text);
    return code;
}

static int run_status(const cl_options *options, char **arguments)
{
    static const cs_option table[] = { { .names = "json", .kind = CS_OPTION_SWITCH } };
    static const cs_options_form form = { CL_COMMAND_FORM("status", 1, 1, "which JOB? `cspeed ps --all` lists them"),
                                          CS_OPTIONS_TABLE(table) };
    bool bare = false, runs;
    cl_registry_job job;
    char folder[PATH_MAX];
    (void)options;
    int code = cs_options_read(&form, &bare, &arguments);
    if (code)
        return code;
    code = cl_logdir_find(*arguments, &job, &runs, folder);
    if (runs)
        return print_state(&job, bare);
    return code ? code : print_result(folder, bare);
}

const cl_command cl_command_status = {
    .name = "status",
    .group = "Look",
    .summary = "show the state of each rank of a job, or how a job has ended",
    .usage = "cspeed status JOB [--json]",
    .text = "Prints one row for each rank of a running job: host, process id, state, and position: the number of\n"
            "finished steps, the unit of the model that the rank computes, the collective in which it waits, if it\n"
            "does, and the seconds that it has been there. Of a job that has ended it prints the exit code, the\n"
            "reason, the end time and the duration. JOB is what `cspeed logs` takes: the id of a job or the first\n"
            "characters of the id, the path of a log folder, or \"latest\". --json prints the state, or the file\n"
            "result.json, as one JSON object.\n",
    .example = "cspeed status latest",
    .run = run_status,
};

/* ---- stop ---- */

/* Sends a signal to the front process through a pid file descriptor, so that the signal cannot reach another process
 * that reuses the process id. */
static int stop(const cl_registry_job *job, bool now)
{
    int fd = pidfd_open(job->pid, 0);
    struct pollfd gone = { .fd = fd, .events = POLLIN };
    if (fd < 0 || !cl_registry_read_is_running(job)) {
        if (fd >= 0)
            close(fd);
        return 0; /* the front process has ended in the meantime */
    }
    int failed = pidfd_send_signal(fd, now ? SIGINT : SIGTERM, NULL, 0) < 0 ? errno : 0;
    bool again = now;
    if (!failed)
        /* a suspended process must be continued before it can handle the signal */
        pidfd_send_signal(fd, SIGCONT, NULL, 0);
    while (!failed && poll(&gone, 1, again ? AGAIN_MILLISECONDS : -1) <= 0) {
        if (again)
            pidfd_send_signal(fd, SIGINT, NULL, 0);
        again = false;
    }
    close(fd);
    return failed ? cl_codes_fail(CL_CODE_SYSTEM, "job %s (pid %d) cannot be signalled: %s", job->job, job->pid,
                                  strerror(failed))
                  : 0;
}

static int run_stop(const cl_options *options, char **arguments)
{
    static const cs_option table[] = { { .names = "now", .kind = CS_OPTION_SWITCH } };
    static const cs_options_form form = { CL_COMMAND_FORM("stop", 1, 1, "which JOB? `cspeed ps` lists those that run"),
                                          CS_OPTIONS_TABLE(table) };
    bool now = false;
    cl_registry_job job;
    (void)options;
    int code = cs_options_read(&form, &now, &arguments);
    if (code == 0)
        code = cl_registry_read_find(&job, *arguments);
    if (code == 0)
        code = stop(&job, now);
    if (code == 0)
        printf("job %s has ended\n", job.job);
    return code;
}

const cl_command cl_command_stop = {
    .name = "stop",
    .group = "Start",
    .summary = "end a job and wait until it has ended",
    .usage = "cspeed stop JOB [--now]",
    .text = "Ends a job as SIGTERM to its launcher does: every rank gets the stop signal and, if it is still\n"
            "running after the time of --grace, SIGKILL. The command returns when the job has ended. --now sends\n"
            "SIGKILL without waiting, as a second Ctrl-C does. JOB is the id of a running job, or the first\n"
            "characters of the id.\n",
    .example = "cspeed stop 7f3a --now",
    .run = run_stop,
};
