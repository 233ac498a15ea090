/* plan.c - `cspeed plan`: prints what a command would do, without doing it. */
#include "command/plan.h"

#include "base/input.h"
#include "ground/codes.h"
#include "command/launch.h"
#include "cspeed/options.h"
#include "ground/descriptors.h"
#include "node/program.h"
#include "plan/hostplan.h"
#include "plan/world_sizes.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the memory plan, which the program prints ---- */

/* Returns true if the program is `train` and its arguments name a configuration. Only `train` can print a memory plan.
 */
static bool has_memory_plan(char **program)
{
    const char *slash = *program ? strrchr(*program, '/') : NULL;
    if (!*program || strcmp(slash ? slash + 1 : *program, "train") != 0)
        return false;
    return cl_world_sizes_config(program + 1) != NULL;
}

/* Replaces this process, which is a child of cspeed, by the program. The arguments are those of the program, then
 * `flag`, then the world size and the local size of the plan. */
_Noreturn static void exec_program(const char *path, char **program, char *flag, const cl_plan *plan)
{
    int count = 0;
    char size[32], local[32];
    while (program[count])
        count++;
    char **arguments = calloc((size_t)count + 4, sizeof *arguments);
    if (!arguments)
        _exit(CL_CODE_SYSTEM);
    memcpy(arguments, program, (size_t)count * sizeof *arguments);
    snprintf(size, sizeof size, "--world_size=%d", plan->rank_count);
    snprintf(local, sizeof local, "--local_size=%d", plan->nodes[0].host->slot_count);
    setenv(CL_HOST_RANKS, cl_hostplan_host_ranks(plan), 1);
    arguments[count] = flag;
    arguments[count + 1] = size;
    arguments[count + 2] = local;
    cl_descriptors_restore();
    execv(path, arguments);
    _exit(CL_CODE_NOT_EXECUTABLE);
}

/* Reads until the other end of the pipe is closed, and closes this end. Returns the malloc'ed text without its last
 * newline. */
static char *read_all(int descriptor)
{
    size_t size = 0;
    FILE *pipe = fdopen(descriptor, "r");
    char *text = pipe ? ce_input_all(pipe, SIZE_MAX / 2, &size) : NULL;
    if (pipe)
        fclose(pipe);
    if (text && size > 0 && text[size - 1] == '\n')
        text[size - 1] = '\0';
    return text;
}

/* Runs the program as one process on this machine, without other ranks, and returns its exit code. If `json` is not
 * NULL, *json receives the malloc'ed output; otherwise the output goes to stdout, in the form of the program's own
 * --plan=FORM if it is given. */
static int ask_memory(char **json, char **program, const cl_plan *plan)
{
    const char *form = json ? "json" : cs_options_last("plan", program + 1);
    char path[PATH_MAX], text[64];
    snprintf(text, sizeof text, "--plan%s%s", form && *form ? "=" : "", form ? form : "");
    int code = cl_program_find(*program, path), ends[2] = { -1, -1 }, status;
    if (code)
        return code;
    fflush(stdout);
    pid_t child = json && pipe2(ends, O_CLOEXEC) != 0 ? -1 : fork();
    if (child == 0) {
        if (json && dup2(ends[1], STDOUT_FILENO) < 0)
            _exit(CL_CODE_SYSTEM);
        exec_program(path, program, text, plan);
    }
    if (json) {
        close(ends[1]);
        *json = read_all(ends[0]);
    }
    if (child < 0)
        return cl_codes_fail(CL_CODE_SYSTEM, "cannot start %s", path);
    if (waitpid(child, &status, 0) != child)
        return cl_codes_fail(CL_CODE_SYSTEM, "%s was lost", path);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Refuses --world_size and --local_size, because here the number of ranks follows from the hosts of the plan. */
static int refuse_sizes(char **program)
{
    static const char *const flags[] = { "world_size", "local_size" };
    for (int i = 0; has_memory_plan(program) && i < 2; i++)
        if (cs_options_last(flags[i], program + 1))
            return cl_codes_fail(
                CL_CODE_USAGE,
                "plan: --%s is an option of `train --plan`, which prints the memory alone; `cspeed --num_gpus N "
                "plan` or --hosts sets the number of ranks",
                flags[i]);
    return 0;
}

/* ---- the command ---- */

static int show_json(const cl_plan *plan, char **program)
{
    char *memory = NULL;
    int code = has_memory_plan(program) ? ask_memory(&memory, program, plan) : 0;
    if (code == 0)
        cl_plan_print_json(plan, memory);
    free(memory);
    return code;
}

static int show_text(const cl_plan *plan, char **program)
{
    cl_plan_print(plan);
    if (!has_memory_plan(program))
        return 0;
    putchar('\n');
    return ask_memory(NULL, program, plan);
}

int cl_plan_show(const cl_options *options, char **program, bool json)
{
    cl_options copy = *options;
    cl_plan plan;
    copy.program = program;
    int code = refuse_sizes(program);
    if (code == 0)
        code = cl_hostplan_make(&plan, &copy);
    if (code)
        return code;
    code = json ? show_json(&plan, program) : show_text(&plan, program);
    cl_hostplan_free(&plan);
    return code;
}

static int plan(const cl_options *options, char **arguments)
{
    static const cs_option table[] = { { .names = "json", .kind = CS_OPTION_SWITCH } };
    static const cs_options_form form = {
        .name = "plan",
        .what = "flag",
        .hint = "it knows --json alone, and launch flags stand before plan",
        CS_OPTIONS_TABLE(table),
        .stops = true,
    };
    bool json = false;
    int code = cs_options_read(&form, &json, &arguments);
    if (code)
        return code;
    bool behind = *arguments && (strcmp(*arguments, "run") == 0 || strcmp(*arguments, "launch") == 0);
    if (behind) {
        cl_options both;
        code = cl_launch_read(&both, options, arguments);
        if (code == 0)
            code = cl_plan_show(&both, both.program, json);
        free(both.argv);
        return code;
    }
    code = *arguments ? cl_program_may_be(*arguments) : 0;
    return code ? code : cl_plan_show(options, arguments, json);
}

const cl_command cl_command_plan = {
    .name = "plan",
    .group = "Prepare",
    .summary = "show the hosts, ranks, environment and command of a job without starting it",
    .usage = "cspeed [LAUNCH FLAGS] plan [--json]\n"
             "                     [[run [LAUNCH FLAGS]] PROGRAM [ARGUMENTS]]",
    .text = "Prints what `cspeed [LAUNCH FLAGS] PROGRAM` would do: the hosts, slots and ranks, the address at\n"
            "which the ranks connect, the environment variables and the origin of each value, the cores to which\n"
            "the ranks of this machine are bound (each other node determines its own), and the command. No host\n"
            "is contacted, and values of secrets are not printed. For `train`, whose configuration must be on\n"
            "this machine, it also prints the memory of each rank, divided into parameters, gradients, optimizer\n"
            "state and so on, as `cspeed train --plan` does. --json prints one JSON object. The launch flag\n"
            "--dry_run does the same as plan.\n",
    .example = "cspeed --hosts a:8,b:8 plan --json train --config ds_config.json",
    .run = plan,
    .hands_on = true,
};
