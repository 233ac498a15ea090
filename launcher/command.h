/* command.h - what a command of cspeed is: a row in commands.c's table, a file of its own. */
#ifndef CL_COMMAND_H
#define CL_COMMAND_H

#include "options.h"

typedef struct {
    const char *name;
    const char *group;   /* help lists commands by it: "Start", "Look", "Prepare", "Files"          */
    const char *summary; /* half a line                                                             */
    const char *usage;   /* "cspeed config FILE [--world_size N] [--json]"                          */
    const char *text;    /* what `cspeed COMMAND --help` says between usage and example; whole lines */
    const char *example; /* one command line that works                                             */
    /* `arguments` is what follows the command's name, NULL-terminated; launch flags before it are in `options`. Returns
     * an exit code (codes.h), with a sentence in cs_error() when it is not 0. */
    int (*run)(const cl_options *options, char **arguments);
} cl_command;

/* Prints usage, text and example: for a command's --help, which main.c answers before `run` is called. */
void cl_command_help(const cl_command *command);

extern const cl_command *const cl_commands[]; /* NULL-terminated */

#endif
