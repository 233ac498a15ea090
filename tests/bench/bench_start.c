/* bench_start.c - the time from the command line to the first finished step, of `cspeed --num_gpus 2 train` with
 * configs/tiny_cpu.json.
 *
 *     bench_start [RUNS]
 *
 * Prints the median wall time of RUNS runs (10 by default) until the line of step 1 appears, and the goal. */
#include "bench.h"
#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_COUNT = 100 };

static int shell(const char *folder, const char *command)
{
    char line[4096];
    snprintf(line, sizeof line, "cd '%s' && %s", folder, command);
    int status = system(line);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* Returns the seconds until the line of the first step appears; below 0 if it does not appear. */
static double start(const char *folder)
{
    char command[4096], line[1024];
    double began = ce_clock_seconds(), seconds = -1;
    snprintf(command, sizeof command,
             "cd '%s' && rm -rf out && exec %s/cspeed -q --num_gpus 2 --oversubscribe train --config "
             "%s/configs/tiny_cpu.json "
             "--data data --output out --steps 1 --eval_interval 0 2>&1",
             folder, CS_BIN, CS_SOURCE);
    FILE *pipe = popen(command, "r");
    while (pipe && fgets(line, sizeof line, pipe))
        if (seconds < 0 && strncmp(line, "step 1/", 7) == 0)
            seconds = ce_clock_seconds() - began;
    if (pipe)
        pclose(pipe);
    return seconds;
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/cspeed-start-XXXXXX";
    double seconds[MAX_COUNT];
    int runs = 10;
    bench_arguments(argc, argv,
                    (const bench_option[]){ { "RUNS", .number = &runs, .min = 1, .max = MAX_COUNT },
                                            { .name = NULL } });
    if (!mkdtemp(folder))
        return 1;
    int failed = shell(folder, "for i in $(seq 400); do echo line $i of a small text; done > text.txt") ||
                 shell(folder, CS_BIN "/pack --output data text.txt >pack.txt");
    for (int i = 0; i < runs && !failed; i++)
        failed = (seconds[i] = start(folder)) < 0;
    char remove[64];
    snprintf(remove, sizeof remove, "rm -rf %s", folder);
    failed |= shell("/", remove);
    if (failed) {
        fprintf(stderr, "bench_start: a run did not reach its first step\n");
        return 1;
    }
    bench_sort(seconds, runs);
    printf("start-up, 2 ranks, to the first finished step: median %.3f s of %d runs (%.3f - %.3f); the goal is 0.3 s\n",
           seconds[runs / 2], runs, seconds[0], seconds[runs - 1]);
    return 0;
}
