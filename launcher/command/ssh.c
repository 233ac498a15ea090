/* ssh.c - `cspeed ssh`: runs one command on every host, like DeepSpeed's ds_ssh. */
#include "ground/codes.h"
#include "ground/command.h"
#include "wire/run_on_all.h"
#include "plan/hostplan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The beginning of an output line whose end has not arrived yet. */
typedef struct {
    char *bytes;
    size_t count;
} part;

typedef struct {
    const cl_host **hosts;
    part (*parts)[2]; /* [host][0]: the unfinished line of the host's stdout; [host][1]: that of its stderr */
    int worst;
} everywhere;

static void print_lines(const everywhere *all, int index, int which, const char *bytes, size_t count)
{
    part *p = &all->parts[index][which];
    FILE *out = which ? stderr : stdout;
    char *more = realloc(p->bytes, p->count + count + 1);
    if (!more)
        return;
    memcpy(more + p->count, bytes, count);
    p->bytes = more;
    p->count += count;
    size_t from = 0;
    for (const char *end; (end = memchr(more + from, '\n', p->count - from)); from = (size_t)(end - more) + 1)
        fprintf(out, "%s: %.*s\n", all->hosts[index]->name, (int)(end - more - (ptrdiff_t)from), more + from);
    memmove(more, more + from, p->count - from);
    p->count -= from;
    fflush(out);
}

static void note(everywhere *all, int index, int code)
{
    for (int which = 0; which < 2; which++)
        if (all->parts[index][which].count)
            print_lines(all, index, which, "\n", 1);
    all->worst = code > all->worst ? code : all->worst;
}

static void take(int index, const cl_message *message, void *argument)
{
    everywhere *all = argument;
    switch (message->kind) {
    case CL_LINK_OUTPUT:
    case CL_LINK_ERROR:
        print_lines(all, index, message->kind == CL_LINK_ERROR, message->bytes, message->length);
        break;
    case CL_LINK_FINISH:
        note(all, index, (int)message->rank);
        if (message->rank)
            fprintf(stderr, "cspeed: %s: the command ended with %u\n", all->hosts[index]->name, message->rank);
        break;
    case CL_LINK_FAILED:
        note(all, index, (int)message->rank);
        fprintf(stderr, "cspeed: %.*s\n", (int)message->length, message->bytes);
        break;
    default:
        fprintf(stderr, "cspeed: %.*s\n", (int)message->length, message->bytes);
    }
}

/* Joins the words of the command with spaces, as ssh does. The shell of each host splits the text again. */
static char *join(char **words)
{
    size_t length = 1;
    for (int i = 0; words[i]; i++)
        length += strlen(words[i]) + 1;
    char *text = calloc(1, length);
    for (int i = 0; text && words[i]; i++) {
        strcat(text, i ? " " : "");
        strcat(text, words[i]);
    }
    return text;
}

static int run_on(const cl_plan *plan, char **words)
{
    char *command = join(words);
    everywhere all = { .hosts = calloc((size_t)plan->node_count, sizeof *all.hosts),
                       .parts = calloc((size_t)plan->node_count, sizeof *all.parts) };
    int code = CL_CODE_SYSTEM;
    if (command && all.hosts && all.parts) {
        for (int i = 0; i < plan->node_count; i++)
            all.hosts[i] = plan->nodes[i].host;
        code = cl_run_on_all_run(all.hosts, plan->node_count, plan->options, command, take, &all);
    }
    for (int i = 0; all.parts && i < plan->node_count; i++) {
        free(all.parts[i][0].bytes);
        free(all.parts[i][1].bytes);
    }
    free(all.parts);
    free(all.hosts);
    free(command);
    return code ? code : all.worst;
}

static int run(const cl_options *options, char **arguments)
{
    static const cs_option table[] = { { .names = "f", .kind = CS_OPTION_TEXT, .value = "HOSTFILE" } };
    static const cs_options_form form = { CL_COMMAND_FORM("ssh", 0, 0, NULL), CS_OPTIONS_TABLE(table), .stops = true };
    cl_options mine = *options;
    cl_plan plan = { 0 };
    const char *file = NULL;
    int code = cs_options_read(&form, &file, &arguments);
    if (file) {
        mine.hostfile = file;
        mine.hosts = NULL;
    }
    if (code == 0 && !*arguments)
        code = cl_codes_fail(CL_CODE_USAGE, "ssh: no command is given; see cspeed ssh --help");
    mine.program = arguments;
    if (code == 0)
        code = cl_hostplan_make(&plan, &mine);
    if (code == 0)
        code = run_on(&plan, arguments);
    cl_hostplan_free(&plan);
    return code;
}

const cl_command cl_command_ssh = {
    .name = "ssh",
    .group = "Prepare",
    .summary = "run a command on every host",
    .usage = "cspeed [LAUNCH FLAGS] ssh [-f HOSTFILE] [--] COMMAND...",
    .text = "Runs COMMAND in the shell of every host, in parallel. Each line of output begins with the name of\n"
            "its host. The hosts are those that the launch flags select (--hostfile, --include, ...), or those of\n"
            "the hostfile after -f. On this machine the command runs without SSH. The exit code is the largest\n"
            "exit code of all hosts; it is 68 if a host cannot be reached.\n",
    .example = "cspeed --hostfile hosts ssh nvidia-smi -L",
    .run = run,
    .hands_on = true,
};
