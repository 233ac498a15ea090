/* command.h - A command of cspeed: one row in the table of commands.c, implemented in one file. */
#ifndef CL_COMMAND_H
#define CL_COMMAND_H

#include "ground/command_names.h"
#include "ground/options.h"

typedef struct {
    const char *name;
    const char *group; /* heading in the list of help: "Start", "Look", "Prepare", "Files" */
    /* These texts are the only description of the command: --help, the completions and the manual pages are made from
     * them. */
    const char *summary; /* what the command does, in the imperative; for lists of commands */
    const char *usage;   /* how the command is called, for example "cspeed config FILE [--world_size N] [--json]" */
    const char *text;    /* text of `cspeed COMMAND --help` between usage and example; complete lines */
    const char *example; /* a complete command line */
    /* `options` has the launch flags before the command's name. `arguments` is the NULL-terminated list of words after
     * the name; the function may reorder it. Returns an exit code (codes.h); if the code is not 0, cs_error() has the
     * message. */
    int (*run)(const cl_options *options, char **arguments);
    bool is_program; /* true: the command is a program of cspeed; the program prints its options for --help */
    /* true: the arguments after the first one may belong to another program, so a --help among them does not print the
     * help of this command */
    bool hands_on;
} cl_command;

/* Makes one row of a command's table of options. The command stores its settings in a type named `request`. The row has
 * no help text, because cl_command.text contains the help of all options. */
#define CL_COMMAND_OPTION(kind, names, member, value) CS_OPTION(kind, names, request, member, value, NULL)

/* The first members of a command's cs_options_form. `command` is the command's name, a string literal. The command
 * takes `min_` to `max_` positional arguments; `needs_` is the message if there are fewer. */
#define CL_COMMAND_FORM(command, min_, max_, needs_)                                                                   \
    .name = command, .what = "flag", .hint = "see cspeed " command " --help", .min = min_, .max = max_, .needs = needs_

/* Prints the usage, the text and the example of a command; for a program (is_program), also the program's own list of its
 * options. main.c calls this function for --help instead of `run`. Returns an exit code. */
int cl_command_print_help(const cl_command *command);

/* The git commit of the sources and its date, such as "0123456789ab of 2026-01-31"; "" if it is not known. "-dirty" after
 * the commit means that files have been changed since. The build writes this text (commit.cmake). */
extern const char cl_commit[];

#define CL_COMMAND_DECLARE(name) extern const cl_command cl_command_##name;
CL_COMMAND_NAMES(CL_COMMAND_DECLARE)
extern const cl_command *const cl_commands[]; /* NULL-terminated table of commands */

#endif
