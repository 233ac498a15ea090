/* help.c - `cspeed -h`, `cspeed help [COMMAND|flags]` and `cspeed version`. */
#include "codes.h"
#include "command.h"

#include "cspeed/cspeed.h"

#include <stdio.h>
#include <string.h>

static const char head[] =
    "usage: cspeed [LAUNCH FLAGS] PROGRAM [ARGUMENTS]     start PROGRAM on every rank\n"
    "       cspeed [LAUNCH FLAGS] COMMAND [ARGUMENTS]\n"
    "\n"
    "PROGRAM is a path if it has a '/', else one of cspeed's own programs (in libexec/cspeed if cspeed is\n"
    "installed, else beside it); after `run` it may also be one in PATH, which is searched last.\n";

static const char examples[] =
    "\n"
    "one machine     cspeed train --config ds_config.json      a rank each GPU, or NUMA node\n"
    "                cspeed --num_gpus 4 run python3 train.py  any program of PATH\n"
    "many hosts      cspeed --hostfile hosts --include 'w0@w1:0-3' train ...\n"
    "without SSH     cspeed --no_ssh --hostfile hosts train ...   on each host\n"
    "lost nodes      cspeed --hostfile hosts --nnodes 2:4 --max_restarts 3 train ...\n"
    "environment     --env NAME=VALUE, --env_file FILE, .deepspeed_env\n"
    "output          --log_dir DIR, --console all|dedup|first|none|RANKS, --prefix T\n"
    "the end         --grace 30, --timeout 2h, --stall_timeout 10m\n"
    "look first      cspeed [LAUNCH FLAGS] plan PROGRAM\n"
    "\n"
    "cspeed help COMMAND, cspeed COMMAND --help; cspeed help flags lists all launch flags; man cspeed\n";

/* Prints the commands of one group, in the order of the table. */
static void print_group(const char *group)
{
    int column = 0;
    for (const cl_command *const *each = cl_commands; *each; each++) {
        if (strcmp((*each)->group, group) != 0)
            continue;
        if (column == 0)
            column = printf("%-15s", group);
        else if (column + (int)strlen((*each)->name) > 98)
            column = printf("\n%-15s", "") - 1;
        column += printf(" %s", (*each)->name);
    }
    if (column)
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
    fputs(examples, stdout);
    printf("\n");
    for (const cl_command *const *each = cl_commands; *each; each++)
        if (is_first_of_group(each))
            print_group((*each)->group);
}

static void print_flags(void)
{
    printf("Launch flags stand before the command or program; `--` ends them. --foo-bar is --foo_bar, --x=v is\n"
           "--x v; there are no abbreviations. A flag that is absent is looked up as CSPEED_NAME in the environment,\n"
           "and as PET_NAME where torchrun has it.\n\n");
    cs_options_help(cl_flags, cl_flags_count);
}

/* Topics that people search for and that are not commands. */
static const char oom[] =
    "Out of memory, on a host: the kernel ends a process with SIGKILL when the memory of the host, or of the cgroup "
    "that\n"
    "a container or a scheduler has put the job in, is used up. The rank ends with exit code 137 (128 + SIGKILL) and\n"
    "writes nothing. cspeed reads the cgroup's oom_kill counter before and after; where it has grown, the last words "
    "of\n"
    "the job say so, and result.json has \"oom\": true. Where the counter cannot be read, `dmesg` on that host may "
    "tell.\n"
    "On a GPU: the rank's own error says \"out of memory\".\n"
    "\n"
    "What each rank will need:  cspeed plan train --config ds_config.json, before anything is started\n"
    "What helps:                fewer ranks a host (--num_gpus), a smaller train_micro_batch_size_per_gpu with more\n"
    "                           gradient_accumulation_steps, recomputation (activation_checkpointing), a higher\n"
    "                           zero_optimization.stage, bf16\n"
    "Limits of this machine:    cspeed report\n";

static int help(const cl_options *options, char **arguments)
{
    (void)options;
    if (!arguments[0]) {
        print_screen();
        return 0;
    }
    if (strcmp(arguments[0], "flags") == 0) {
        print_flags();
        return 0;
    }
    if (strcmp(arguments[0], "oom") == 0) {
        fputs(oom, stdout);
        return 0;
    }
    const char *names[128];
    int count = 0;
    for (const cl_command *const *each = cl_commands; *each && count < 127; each++) {
        names[count++] = (*each)->name;
        if (strcmp((*each)->name, arguments[0]) == 0) {
            return cl_command_help(*each);
        }
    }
    names[count] = NULL;
    const char *nearest = cs_nearest(arguments[0], names);
    return cl_codes_fail(CL_CODE_USAGE, "there is no command %s%s%s", arguments[0], nearest ? "; the nearest is " : "",
                         nearest ? nearest : "; `cspeed help` lists them");
}

static int version(const cl_options *options, char **arguments)
{
    (void)options;
    (void)arguments;
    printf("cspeed %s\n", CS_VERSION);
    return 0;
}

const cl_command cl_command_manual = {
    .name = "help",
    .group = "Look",
    .summary = "this text, that of a command, all launch flags, or what to do when memory runs out",
    .usage = "cspeed help [COMMAND|flags|oom]",
    .text = "Without an argument, one screen; with a command's name, what it does and an example; oom: how a rank\n"
            "ends when memory runs out, and what helps.\n",
    .example = "cspeed help plan",
    .run = help,
};

const cl_command cl_command_version = {
    .name = "version",
    .group = "Look",
    .summary = "the version",
    .usage = "cspeed version",
    .text = "Prints the version, which must be the same on every node.\n",
    .example = "cspeed version",
    .run = version,
};
