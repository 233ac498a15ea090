/* bench.c - `cspeed bench`: measures this machine. */
#include "ground/codes.h"
#include "ground/command.h"
#include "command/run.h"

#include <string.h>

static int run(const cl_options *options, char **arguments)
{
    const char *what = arguments[0] ? arguments[0] : "";
    if (strcmp(what, "comm") == 0)
        return cl_run(options);
    return cl_codes_fail(CL_CODE_USAGE, "bench: name what to measure: comm%s%s", *what ? ", not " : "", what);
}

const cl_command cl_command_bench = {
    .name = "bench",
    .group = "Look",
    .summary = "measure the speed of collectives between ranks",
    .usage = "cspeed [LAUNCH FLAGS] bench comm [OPTIONS]",
    .text = "Measures collectives on vectors of fp32 numbers between the ranks, as nccl-tests does. The first\n"
            "vector has --min_bytes bytes, and each further one has twice the size of the one before, up to\n"
            "--max_bytes. Columns of the table:\n"
            "\n"
            "  size     bytes of the longest buffer of a call\n"
            "  algbw    size divided by the time of the slowest rank\n"
            "  busbw    algbw multiplied by the share of the vector that each rank must at\n"
            "           least send or receive; comparable with the bandwidth of a link\n"
            "  of copy  time in which each rank copies a buffer of this size, divided by the\n"
            "           time of the collective\n"
            "\n"
            "At least two ranks are needed: give --num_gpus N before bench.\n",
    .example = "cspeed --num_gpus 2 bench comm --max_bytes 1e6",
    .run = run,
    .is_program = true,
};
