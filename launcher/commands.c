/* commands.c - The table of commands, in the order in which help lists them. */
#include "command.h"

#include <stdio.h>

extern const cl_command cl_command_run, cl_command_launch, cl_command_planner, cl_command_preflight, cl_command_environ,
    cl_command_doctor, cl_command_everywhere, cl_command_ps, cl_command_status, cl_command_showlogs, cl_command_stop,
    cl_command_clean, cl_command_linter, cl_command_curve, cl_command_elastic, cl_command_manual, cl_command_completion,
    cl_command_version, cl_command_inspect, cl_command_verify, cl_command_compare, cl_command_export, cl_command_import;

const cl_command *const cl_commands[] = {
    &cl_command_run,     &cl_command_launch,     &cl_command_planner,    &cl_command_preflight,
    &cl_command_environ, &cl_command_doctor,     &cl_command_everywhere, &cl_command_ps,
    &cl_command_status,  &cl_command_showlogs,   &cl_command_stop,       &cl_command_clean,
    &cl_command_linter,  &cl_command_curve,      &cl_command_elastic,    &cl_command_inspect,
    &cl_command_verify,  &cl_command_compare,    &cl_command_export,     &cl_command_import,
    &cl_command_manual,  &cl_command_completion, &cl_command_version,    NULL,
};

void cl_command_help(const cl_command *command)
{
    printf("usage: %s\n\n%s\nexample:\n  %s\n", command->usage, command->text, command->example);
}
