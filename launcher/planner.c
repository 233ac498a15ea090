/* planner.c - `cspeed plan`: what a command would do, and nothing done. */
#include "planner.h"

#include "codes.h"
#include "plan/hostplan.h"

#include <stdio.h>
#include <string.h>

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
    cs_hostplan_free(&plan);
    return 0;
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
               "--dry_run before the program is the same; --json prints one object.\n",
    .example = "cspeed --hosts a:8,b:8 plan --json train --config ds_config.json",
    .run     = plan,
};
