/* report.c - `cspeed report`: describes this build of cspeed and the hardware and software of this machine. */
#include "base/terminal.h"
#include "ground/codes.h"
#include "ground/command.h"
#include "machine/facts.h"
#include "show/quote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *title;
    void (*list)(cl_facts *facts);
} sections[] = {
    { "build", cl_installed_list }, { "machine", cl_hardware_machine }, { "cpu", cl_hardware_cpu },
    { "gpus", cl_hardware_gpus },   { "network", cl_hardware_network }, { "limits", cl_limits_list },
};

enum { SECTION_COUNT = (int)(sizeof sections / sizeof *sections) };

static void print_text(const cl_facts *facts, int section, bool colored)
{
    printf(colored ? "%s\033[1m%s\033[0m\n" : "%s%s\n", section ? "\n" : "", sections[section].title);
    for (int i = 0; i < facts->count; i++)
        printf("  %-22s %s\n", facts->list[i].name, facts->list[i].value);
}

static void print_json(const cl_facts *facts, int section)
{
    printf("%s\n  \"%s\": {", section ? "," : "{", sections[section].title);
    for (int i = 0; i < facts->count; i++) {
        fputs(i ? ",\n    " : "\n    ", stdout);
        cl_quote(stdout, facts->list[i].name);
        fputs(": ", stdout);
        cl_quote(stdout, facts->list[i].value);
    }
    printf("\n  }%s", section + 1 < SECTION_COUNT ? "" : "\n}\n");
}

static bool wants_color(const cl_options *options)
{
    const char *none = getenv("NO_COLOR"), *color = options->color;
    if (color && strcmp(color, "auto") != 0)
        return strcmp(color, "always") == 0;
    return ce_terminal_is(STDOUT_FILENO) && !(none && *none);
}

static int report(bool json, bool colored)
{
    for (int section = 0; section < SECTION_COUNT; section++) {
        cl_facts facts = { 0 };
        sections[section].list(&facts);
        if (json)
            print_json(&facts, section);
        else
            print_text(&facts, section, colored);
        cl_facts_free(&facts);
    }
    return 0;
}

/* Runs `cspeed ssh cspeed report`, with the same launch flags. */
static int report_all(const cl_options *options)
{
    char binary[] = "cspeed", verb[] = "report";
    char *words[] = { options->agent_path ? (char *)(uintptr_t)options->agent_path : binary, verb, NULL };
    return cl_command_ssh.run(options, words);
}

typedef struct {
    bool json, all;
} request;

static int run(const cl_options *options, char **at)
{
    static const cs_option table[] = {
        { CL_COMMAND_OPTION(SWITCH, "json", json, NULL) },
        { CL_COMMAND_OPTION(SWITCH, "all_hosts", all, NULL) },
    };
    static const cs_options_form form = { CL_COMMAND_FORM("report", 0, 0, NULL), CS_OPTIONS_TABLE(table) };
    request r = { .json = false };
    int code = cs_options_read(&form, &r, &at);
    if (code)
        return code;
    if (r.all && r.json)
        return cl_codes_fail(CL_CODE_USAGE,
                             "not supported: --json with --all_hosts, because the lines of several hosts do not form "
                             "one JSON object; run `cspeed report --json` on each");
    return r.all ? report_all(options) : report(r.json, wants_color(options));
}

const cl_command cl_command_report = {
    .name = "report",
    .group = "Look",
    .summary = "describe this build, its libraries and this machine",
    .usage = "cspeed [-H HOSTFILE] report [--json] [--all_hosts]",
    .text = "Prints the version and the libraries, the CPU with its sets of instructions and the speed of matrix\n"
            "products, NUMA nodes, GPUs with driver and CUDA module (or the reason why cspeed can use none),\n"
            "network interfaces, memory, /dev/shm, and the limits of this process. --all_hosts prints this for\n"
            "every host of the hostfile, by SSH.\n",
    .example = "cspeed report --json",
    .run = run,
};
