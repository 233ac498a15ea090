/* bench.c - `cspeed bench`: measures this machine. */
#include "codes.h"
#include "command.h"
#include "run.h"

#include <string.h>

static int run(const cl_options *options, char **arguments)
{
    const char *what = arguments[0] ? arguments[0] : "";
    if (strcmp(what, "comm") == 0)
        return cl_run(options);
    return cl_codes_fail(CL_CODE_USAGE, "bench: say what to measure: comm%s%s", *what ? ", not " : "", what);
}

const cl_command cl_command_bench = {
    .name = "bench",
    .group = "Look",
    .summary = "measures the collectives between ranks",
    .usage = "cspeed [LAUNCH FLAGS] bench comm [--collectives NAME,...] [--min_bytes N]\n"
             "       [--max_bytes N] [--comm KIND] [--algorithms LIST] [--ordinary]\n"
             "       [--plot FILE] [--tune]",
    .text = "comm measures collectives of fp32 between the ranks, as nccl-tests does, from\n"
            "--min_bytes (1024) to --max_bytes (64 MB), each length twice the one before:\n"
            "the time of the slowest rank, size divided by time (algbw), that multiplied by\n"
            "the share of the vector that every rank must move (busbw), and the time of a\n"
            "copy in memory as a share of it. It needs two ranks or more: --num_gpus N.\n"
            "--collectives chooses among all_reduce, reduce_scatter, all_gather (these three\n"
            "otherwise), broadcast, reduce, scatter, gather and all_to_all; --comm the\n"
            "transport: auto, shm, tcp or mpi (auto otherwise); --algorithms how they are\n"
            "made, as cspeed.comm_algorithms of a configuration; --ordinary memory that the\n"
            "ranks do not share. --plot draws the bus bandwidths into FILE.svg or FILE.html.\n"
            "--tune measures at which sizes the algorithms of the transport should change,\n"
            "and prints the key for it.\n",
    .example = "cspeed --num_gpus 2 bench comm --max_bytes 1e6 --plot comm.svg",
    .run = run,
    .hands_on = true,
};
