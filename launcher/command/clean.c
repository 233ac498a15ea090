/* clean.c - `cspeed clean`: finds what earlier jobs have left behind on this machine, and removes these remains. */
#include "codes.h"
#include "command.h"
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
    return alive ? cl_codes_fail(CL_CODE_SYSTEM, "%d of them do not end, though SIGKILL was sent", alive) : 0;
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
        printf("left behind by job %s: pid %d (%s)\n", list[i].job, list[i].pid, list[i].name);
    if (!count)
        printf("no process is left behind\n");
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
    .summary = "list what jobs have left behind here; --yes ends it",
    .usage = "cspeed clean [--yes]",
    .text =
        "Lists processes of yours on this machine that a job has started and whose agent is gone: all of its cspeed\n"
        "processes were killed here at once, by pkill -9 for instance. They are known by CSPEED_AGENT in their\n"
        "environment, which names the agent. --yes ends them: SIGTERM, five seconds, SIGKILL. The next job that is\n"
        "started on this machine ends them too, at once. Entries of jobs that are gone are removed from the "
        "registry.\n",
    .example = "cspeed clean --yes",
    .run = run,
};
