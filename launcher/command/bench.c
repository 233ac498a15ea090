/* bench.c - `cspeed bench`: measures this machine. */
#include "codes.h"
#include "command.h"
#include "command/bench_modes.h"

#include <string.h>

static int run(const cl_options *options, char **arguments)
{
    (void)options;
    if (!arguments[0] || strcmp(arguments[0], "modes") != 0)
        return cl_codes_fail(CL_CODE_USAGE, "bench: say what to measure: modes");
    return cl_bench_modes(arguments + 1);
}

const cl_command cl_command_bench = {
    .name = "bench",
    .group = "Look",
    .summary = "which mode of training pays on this machine",
    .usage = "cspeed bench modes [--workers N] [--steps N] [--plot FILE.svg]",
    .text =
        "Trains two small models with each mode (dp, ddp, ZeRO 1 to 3, parameter servers) on this machine, with N\n"
        "replicas and one core for each (--workers; 2 otherwise), for N steps (--steps; 30 otherwise). Prints how\n"
        "long a training takes to start and how many samples it reads in a second, and from which number of samples\n"
        "on one pass is faster with ddp than with dp. --plot draws the seconds of one pass.\n",
    .example = "cspeed bench modes --workers 4 --plot modes.svg",
    .run = run,
};
