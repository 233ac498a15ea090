/* jobs.c - the commands for running jobs: `cspeed ps`, `cspeed status` and `cspeed stop`. */
#include "ground/codes.h"
#include "ground/command.h"
#include "front/registry_read.h"

#include "base/status.h"
#include "json/json.h"
#include "base/plural.h"

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

#define ONE_JOB(command) CL_COMMAND_FORM(command, 1, 1, "which JOB? `cspeed ps` lists those that run")

/* Returns the state of a job as parsed JSON; or NULL, with a sentence in cs_error(), if the job's front process does
 * not answer. */
static json_t *ask(const cl_registry_job *job, char **text)
{
    *text = cl_registry_read_ask(job);
    json_t *state = *text ? json_loads(*text, JSON_ALLOW_NUL, NULL) : NULL;
    if (*text && !state)
        cl_codes_fail(CL_CODE_SYSTEM, "job %s (pid %d) does not report its state", job->job, job->pid);
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

static void print_since(int64_t since, char text[MOMENT_BYTES])
{
    time_t moment = since;
    struct tm day;
    localtime_r(&moment, &day);
    strftime(text, MOMENT_BYTES, "%Y-%m-%d %H:%M:%S", &day);
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

static int run_ps(const cl_options *options, char **arguments)
{
    cl_registry_job *jobs;
    int count, code;
    (void)options;
    if (*arguments)
        return cl_codes_fail(CL_CODE_USAGE, "ps: \"%s\" is unexpected", *arguments);
    code = cl_registry_read_list(&jobs, &count, NULL);
    if (code)
        return code;
    int width = widest_id(jobs, count);
    if (count)
        printf("%-*s %8s  %-19s %6s  %-9s %8s  %-16s %s\n", width, "JOB", "PID", "SINCE", "RANKS", "STATE", "STEP",
               "HOSTS", "COMMAND");
    else
        printf("no job runs\n");
    for (int i = 0; i < count; i++) {
        char *text, since[MOMENT_BYTES], step[MOMENT_BYTES], hosts[HOSTS_WIDTH + 1];
        json_t *state = ask(&jobs[i], &text);
        print_since(jobs[i].since, since);
        shorten_hosts(jobs[i].hosts, hosts);
        printf("%-*s %8d  %-19s %6d  %-9s %8s  %-16s %.60s\n", width, jobs[i].job, jobs[i].pid, since, jobs[i].ranks,
               word(state, "state"), number(state, "step", step), hosts, jobs[i].command);
        json_decref(state);
        free(text);
    }
    free(jobs);
    ce_clear_error(); /* of a front process that does not answer; the row of its job shows "?" */
    return 0;
}

const cl_command cl_command_ps = {
    .name = "ps",
    .group = "Look",
    .summary = "list the running jobs",
    .usage = "cspeed ps",
    .text = "Lists the jobs that you started on this machine and that are still running, the oldest first: id,\n"
            "process id of the launcher, start time, number of ranks, state, last step, hosts and command.\n",
    .example = "cspeed ps",
    .run = run_ps,
};

/* ---- status ---- */

static void print_table(const cl_registry_job *job, const json_t *state)
{
    char numbers[5][MOMENT_BYTES];
    size_t index;
    json_t *rank;
    printf("job %s (pid %d): %s, attempt %s, %d rank%s, step %s\n", job->job, job->pid, word(state, "state"),
           number(state, "attempt", numbers[0]), job->ranks, ce_plural(job->ranks), number(state, "step", numbers[1]));
    printf("command  %s\n", job->command);
    if (*job->run_dir)
        printf("logs     %s\n", job->run_dir);
    printf("%6s  %-20s %5s %8s  %-8s %8s  %s\n", "RANK", "HOST", "LOCAL", "PID", "STATE", "STEP", "WAITS IN");
    json_array_foreach (json_object_get(state, "ranks"), index, rank) {
        const char *where = json_string_value(json_object_get(rank, "collective"));
        printf("%6s  %-20s %5s %8s  %-8s %8s  %s", number(rank, "rank", numbers[0]), word(rank, "host"),
               number(rank, "local_rank", numbers[1]), number(rank, "pid", numbers[2]), word(rank, "state"),
               number(rank, "step", numbers[3]), where && *where ? where : "-");
        if (json_object_get(rank, "seconds_there"))
            printf(" (%s s)", number(rank, "seconds_there", numbers[4]));
        putchar('\n');
    }
}

static int run_status(const cl_options *options, char **arguments)
{
    static const cs_option table[] = { { .names = "json", .kind = CS_OPTION_SWITCH } };
    static const cs_options_form form = { ONE_JOB("status"), CS_OPTIONS_TABLE(table) };
    bool bare = false;
    cl_registry_job job;
    char *text;
    (void)options;
    int code = cs_options_read(&form, &bare, &arguments);
    if (code == 0)
        code = cl_registry_read_find(&job, *arguments);
    if (code)
        return code;
    json_t *state = ask(&job, &text);
    if (state && bare)
        fputs(text, stdout);
    else if (state)
        print_table(&job, state);
    code = state ? 0 : CL_CODE_SYSTEM;
    json_decref(state);
    free(text);
    return code;
}

const cl_command cl_command_status = {
    .name = "status",
    .group = "Look",
    .summary = "show the state of each rank of a job",
    .usage = "cspeed status JOB [--json]",
    .text = "Prints one row for each rank of the job: host, process id, state, last step, and, if the rank is\n"
            "waiting in a collective, the name of the collective and the seconds that it has waited. JOB is the\n"
            "id of a running job, or the first characters of the id. --json prints the job's state as one JSON\n"
            "object.\n",
    .example = "cspeed status 7f3a",
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
    static const cs_options_form form = { ONE_JOB("stop"), CS_OPTIONS_TABLE(table) };
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
