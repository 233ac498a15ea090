/* commands.c - the table of commands; a command is a file. In the order in which help lists them. */
#include "command.h"

#include <stdio.h>

extern const cs_command cs_command_run, cs_command_launch, cs_command_planner, cs_command_preflight, cs_command_environ,
    cs_command_doctor, cs_command_everywhere, cs_command_ps, cs_command_status, cs_command_showlogs, cs_command_stop,
    cs_command_clean, cs_command_linter, cs_command_curve, cs_command_elastic, cs_command_manual, cs_command_completion,
    cs_command_version, cs_command_inspect, cs_command_verify, cs_command_compare, cs_command_export,
    cs_command_import;

const cs_command *const cs_commands[] = {
    &cs_command_run,    &cs_command_launch,  &cs_command_planner, &cs_command_preflight,  &cs_command_environ,
    &cs_command_doctor, &cs_command_everywhere, &cs_command_ps,   &cs_command_status,     &cs_command_showlogs,
    &cs_command_stop,   &cs_command_clean,   &cs_command_linter,  &cs_command_curve,      &cs_command_elastic,
    &cs_command_inspect, &cs_command_verify, &cs_command_compare, &cs_command_export,   &cs_command_import,
    &cs_command_manual, &cs_command_completion, &cs_command_version, NULL,
};

void cs_command_help(const cs_command *command)
{
    printf("usage: %s\n\n%s\nexample:\n  %s\n", command->usage, command->text, command->example);
}
