/* commands.c - the table of commands. */
#include "ground/codes.h"
#include "ground/command.h"
#include "command/programs.h"

#include "base/terminal.h"
#include "show/wrap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HELP_COLUMNS = 80 };

#define ADDRESS(name) &cl_command_##name,
const cl_command *const cl_commands[] = { CL_COMMAND_NAMES(ADDRESS) NULL };

static void print_text(const char *text)
{
    int columns = ce_terminal_columns(STDOUT_FILENO);
    cl_wrap_print(stdout, text, columns < HELP_COLUMNS ? columns : HELP_COLUMNS);
}

int cl_command_print_help(const cl_command *command)
{
    static char flag[] = "--help";
    printf("usage: %s\n\n", command->usage);
    print_text(command->text);
    printf("\nexample:\n  %s\n", command->example);
    if (!command->is_program)
        return 0;
    printf("\noptions:");
    setenv("CSPEED_HELP", "options", 1); /* the program prints its options without the usage line */
    return cl_programs_become(command->name, (char *[]){ flag, NULL });
}
