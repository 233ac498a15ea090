/* bench_launch.c - the time from the command line until all ranks run: on this machine; on 8 simulated hosts over SSH
 * (loopback addresses, a private sshd); on 64 nodes that join by themselves (--no_ssh); and with `torchrun
 * --nproc-per-node 2` in the same run.
 *
 *     CSPEED_PEER_PYTHON=/path/to/python bench_launch [ROUNDS]
 *
 * Each rank writes a byte to a file; a round ends when all ranks have written. The rounds of the different launches
 * alternate. Prints the median and the spread in milliseconds, and the goals. */
#include "suite.h"
#include "bench.h"
#include "base/clock.h"
#include "cluster.h"
#include "shell.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_ROUNDS = 50, WAYS = 4, HOSTS = 8, NODES = 64, PATIENCE = 120 };

typedef struct {
    const char *name, *goal;
    int ranks;
    char command[4096]; /* a command for sh; "": it cannot run on this machine */
    double seconds[MAX_ROUNDS];
    int count;
} way;

/* Returns the seconds until every rank has written its byte; below 0 if some rank has not. */
static double measure(const way *w)
{
    struct stat file = { 0 };
    double began, seconds = -1;
    unlink("here");
    began = ce_clock_seconds();
    pid_t child = shell_start("sh -c '%s'", w->command);
    while (seconds < 0 && ce_clock_seconds() < began + PATIENCE) {
        if (stat("here", &file) == 0 && file.st_size >= w->ranks)
            seconds = ce_clock_seconds() - began;
        nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL);
    }
    if (seconds < 0)
        kill(-child, SIGTERM);
    return shell_wait(child) == 0 ? seconds : -1;
}

static void write_ways(way *ways, bool hosts)
{
    const char *python = getenv("CSPEED_PEER_PYTHON");
    int used;
    ways[0] = (way){ .name = "1 node x 2 ranks", .goal = "under 50", .ranks = 2 };
    snprintf(ways[0].command, sizeof ways[0].command, "%s/cspeed -q --num_gpus 2 --oversubscribe ./rank", CS_BIN);
    ways[1] = (way){ .name = "8 hosts by SSH", .goal = "under 500", .ranks = HOSTS };
    if (hosts)
        snprintf(ways[1].command, sizeof ways[1].command, "%s/cspeed -q --hostfile hosts ./rank", CS_BIN);
    ways[2] = (way){ .name = "64 nodes by --no_ssh", .goal = "-", .ranks = NODES };
    used = snprintf(ways[2].command, sizeof ways[2].command,
                    "for n in $(seq %d -1 0); do %s/cspeed -q --hostfile nodes --no_ssh --master_addr 127.0.0.1 "
                    "--master_port 29613 --node_rank $n --log_dir logs/$n ./rank & done; wait",
                    NODES - 1, CS_BIN);
    ways[3] = (way){ .name = "torchrun, 2 ranks", .goal = "-", .ranks = 2 };
    if (python && used > 0)
        snprintf(ways[3].command, sizeof ways[3].command,
                 "%s -m torch.distributed.run --standalone --no-python --nproc-per-node 2 ./rank", python);
}

static void write_files(void)
{
    FILE *nodes = fopen("nodes", "w");
    for (int i = 0; nodes && i < NODES; i++)
        fprintf(nodes, "node-%d slots=1\n", i);
    if (nodes)
        fclose(nodes);
    shell_write("rank", "#!/bin/sh\nprintf x >> here\n");
    chmod("rank", 0755);
    setenv("CSPEED_SECRET", "a secret for a benchmark", 1);
}

static void print(way *w)
{
    bench_sort(w->seconds, w->count);
    if (w->count)
        printf("%-22s %10.1f %8.1f - %7.1f   %s\n", w->name, 1e3 * w->seconds[w->count / 2], 1e3 * w->seconds[0],
               1e3 * w->seconds[w->count - 1], w->goal);
    else
        printf("%-22s %10s\n", w->name, *w->command ? "failed" : "not here");
}

static int rounds = 10;

/* The benchmark is a test of Check, because the functions that start the hosts (cluster.h) use Check's assertions. */
START_TEST(bench)
{
    static way ways[WAYS];
    shell_enter();
    bool hosts = cluster_start(HOSTS, NULL);
    if (hosts)
        cluster_write_hostfile("hosts", 1);
    write_files();
    write_ways(ways, hosts);
    for (int round = 0; round <= rounds; round++)
        for (int i = 0; i < WAYS; i++) {
            double seconds = *ways[i].command ? measure(&ways[i]) : -1;
            if (round > 0 && seconds >= 0) /* the first run fills the file cache and adds the host keys */
                ways[i].seconds[ways[i].count++] = seconds;
        }
    printf("%-22s %10s %18s   %s\n", "until all ranks run", "median ms", "spread", "goal ms");
    for (int i = 0; i < WAYS; i++)
        print(&ways[i]);
    if (hosts)
        cluster_stop();
    shell_leave();
    for (int i = 0; i < WAYS; i++)
        ck_assert_msg(!*ways[i].command || ways[i].count == rounds, "%s failed", ways[i].name);
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = { bench };
    bench_arguments(argc, argv,
                    (const bench_option[]){ { "ROUNDS", .number = &rounds, .min = 1, .max = MAX_ROUNDS },
                                            { .name = NULL } });
    return suite_run("bench_launch", tests, 1);
}
