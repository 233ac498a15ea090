/* planner.c - `cspeed plan`: what a command would do, and nothing done. */
#include "command/planner.h"

#include "codes.h"
#include "node/program.h"
#include "plan/hostplan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the memory of its ranks, which the program knows ---- */

/* `train` with a configuration: no other program has a plan of its own. */
static bool has_memory_plan(char **program)
{
    const char *slash = *program ? strrchr(*program, '/') : NULL;
    if (!*program || strcmp(slash ? slash + 1 : *program, "train") != 0)
        return false;
    for (char **at = program + 1; *at; at++)
        if (strncmp(*at, "--config", 8) == 0 || strncmp(*at, "--deepspeed_config", 18) == 0 ||
            strncmp(*at, "--deepspeed-config", 18) == 0)
            return strcmp(*at, "--config_help") != 0;
    return false;
}

/* In the child: the program with its arguments and --plan behind them. */
_Noreturn static void become(const char *path, char **program, int ranks)
{
    int    count     = 0;
    char   size[32], plan[] = "--plan";
    while (program[count])
        count++;
    char **arguments = calloc((size_t)count + 3, sizeof *arguments);
    if (!arguments)
        _exit(CS_CODE_SYSTEM);
    memcpy(arguments, program, (size_t)count * sizeof *arguments);
    snprintf(size, sizeof size, "--world_size=%d", ranks);
    arguments[count]     = plan;
    arguments[count + 1] = size;
    execv(path, arguments);
    _exit(CS_CODE_NOT_EXECUTABLE);
}

/* Runs it here, once, as no rank of any world. Its exit code. */
static int show_memory(char **program, int ranks)
{
    char path[PATH_MAX];
    int  code = cs_program_find(*program, path), status;
    if (code)
        return code;
    putchar('\n');
    fflush(stdout);
    pid_t child = fork();
    if (child < 0)
        return cs_codes_fail(CS_CODE_SYSTEM, "cannot start %s", path);
    if (child == 0)
        become(path, program, ranks);
    if (waitpid(child, &status, 0) != child)
        return cs_codes_fail(CS_CODE_SYSTEM, "%s was lost", path);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- the command ---- */

int cs_planner_show(const cs_options *options, char **program, bool json)
{
    cs_options copy = *options;
    cs_plan    plan;
    copy.program = program;
    int code     = cs_hostplan_make(&plan, &copy);
    if (code)
        return code;
    if (json)
        cs_hostplan_print_json(&plan);
    else
        cs_hostplan_print(&plan);
    if (!json && has_memory_plan(program))
        code = show_memory(program, plan.rank_count);
    cs_hostplan_free(&plan);
    return code;
}

static int plan(const cs_options *options, char **arguments)
{
    bool json = false;
    for (; *arguments && (*arguments)[0] == '-'; arguments++) {
        if (strcmp(*arguments, "--") == 0) {
            arguments++;
            break;
        }
        if (strcmp(*arguments, "--json") != 0)
            return cs_codes_fail(CS_CODE_USAGE, "plan knows --json alone, not %s; launch flags stand before plan",
                                 *arguments);
        json = true;
    }
    return cs_planner_show(options, arguments, json);
}

const cs_command cs_command_planner = {
    .name    = "plan",
    .group   = "Prepare",
    .summary = "hosts, ranks, environment and command of a job, starting nothing",
    .usage   = "cspeed [LAUNCH FLAGS] plan [--json] [PROGRAM [ARGUMENTS]]",
    .text    = "Prints what `cspeed [LAUNCH FLAGS] PROGRAM` would do: hosts, slots, ranks, where they meet, the\n"
               "environment with where each value comes from, the binding to cores of this machine (the other nodes\n"
               "look at their own), and the command. No host is contacted. Values of secrets are not shown.\n"
               "For `train` with a configuration, which must be on this machine, the memory of each rank by class\n"
               "follows, as `train --plan` tells it. --json prints one object, without memory; --dry_run before the\n"
               "program is the same without memory.\n",
    .example = "cspeed --hosts a:8,b:8 plan --json train --config ds_config.json",
    .run     = plan,
};
