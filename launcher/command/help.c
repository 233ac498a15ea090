/* help.c - `cspeed -h`, `cspeed help [COMMAND|PAGE|flags]` and `cspeed version`. */
#include "ground/codes.h"
#include "ground/command.h"
#include "command/pages.h"
#include "show/markdown.h"

#include "cspeed/cspeed.h"
#include "cspeed/plot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char head[] = "usage: cspeed [LAUNCH FLAGS] PROGRAM [ARGUMENTS]     start PROGRAM on every rank\n"
                           "       cspeed [LAUNCH FLAGS] COMMAND [ARGUMENTS]\n\n"
                           "PROGRAM is a path if it contains a '/', otherwise a program of cspeed; after the\n"
                           "command run it may also be a program in PATH, which is searched last.\n\n"
                           "Train on this machine      cspeed train --config ds_config.json\n"
                           "Start another program      cspeed --num_gpus 4 run python3 train.py\n"
                           "Use many hosts, by SSH     cspeed --hostfile hosts train ...\n"
                           "The same without SSH       cspeed --no_ssh --hostfile hosts train ... (on each)\n"
                           "Continue after a failure   cspeed --hostfile hosts --max_restarts 3 train ...\n"
                           "See what will be started   cspeed [LAUNCH FLAGS] plan train ...\n"
                           "Check the configuration    cspeed config ds_config.json\n"
                           "Prepare a data set         cspeed pack --tokenizer MODEL --output data TEXT...\n"
                           "Watch a training           cspeed status latest; cspeed plot RUN --follow\n"
                           "End a job                  cspeed stop JOB\n"
                           "Generate text              cspeed generate RUN --prompt TEXT\n"
                           "Write a Hugging Face model cspeed export RUN DIR\n\n"
                           "cspeed help NAME prints the text of a command or page below, cspeed help flags\n"
                           "prints the launch flags, and man cspeed is the manual.\n";

/* Prints the name of one command or page of a group. The heading `group` is printed before the first name of the
 * group. */
static void print_name(const char *group, const char *name, int *column)
{
    if (*column == 0)
        *column = printf("%-15s", group);
    else if (*column + (int)strlen(name) > 78)
        *column = printf("\n%-15s", "") - 1;
    *column += printf(" %s", name);
}

/* Prints the names of the commands of one group, in the order of the table. */
static void print_group(const char *group)
{
    int column = 0;
    for (const cl_command *const *each = cl_commands; *each; each++)
        if (strcmp((*each)->group, group) == 0)
            print_name(group, (*each)->name, &column);
    putchar('\n');
}

static bool is_first_of_group(const cl_command *const *command)
{
    for (const cl_command *const *each = cl_commands; each < command; each++)
        if (strcmp((*each)->group, (*command)->group) == 0)
            return false;
    return true;
}

static void print_screen(void)
{
    fputs(head, stdout);
    printf("\n");
    for (const cl_command *const *each = cl_commands; *each; each++)
        if (is_first_of_group(each))
            print_group((*each)->group);
    int column = 0;
    for (const cl_page *page = cl_pages; page->name; page++)
        print_name("Pages", page->name, &column);
    putchar('\n');
}

static void print_flags(void)
{
    printf("Launch flags precede the command or program; `--` ends them. --foo-bar means\n--foo_bar, and --x=v means "
           "--x v; flags cannot be abbreviated. If a flag is not\ngiven, its value is that of the environment "
           "variable CSPEED_NAME or, if torchrun\nhas this flag, PET_NAME. A time T is a number of seconds, or 15m, "
           "2h or 1d.\n\n");
    cs_options_help(cl_flags, cl_flags_count);
}

static void print_page(const cl_options *options, const char *text)
{
    enum { WIDEST = 100 }; /* the widest page, in columns; longer lines are hard to read */
    const char *none = getenv("NO_COLOR"), *terminal = getenv("TERM"), *color = options->color;
    int columns = cs_plot_screen_of(stdout).columns;
    bool fits = isatty(STDOUT_FILENO) && !(none && *none) && terminal && strcmp(terminal, "dumb") != 0;
    cl_markdown_print(&(cl_markdown){ .file = stdout,
                                      .columns = columns < 20       ? 20
                                                 : columns < WIDEST ? columns
                                                                    : WIDEST,
                                      .styled =
                                          color && strcmp(color, "auto") != 0 ? strcmp(color, "always") == 0 : fits },
                      text);
}

/* Reports that no command and no page has this name, and lists the names that exist. Returns the exit code. */
static int fail_unknown(const char *name, const char *const *names)
{
    char pages[1024] = "";
    size_t used = 0;
    const char *nearest = cs_nearest(name, names);
    if (nearest)
        return cl_codes_fail(CL_CODE_USAGE, "there is no command or page %s; the nearest is %s", name, nearest);
    for (const cl_page *page = cl_pages; page->name && used < sizeof pages; page++)
        used += (size_t)snprintf(pages + used, sizeof pages - used, "%s%s", used ? ", " : "", page->name);
    return cl_codes_fail(CL_CODE_USAGE,
                         "there is no command or page %s; the pages are %s; `cspeed help` lists the commands too", name,
                         pages);
}

/* Prints the help of the command, or the page, that has this name. Returns the exit code. */
static int print_topic(const cl_options *options, const char *name)
{
    enum { NAMES = 127 };
    const char *names[NAMES + 1];
    int count = 0;
    name = strcmp(name, "oom") == 0 ? "memory" : name; /* users search for "oom"; the page about it is "memory" */
    for (const cl_command *const *each = cl_commands; *each && count < NAMES; each++) {
        names[count++] = (*each)->name;
        if (strcmp((*each)->name, name) == 0)
            return cl_command_print_help(*each);
    }
    for (const cl_page *page = cl_pages; page->name && count < NAMES; page++) {
        names[count++] = page->name;
        if (strcmp(page->name, name) == 0) {
            print_page(options, page->text);
            return 0;
        }
    }
    names[count] = NULL;
    return fail_unknown(name, names);
}

static int help(const cl_options *options, char **arguments)
{
    if (arguments[0] && arguments[1])
        return cl_codes_fail(CL_CODE_USAGE, "help takes one word, not %s too", arguments[1]);
    if (!arguments[0])
        print_screen();
    else if (strcmp(arguments[0], "flags") == 0)
        print_flags();
    else
        return print_topic(options, arguments[0]);
    return 0;
}

static int version(const cl_options *options, char **arguments)
{
    (void)options;
    (void)arguments;
    printf("cspeed %s\n", CS_VERSION);
    if (*cl_commit)
        printf("commit %s\n", cl_commit);
    return 0;
}

const cl_command cl_command_help = {
    .name = "help",
    .group = "Look",
    .summary = "print help: an overview, one command, all launch flags, or a page of documentation",
    .usage = "cspeed help [COMMAND|PAGE|flags]",
    .text = "Without an argument, prints an overview of one screen, which lists the commands and the pages. With\n"
            "the name of a command: prints what the command does, its options and an example. With the word\n"
            "flags: prints all launch flags. With the name of a page: prints this page of the documentation, in\n"
            "lines that fit the terminal (at most 100 columns); each row of a table becomes a record. For example:\n"
            "`cspeed help troubleshooting | less`.\n",
    .example = "cspeed help memory",
    .run = help,
};

const cl_command cl_command_version = {
    .name = "version",
    .group = "Look",
    .summary = "print the version and the commit of the build",
    .usage = "cspeed version",
    .text =
        "Prints the version, which must be the same on every node, and the git commit of the sources with its date.\n"
        "Sources that are not in a git repository have no commit. -dirty after the commit means that the sources\n"
        "contained changes that are not in this commit.\n",
    .example = "cspeed version",
    .run = version,
};
