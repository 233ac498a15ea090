/* clean.c - `cspeed clean`: finds what earlier jobs have left behind on this machine, and removes these remains. */
#include "ground/codes.h"
#include "ground/command.h"
#include "base/plural.h"
#include "front/registry_read.h"
#include "node/leftover.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { GRACE_SECONDS = 5 };

static int end_all(const cl_leftover *list, int count)
{
    cl_leftover_signal(list, count, SIGTERM);
    cl_leftover_signal(list, count, SIGCONT);
    if (cl_leftover_await(list, count, GRACE_SECONDS))
        cl_leftover_signal(list, count, SIGKILL);
    int alive = cl_leftover_await(list, count, GRACE_SECONDS);
    printf("%d ended\n", count - alive);
    return alive ? cl_codes_fail(CL_CODE_SYSTEM, "%d of them have not ended after SIGKILL", alive) : 0;
}

/* Listing the registry of jobs also removes the entries of jobs that no longer exist. */
static int clean_registry(void)
{
    cl_registry_job *jobs;
    int count, swept = 0, code = cl_registry_read_list(&jobs, &count, &swept);
    free(jobs);
    if (swept)
        printf("%d stale file%s of the registry removed\n", swept, ce_plural(swept));
    return code;
}

static int run(const cl_options *options, char **arguments)
{
    bool yes = false;
    int count;
    (void)options;
    static const cs_option table[] = { { .names = "yes", .kind = CS_OPTION_SWITCH } };
    static const cs_options_form form = { CL_COMMAND_FORM("clean", 0, 0, NULL), CS_OPTIONS_TABLE(table) };
    int code = cs_options_read(&form, &yes, &arguments);
    if (code == 0)
        code = clean_registry();
    if (code)
        return code;
    cl_leftover *list = cl_leftover_find(&count);
    for (int i = 0; i < count; i++)
        printf("process of ended job %s: pid %d (%s)\n", list[i].job, list[i].pid, list[i].name);
    if (!count)
        printf("no process of an ended job runs\n");
    else if (!yes)
        printf("`cspeed clean --yes` ends %s\n", count == 1 ? "it" : "them");
    else
        code = end_all(list, count);
    free(list);
    return code;
}

const cl_command cl_command_clean = {
    .name = "clean",
    .group = "Start",
    .summary = "list processes that jobs left on this machine, and end them with --yes",
    .usage = "cspeed clean [--yes]",
    .text = "Lists your processes on this machine that belong to a job whose agent no longer exists. An agent is\n"
            "the process of cspeed that starts the ranks of a node and ends them; processes are left behind if\n"
            "all processes of cspeed were killed at the same time, for example by `pkill -9 cspeed`. They are\n"
            "recognized by the variable CSPEED_AGENT in their environment, which names the agent. --yes sends\n"
            "them SIGTERM and, after five seconds, SIGKILL. The next job on this machine also ends them. Entries\n"
            "of ended jobs are removed from the list that `cspeed ps` reads.\n",
    .example = "cspeed clean --yes",
    .run = run,
};
