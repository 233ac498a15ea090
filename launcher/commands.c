/* commands.c - the table of commands, in the order in which the help lists them. */
#include "codes.h"
#include "command.h"
#include "command/programs.h"

#include "base/ends_with.h"
#include "base/terminal.h"
#include "show/wrap.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { HELP_COLUMNS = 80 };

extern const cl_command cl_command_train, cl_command_generate, cl_command_eval, cl_command_pack, cl_command_bench,
    cl_command_run, cl_command_launch, cl_command_plan, cl_command_check, cl_command_env, cl_command_report,
    cl_command_ssh, cl_command_ps, cl_command_status, cl_command_logs, cl_command_stop, cl_command_clean,
    cl_command_config, cl_command_lr, cl_command_plot, cl_command_comm, cl_command_elastic, cl_command_manual,
    cl_command_completion, cl_command_version, cl_command_inspect, cl_command_verify, cl_command_diff,
    cl_command_export, cl_command_import;

const cl_command *const cl_commands[] = {
    &cl_command_train,
    &cl_command_run,
    &cl_command_launch,
    &cl_command_plan,
    &cl_command_check,
    &cl_command_env,
    &cl_command_report,
    &cl_command_ssh,
    &cl_command_ps,
    &cl_command_status,
    &cl_command_logs,
    &cl_command_stop,
    &cl_command_clean,
    &cl_command_config,
    &cl_command_lr,
    &cl_command_plot,
    &cl_command_comm,
    &cl_command_bench,
    &cl_command_elastic,
    &cl_command_inspect,
    &cl_command_verify,
    &cl_command_diff,
    &cl_command_export,
    &cl_command_import,
    &cl_command_pack,
    &cl_command_generate,
    &cl_command_eval,
    &cl_command_manual,
    &cl_command_completion,
    &cl_command_version,
    NULL,
};

int cl_command_check_svg(const char *name)
{
    if (!name || ce_ends_with(name, ".svg"))
        return 0;
    return cl_codes_fail(CL_CODE_USAGE,
                         "not supported: --plot %s, because only SVG is written here: give the file a name that ends "
                         "in .svg",
                         name);
}

static void print_text(const char *text)
{
    int columns = ce_terminal_columns(STDOUT_FILENO);
    cl_wrap_print(stdout, text, columns < HELP_COLUMNS ? columns : HELP_COLUMNS);
}

int cl_command_help(const cl_command *command)
{
    static char flag[] = "--help";
    if (command->is_program)
        return cl_programs_become(command->name, (char *[]){ flag, NULL });
    printf("usage: %s\n\n", command->usage);
    print_text(command->text);
    printf("\nexample:\n  %s\n", command->example);
    return 0;
}
