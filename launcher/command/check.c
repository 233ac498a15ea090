/* check.c - `cspeed check`: asks every host of a job whether the host has what the job needs. */
#include "command/check.h"

#include "ground/codes.h"
#include "ground/programs.h"
#include "ground/command.h"
#include "plan/world_sizes.h"
#include "wire/run_on_all.h"
#include "wire/words.h"

#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { REPLY_BYTES = 2048, WHY_BYTES = 1024, REPLY_LINES = 5 };

/* The script that runs on each host. It prints five lines: the time, the version of cspeed, the checksum of cspeed's
 * executable file, whether the working directory exists, and the checksum of the configuration. $1 is the path of
 * cspeed on this machine, $2 the working directory, $3 the configuration. */
static const char script[] = "date +%s.%N; c=$1; test -x \"$c\" || c=$(command -v cspeed); "
                             "{ test -n \"$c\" && \"$c\" version 2>&1 || echo none; } | head -n 1; "
                             "{ sha256sum < \"${c:-/dev/null}\" || echo none; } 2>/dev/null; "
                             "cd \"$2\" 2>/dev/null && echo there || echo missing; "
                             "{ test -n \"$3\" && sha256sum < \"$3\" || echo missing; } 2>/dev/null";

enum { TIME, VERSION, BINARY, FOLDER, CONFIG };

typedef struct {
    char text[REPLY_BYTES], why[WHY_BYTES];
    char *lines[REPLY_LINES];
    size_t count;
    /* how many seconds the host's clock is ahead of this machine's clock, when the first byte of the reply arrives */
    double clock;
    int code; /* 0: no problem of this host was found yet */
    bool ended;
} reply;

typedef struct {
    const cl_plan *plan;
    /* [node_count + 1]; the last reply is that of this machine, and the other replies are compared with it */
    reply *replies;
    const char *config;
    cl_check_print print;
} inquiry;

static void take_reply(reply *r, const cl_message *message)
{
    struct timespec now;
    size_t length = message->length < REPLY_BYTES - 1 - r->count ? message->length : REPLY_BYTES - 1 - r->count;
    bool first = r->count == 0;
    memcpy(r->text + r->count, message->bytes, length);
    r->count += length;
    clock_gettime(CLOCK_REALTIME, &now);
    if (first)
        r->clock = strtod(r->text, NULL) - ((double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
}

static void take(int index, const cl_message *message, void *argument)
{
    inquiry *all = argument;
    reply *r = &all->replies[index];
    switch (message->kind) {
    case CL_LINK_OUTPUT:
        take_reply(r, message);
        break;
    case CL_LINK_FAILED:
        r->code = (int)message->rank;
        snprintf(r->why, sizeof r->why, "%.*s", (int)message->length, message->bytes);
        break;
    case CL_LINK_SAY:
        fprintf(stderr, "cspeed: %.*s\n", (int)message->length, message->bytes);
        break;
    default:
        break;
    }
}

/* ---- checking the replies ---- */

static void __attribute__((format(printf, 3, 4))) blame(reply *r, int code, const char *format, ...)
{
    va_list arguments;
    if (r->code)
        return;
    r->code = code;
    va_start(arguments, format);
    vsnprintf(r->why, sizeof r->why, format, arguments);
    va_end(arguments);
}

static bool split(reply *r)
{
    char *next, *line = strtok_r(r->text, "\n", &next);
    for (int i = 0; i < REPLY_LINES; i++, line = strtok_r(NULL, "\n", &next)) {
        if (!line)
            return false;
        r->lines[i] = line;
    }
    return true;
}

static void judge(const inquiry *all, reply *r, const char *host)
{
    static const double late = 1.0;
    const reply *here = &all->replies[all->plan->node_count];
    char **is = r->lines;
    if (r->code)
        return;
    if (!split(r)) {
        blame(r, CL_CODE_HOST, "%s: its login shell does not understand commands of sh", host);
        return;
    }
    if (strcmp(is[VERSION], "none") == 0)
        blame(r, CL_CODE_NOT_FOUND,
              "%s: cspeed is neither at the same path as on this machine nor in PATH: install the same build there, "
              "or give its path with --agent_path",
              host);
    if (strcmp(is[VERSION], here->lines[VERSION]) != 0)
        blame(r, CL_CODE_DISAGREE, "%s: has %s, but this machine has %s: install the same version", host, is[VERSION],
              here->lines[VERSION]);
    if (strcmp(is[FOLDER], "there") != 0)
        blame(r, CL_CODE_NO_FILE, "%s: there is no folder %s; create it, share it, or name another with --workdir",
              host, all->plan->workdir);
    if (all->config && strcmp(is[CONFIG], "missing") == 0)
        blame(r, CL_CODE_NO_FILE, "%s: there is no %s in %s", host, all->config, all->plan->workdir);
    if (all->config && strcmp(is[CONFIG], here->lines[CONFIG]) != 0)
        blame(r, CL_CODE_DISAGREE, "%s: its %s differs from the one on this machine", host, all->config);
    if (fabs(r->clock) > late)
        blame(r, CL_CODE_DISAGREE,
              "%s: its clock is %.1f s %s: set it (chrony, ntp), otherwise times in logs are wrong", host,
              fabs(r->clock), r->clock > 0 ? "ahead" : "behind");
}

/* ---- printing ---- */

static void print_row(const inquiry *all, const reply *r, const char *host)
{
    const reply *here = &all->replies[all->plan->node_count];
    if (!r->lines[CONFIG]) {
        printf("%-20s %-5s\n", host, "FAIL");
        return;
    }
    bool same = strcmp(r->lines[BINARY], here->lines[BINARY]) == 0;
    printf("%-20s %-5s %-24s %-8s %-8s %+.3f s\n", host, r->code ? "FAIL" : "ok",
           same ? r->lines[VERSION] : "another build", r->lines[FOLDER],
           !all->config                                         ? "-"
           : strcmp(r->lines[CONFIG], here->lines[CONFIG]) == 0 ? "same"
                                                                : "differs",
           r->clock);
}

static int print_all(const inquiry *all)
{
    int code = 0;
    if (all->print == CL_CHECK_TABLE)
        printf("%-20s %-5s %-24s %-8s %-8s %s\n", "host", "", "cspeed", "workdir", "config", "clock");
    for (int i = 0; i < all->plan->node_count && all->print == CL_CHECK_TABLE; i++)
        print_row(all, &all->replies[i], all->plan->nodes[i].host->name);
    fflush(stdout);
    for (int i = 0; i < all->plan->node_count; i++) {
        const reply *r = &all->replies[i];
        if (r->code)
            fprintf(stderr, "cspeed: %s\n", r->why);
        code = code ? code : r->code;
    }
    return code;
}

/* ---- asking the hosts ---- */

/* Writes the command that runs the script. `path` is where cspeed is expected on the host. */
static bool write_command(const inquiry *all, const char *path, char *command, size_t capacity)
{
    char words[4][PATH_MAX + 64];
    return cl_words_quote(words[0], sizeof *words, script) && cl_words_quote(words[1], sizeof *words, path) &&
           cl_words_quote(words[2], sizeof *words, all->plan->workdir) &&
           cl_words_quote(words[3], sizeof *words, all->config ? all->config : "") &&
           snprintf(command, capacity, "exec sh -c %s sh %s %s %s", words[0], words[1], words[2], words[3]) <
               (int)capacity;
}

/* Asks this machine first, because the replies of the other hosts are compared with its reply. */
static int ask(inquiry *all, const cl_host **hosts)
{
    static char command[6 * PATH_MAX], own_name[] = "localhost";
    static cl_host this_host = { .name = own_name };
    int count = all->plan->node_count, code;
    char self[PATH_MAX];
    reply *here = &all->replies[count];
    const cl_options *options = all->plan->options;
    for (int i = 0; i < count; i++)
        hosts[i] = all->plan->nodes[i].host;
    hosts[count] = &this_host;
    if (!cl_programs_self(self) || !write_command(all, self, command, sizeof command))
        return cl_codes_fail(CL_CODE_SYSTEM, "the paths are too long for one command line");
    code = cl_run_on_all_run(&hosts[count], 1, &(cl_options){ 0 }, command, take, &(inquiry){ .replies = here });
    if (code == 0 && (here->code || !split(here)))
        code = cl_codes_fail(CL_CODE_SYSTEM, "the check of this machine itself failed: %s", here->why);
    if (code == 0 && options->agent_path && !write_command(all, options->agent_path, command, sizeof command))
        code = cl_codes_fail(CL_CODE_SYSTEM, "--agent_path: the path is too long for a command line");
    if (code == 0)
        code = cl_run_on_all_run(hosts, count, options, command, take, all);
    for (int i = 0; i < count && code == 0; i++)
        judge(all, &all->replies[i], hosts[i]->name);
    return code;
}

int cl_check_run(const cl_plan *plan, cl_check_print print)
{
    size_t count = (size_t)plan->node_count + 1;
    inquiry all = { .plan = plan, .replies = calloc(count, sizeof *all.replies), .print = print };
    const cl_host **hosts = calloc(count, sizeof *hosts);
    all.config = plan->arguments ? cl_world_sizes_config(plan->arguments) : NULL;
    int code =
        all.replies && hosts ? ask(&all, hosts) : cl_codes_fail(CL_CODE_SYSTEM, "no memory for %zu hosts", count);
    if (code == 0)
        code = print_all(&all);
    free(all.replies);
    free(hosts);
    return code;
}

static int run(const cl_options *options, char **arguments)
{
    static char placeholder[] = "true";
    char *nothing[] = { placeholder, NULL };
    cl_options mine = *options;
    cl_plan plan = { 0 };
    if (cl_check_model_is(arguments))
        return cl_check_model(arguments);
    mine.program = *arguments ? arguments : nothing;
    int code = cl_hostplan_make(&plan, &mine);
    if (code == 0)
        code = cl_check_run(&plan, CL_CHECK_TABLE);
    cl_hostplan_free(&plan);
    return code;
}

const cl_command cl_command_check = {
    .name = "check",
    .group = "Prepare",
    .summary = "check that every host is ready for a job, or that a model is understood",
    .usage = "cspeed [LAUNCH FLAGS] check [PROGRAM ARGUMENTS...]\n"
             "cspeed check MODEL [--json]",
    .text = "Connects to all hosts that the launch flags select, in parallel, and prints one row for each host:\n"
            "whether the connection succeeds, the version of cspeed there, whether the working directory exists,\n"
            "whether the program's configuration file (--config or --deepspeed_config) is the same as on this\n"
            "machine, and the difference between the clocks. Below the table, each problem is described with its\n"
            "remedy. The exit code is 0 if every host is ready; otherwise that of the first host with a problem:\n"
            "68 (no connection), 127 (cspeed is not installed), 76 (version, configuration or clock differ) or 66\n"
            "(a folder or file is missing).\n"
            "\n"
            "With MODEL, a Hugging Face folder, a GGUF file or ORG/NAME of the Hub: names every key of its\n"
            "config.json, every tensor and every part of its tokenizer that is not understood, without reading\n"
            "the weights. The exit code is 0 if all is understood, otherwise 78.\n",
    .example = "cspeed --hostfile hosts check train --config ds_config.json",
    .run = run,
    .hands_on = true,
};
