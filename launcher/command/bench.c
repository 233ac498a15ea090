/* bench.c - `cspeed bench`: measures this machine. */
#include "codes.h"
#include "command.h"
#include "run.h"

#include <string.h>

static int run(const cl_options *options, char **arguments)
{
    if (!arguments[0] || strcmp(arguments[0], "comm") != 0)
        return cl_codes_fail(CL_CODE_USAGE, "bench: say what to measure: comm%s%s", arguments[0] ? ", not " : "",
                             arguments[0] ? arguments[0] : "");
    return cl_run(options);
}

const cl_command cl_command_bench = {
    .name = "bench",
    .group = "Look",
    .summary = "times and bandwidths of the collectives on this machine",
    .usage = "cspeed [LAUNCH FLAGS] bench comm [--collectives NAME,...] [--min_bytes N] [--max_bytes N] [--comm KIND]\n"
             "       [--algorithms LIST] [--ordinary] [--plot FILE] [--tune]",
    .text =
        "comm measures collectives of fp32 between the ranks, as nccl-tests does, from --min_bytes (1024) to --max_bytes\n"
        "(64 MB), each length twice the one before: the time of the slowest rank, size divided by time (algbw), that\n"
        "multiplied by the share of the vector that every rank must move (busbw), and the time of a copy in memory as a\n"
        "share of it. --collectives chooses among all_reduce, reduce_scatter, all_gather (these three otherwise),\n"
        "broadcast, reduce, scatter, gather and all_to_all; --comm the transport, --algorithms how they are made, as\n"
        "cspeed.comm_algorithms of a configuration; --ordinary memory that the ranks do not share. --plot draws the bus\n"
        "bandwidths into FILE.svg or FILE.html. --tune measures at which sizes the algorithms of the transport should\n"
        "change, and prints the key for it.\n",
    .example = "cspeed --num_gpus 2 bench comm --max_bytes 1e6 --plot comm.svg",
    .run = run,
};
