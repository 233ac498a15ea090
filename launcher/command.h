/* command.h - A command of cspeed: one row in the table of commands.c, implemented in one file. */
#ifndef CL_COMMAND_H
#define CL_COMMAND_H

#include "options.h"

typedef struct {
    const char *name;
    const char *group;   /* heading in the list of help: "Start", "Look", "Prepare", "Files" */
    const char *summary; /* one line of at most half a screen's width */
    const char *usage;   /* "cspeed config FILE [--world_size N] [--json]"                          */
    const char *text;    /* text of `cspeed COMMAND --help` between usage and example; complete lines */
    const char *example; /* one complete command line */
    /* `arguments` are those after the command's name, NULL-terminated, which it may reorder; launch flags
     * before the name are in `options`. Returns an exit code (codes.h); if it is not 0, cs_error() has the message. */
    int (*run)(const cl_options *options, char **arguments);
    bool is_program; /* a program of cspeed, which prints the help of its options itself */
    bool hands_on;   /* arguments behind the first may be those of another program, and so may a --help among them */
} cl_command;

/* One row in the table of options of a command that stores its settings in a type named `request`. The row has no help
 * text, because cl_command.text contains the help of all options. */
#define CL_COMMAND_OPTION(kind, names, member, value) CS_OPTION(kind, names, request, member, value, NULL)

/* The beginning of a command's cs_options_form: `command` is its name, a literal; it takes `min` to `max` positional
 * arguments, and `needs` is the message if there are fewer. */
#define CL_COMMAND_FORM(command, min_, max_, needs_)                                                                   \
    .name = command, .what = "flag", .hint = "see cspeed " command " --help", .min = min_, .max = max_, .needs = needs_

/* Prints the usage, the text and the example of a command; for a program (is_program), prints the help of the program
 * itself. main.c calls this function for --help, instead of `run`. Returns an exit code. */
int cl_command_help(const cl_command *command);

/* Checks the file that --plot names, for commands that write no other format than SVG. `name` NULL: --plot is not
 * given. Returns 0, or CL_CODE_USAGE with a message. */
int cl_command_check_svg(const char *name);

extern const cl_command *const cl_commands[]; /* NULL-terminated */

#endif
