/* programs.c - `cspeed train`, `generate`, `eval`, `pack` and `bench`: cspeed's own programs as commands. */
#include "command/programs.h"

#include "ground/codes.h"
#include "ground/command.h"
#include "ground/descriptors.h"
#include "node/program.h"
#include "command/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int cl_programs_become(const char *name, char **arguments)
{
    char path[PATH_MAX];
    int count = 0, code = cl_program_find(name, path);
    if (code)
        return code;
    while (arguments[count])
        count++;
    char **list = calloc((size_t)count + 2, sizeof *list);
    if (!list || !(list[0] = strdup(name)))
        return cl_codes_fail(CL_CODE_SYSTEM, "no memory for %d arguments", count);
    memcpy(list + 1, arguments, (size_t)count * sizeof *list);
    fflush(stdout);
    cl_descriptors_restore();
    execv(path, list);
    return cl_codes_fail(CL_CODE_NOT_EXECUTABLE, "%s: cannot be executed: %s", path, strerror(errno));
}

/* Returns true if launch flags stand between `cspeed` and the name of the command. */
static bool has_launch_flags(const cl_options *options)
{
    return options->program - options->argv > 1;
}

/* Returns true if mpirun or srun has started this process as one of several. Such a process is a rank. In a batch script
 * of Slurm SLURM_NTASKS is set too, but not the variable of a step. */
static bool is_rank(void)
{
    static const char *const sizes[] = { "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE",
                                         "SLURM_STEP_NUM_TASKS" };
    bool found = false;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        found |= getenv(sizes[i]) && atoi(getenv(sizes[i])) > 1;
    return found && !getenv("CSPEED_ATTEMPT"); /* an agent that mpirun or srun started passes their variables on */
}

static int train(const cl_options *options, char **arguments)
{
    if (!has_launch_flags(options) && is_rank())
        return cl_programs_become("train", arguments);
    return cl_run(options);
}

/* Starts the program on ranks if there are launch flags; otherwise runs the program as one process, which reads from
 * the terminal. */
static int use(const cl_options *options, char **arguments)
{
    return has_launch_flags(options) ? cl_run(options) : cl_programs_become(options->program[0], arguments);
}

static int pack(const cl_options *options, char **arguments)
{
    if (has_launch_flags(options))
        return cl_codes_fail(CL_CODE_USAGE, "pack runs as one process, so no launch flags stand before it");
    return cl_programs_become("pack", arguments);
}

const cl_command cl_command_train = {
    .name = "train",
    .group = "Start",
    .summary = "train a language model",
    .usage = "cspeed [LAUNCH FLAGS] train --config FILE [OPTIONS]",
    .text = "Trains a language model as a DeepSpeed configuration describes it. Without launch flags, one rank\n"
            "(process) is started for each GPU of this machine, or for each NUMA node if it has no GPU. If mpirun\n"
            "or srun has started several processes with this command line, and there are no launch flags, each of\n"
            "these processes is one rank.\n",
    .example = "cspeed --num_gpus 2 train --config ds_config.json --data my.txt --steps 1000",
    .run = train,
    .is_program = true,
};

const cl_command cl_command_pack = {
    .name = "pack",
    .group = "Files",
    .summary = "convert texts or conversations to token shards",
    .usage = "cspeed pack [OPTIONS] TEXT...",
    .text = "Converts texts or conversations to tokens, and writes them to files (token shards) for training and\n"
            "validation. The data of a training can be such a folder of token shards. The command runs as one\n"
            "process, so launch flags are refused.\n",
    .example = "cspeed pack --output data/mine my.txt",
    .run = pack,
    .is_program = true,
};

const cl_command cl_command_generate = {
    .name = "generate",
    .group = "Files",
    .summary = "generate text with a trained model",
    .usage = "cspeed [LAUNCH FLAGS] generate SOURCE [OPTIONS]",
    .text = "Continues a prompt, answers a message of a conversation, or answers every prompt of a file. Without\n"
            "launch flags, the command runs as one process and can read prompts from the terminal. With launch\n"
            "flags, the prompts of the file are divided among the ranks.\n",
    .example = "cspeed generate runs/mine --prompt 'Once upon a time'",
    .run = use,
    .is_program = true,
};

const cl_command cl_command_eval = {
    .name = "eval",
    .group = "Files",
    .summary = "compute loss, perplexity and accuracy of a trained model",
    .usage = "cspeed [LAUNCH FLAGS] eval SOURCE [OPTIONS]",
    .text = "Evaluates a model on a data set. Without launch flags, the command runs as one process. With launch\n"
            "flags, the data are divided among the ranks; the results are bitwise equal for any number of ranks.\n",
    .example = "cspeed eval runs/mine --data data/mine --json",
    .run = use,
    .is_program = true,
};
