/* launch.c - `cspeed run` and `cspeed launch`: run a program under the launcher. Launch flags may also follow the words
 * "run" and "launch". */
#include "command/launch.h"

#include "ground/command.h"

#include "ground/codes.h"
#include "command/run.h"

#include <stdlib.h>
#include <string.h>

static int count_of(char **list)
{
    int count = 0;
    while (list[count])
        count++;
    return count;
}

/* torch.distributed.launch appends --local-rank=N to the script's arguments (torch 1 wrote --local_rank). It appends
 * nothing if --use_env says that the script reads the environment instead. */
int cl_launch_read(cl_options *both, const cl_options *options, char **words)
{
    int before = (int)(options->program - options->argv) - 1, behind = count_of(words + 1);
    char **line = calloc((size_t)(1 + before + behind) + 1, sizeof *line);
    *both = (cl_options){ .argv = NULL };
    if (!line)
        return cl_codes_fail(CL_CODE_SYSTEM, "no memory for %d arguments", behind);
    memcpy(line, options->argv, (size_t)(1 + before) * sizeof *line);
    while (before > 0 && strcmp(line[before], "--") == 0)
        before--;
    memcpy(line + 1 + before, words + 1, (size_t)behind * sizeof *line);
    int code = cl_options_read(both, line);
    if (code == 0 && !both->program[0])
        code = cl_codes_fail(CL_CODE_USAGE, "no PROGRAM is given after `%s`", words[0]);
    if (strcmp(words[0], "launch") == 0 && !both->local_rank_flag &&
        strcmp(cl_options_origin("use_env"), "default") == 0)
        both->local_rank_flag = "--local-rank";
    return code;
}

static int run(const cl_options *options, char **arguments)
{
    (void)arguments;
    cl_options both;
    int code = cl_launch_read(&both, options, options->program);
    if (code == 0)
        code = cl_run(&both);
    free(both.argv);
    return code;
}

const cl_command cl_command_run = {
    .name = "run",
    .group = "Start",
    .summary = "start any program on the ranks, as torchrun does",
    .usage = "cspeed run [LAUNCH FLAGS] [--] PROGRAM [ARGUMENTS]",
    .text = "Starts PROGRAM once for each rank, as `cspeed [LAUNCH FLAGS] PROGRAM` does. Use run if PROGRAM is\n"
            "found in PATH or has the same name as a command of cspeed. Each rank gets environment variables such\n"
            "as RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; the file ds_env.example lists all of\n"
            "them.\n",
    .example = "cspeed run --nproc_per_node 4 -- python3 train.py --lr 0.1",
    .run = run,
    .hands_on = true,
};

const cl_command cl_command_launch = {
    .name = "launch",
    .group = "Start",
    .summary = "start any program on the ranks, as torch.distributed.launch does",
    .usage = "cspeed launch [--use_env] [LAUNCH FLAGS] PROGRAM [ARGUMENTS]",
    .text = "Does the same as `cspeed run`, and adds --local-rank=N to the arguments of PROGRAM, as\n"
            "torch.distributed.launch of PyTorch 2 does. --use_env adds no argument. --local_rank_arg adds\n"
            "--local_rank=N, with an underscore.\n",
    .example = "cspeed launch --nproc_per_node=4 --use_env ./my_program",
    .run = run,
    .hands_on = true,
};
