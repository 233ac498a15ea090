/* run.c - a program on its ranks: plan, start, watch, exit code. */
#include "run.h"

#include "codes.h"
#include "failure.h"
#include "guard.h"
#include "local.h"
#include "output.h"
#include "port.h"
#include "program.h"
#include "ranks.h"
#include "watch.h"

#include "base/status.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { BANNER_RANKS = 8, CORES_BYTES = 128, BANNER_BYTES = 2048, THREADS_BYTES = 96 };

/* How wide the terminal is that stdout is; 0 when it is none that can redraw a line. */
static int terminal_columns(void)
{
    struct winsize size;
    const char    *kind = getenv("TERM");
    if (!isatty(STDOUT_FILENO) || !kind || strcmp(kind, "dumb") == 0)
        return 0;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

/* "rank 0 on core 0, rank 1 on core 1" */
static void print_places(const cs_job *job, char text[BANNER_BYTES])
{
    char cores[CORES_BYTES];
    int  used = 0;
    for (int rank = 0; rank < job->rank_count && rank < BANNER_RANKS; rank++) {
        cs_cores_print(&job->seats[rank].cpus, cores, sizeof cores);
        used += snprintf(text + used, BANNER_BYTES - (size_t)used, "%srank %d on core%s %s", rank ? ", " : "", rank,
                         CPU_COUNT(&job->seats[rank].cpus) == 1 ? "" : "s", cores);
    }
    if (job->rank_count > BANNER_RANKS)
        snprintf(text + used, BANNER_BYTES - (size_t)used, " ... (--dry_run lists all)");
}

static void print_threads(const cs_job *job, char text[THREADS_BYTES])
{
    const char *told = getenv("OMP_NUM_THREADS");
    int         most = job->seats[0].threads, least = job->seats[job->rank_count - 1].threads;
    if (told)
        snprintf(text, THREADS_BYTES, "OMP_NUM_THREADS=%s", told);
    else if (!job->tell_threads)
        snprintf(text, THREADS_BYTES, "threads as the program chooses");
    else if (least < most)
        snprintf(text, THREADS_BYTES, "%d or %d threads each", least, most);
    else
        snprintf(text, THREADS_BYTES, "%d thread%s each", most, most == 1 ? "" : "s");
}

static void say_banner(cs_output *output, const cs_job *job)
{
    char places[BANNER_BYTES] = "not pinned to cores", threads[THREADS_BYTES];
    if (job->bound)
        print_places(job, places);
    print_threads(job, threads);
    cs_output_say(output, "cspeed %s  job %s  %d rank%s on this machine  master 127.0.0.1:%d%s%s", CS_VERSION, job->id,
                  job->rank_count, job->rank_count == 1 ? "" : "s", job->port, *output->log_dir ? "  logs " : "",
                  output->log_dir);
    cs_output_say(output, "  off CUDA a \"gpu\" slot is a CPU rank: %s; %s", places, threads);
    if (job->options->verbose)
        cs_output_say(output, "  program %s", job->program);
}

static int work_with(const cs_job *job, const cs_guard *guard, cs_output *output, cs_process *processes)
{
    if (!job->options->quiet)
        say_banner(output, job);
    cs_console_flush(output->console_of[1], cs_watch_now());
    int code = cs_local_start(job, &guard->before, processes);
    if (code)
        return code;
    for (int rank = 0; rank < job->rank_count; rank++) {
        cs_output_attach(output, rank, processes[rank].outputs);
        if (job->options->verbose)
            cs_output_say(output, "cspeed: rank %d is pid %d", rank, processes[rank].pid);
    }
    cs_watch watch;
    code = cs_watch_open(&watch, job, guard, processes, output);
    if (code)
        return code;
    cs_watch_run(&watch);
    cs_watch_drain(&watch);
    cs_output_finish(output);
    cs_failure_say(&watch);
    cs_watch_drain(&watch);
    code = cs_watch_code(&watch);
    cs_watch_close(&watch);
    return code;
}

/* In the watcher. */
static int work(void *argument, const cs_guard *guard)
{
    const cs_job *job = argument;
    cs_output     output;
    signal(SIGPIPE, SIG_IGN); /* a console whose reader has gone is no reason to end */
    cs_process *processes = calloc((size_t)job->rank_count, sizeof *processes);
    int         code      = processes ? cs_output_open(&output, job, cs_watch_now())
                                      : cs_codes_fail(CS_CODE_SYSTEM, "no memory for %d ranks", job->rank_count);
    if (code == 0)
        code = work_with(job, guard, &output, processes);
    if (processes)
        cs_output_close(&output);
    free(processes);
    if (*cs_error())
        fprintf(stderr, "cspeed: %s\n", cs_error());
    return code;
}

/* What would be started, to stdout. */
static int print_plan(const cs_job *job)
{
    char        cores[CORES_BYTES];
    cs_variable variables[CS_RANKS_VARIABLES];
    printf("program   %s\narguments", job->program);
    for (char **argument = job->arguments + 1; *argument; argument++)
        printf(" [%s]", *argument);
    for (int rank = 0; rank < job->rank_count; rank++) {
        cs_cores_print(&job->seats[rank].cpus, cores, sizeof cores);
        printf("\nrank %d    cores %s\n         ", rank, job->bound ? cores : "all");
        int count = cs_ranks_variables(job, rank, variables);
        for (int i = 0; i < count; i++)
            printf(" %s=%s", variables[i].name, variables[i].value);
    }
    printf("\n");
    return 0;
}

int cs_run(const cs_options *options)
{
    cs_job job = { .arguments = options->program, .columns = terminal_columns() };
    int    code = cs_program_find(options->program[0], job.program);
    if (code == 0)
        code = cs_ranks_plan(&job, options);
    if (code == 0)
        code = cs_port_hold(options->master_port, &job.port);
    if (code == 0)
        code = options->dry_run ? print_plan(&job) : cs_guard_run(work, &job);
    cs_ranks_free(&job);
    return code;
}
