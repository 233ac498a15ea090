/* ring.c - the ring all-reduce on the messages of comm.h, shown step by step, and what it costs.
 *
 *     cspeed --num_gpus 5 --oversubscribe --console first ring    # the steps of a ring of 5 ranks
 *     ring --params 300e6 --bw 1e9                                # the time of an all-reduce of 300e6 fp32 gradients
 *
 * The data is divided into as many chunks as there are ranks. In each step every rank sends one chunk to the next rank.
 * In the first half (scatter-reduce) a rank adds what it receives to its own copy of the chunk, so that at the end each
 * rank has one complete chunk; in the second half (all-gather) the complete chunks replace the other ones. Here a chunk
 * is not a sum of numbers but a text that names the added ranks in the order of addition, such as "3+4+0". */
#include "cspeed/comm.h"
#include "cspeed/options.h"

#include <stdio.h>
#include <string.h>

enum { MAX_RANKS = 16, CHUNK_BYTES = 64, FP32_BYTES = 4 };

typedef char chunks[MAX_RANKS][CHUNK_BYTES];

typedef struct {
    int64_t params;
    double bandwidth;
} settings;

static int modulo(int number, int ranks)
{
    return (number % ranks + ranks) % ranks;
}

/* Returns the number of the chunk that a rank receives in this step of one half. The rank sends the chunk after it. */
static int received(int rank, int step, bool reduces, int ranks)
{
    return modulo(rank - step - reduces, ranks);
}

/* Prints, for each rank, what it has sent and received in this step, and its chunks after the step. */
static void show(cs_comm *comm, chunks mine, int step, bool reduces)
{
    static chunks all[MAX_RANKS];
    int ranks = cs_comm_size(comm);
    cs_comm_gather(comm, all, mine, sizeof(chunks), CS_U8, 0);
    if (cs_comm_rank(comm) != 0)
        return;
    printf("\n%s, step %d of %d\n  rank  sends    receives  chunks\n", reduces ? "scatter-reduce" : "all-gather",
           step + 1, ranks - 1);
    for (int rank = 0; rank < ranks; rank++) {
        int in = received(rank, step, reduces, ranks);
        printf("  %-4d  chunk %-2d chunk %-2d ", rank, modulo(in + 1, ranks), in);
        for (int chunk = 0; chunk < ranks; chunk++)
            printf("  %-*s", chunk + 1 < ranks ? 2 * ranks - 1 : 0, all[rank][chunk]);
        printf("\n");
    }
}

static void run_ring(cs_comm *comm)
{
    int rank = cs_comm_rank(comm), ranks = cs_comm_size(comm), next = modulo(rank + 1, ranks);
    chunks mine = { 0 };
    for (int chunk = 0; chunk < ranks; chunk++)
        snprintf(mine[chunk], CHUNK_BYTES, "%d", rank);
    for (int half = 0; half < 2; half++)
        for (int step = 0; step < ranks - 1; step++) {
            bool reduces = half == 0;
            char arrived[CHUNK_BYTES], *chunk = mine[received(rank, step, reduces, ranks)];
            cs_work *sent = cs_comm_isend(comm, mine[modulo(rank - step - reduces + 1, ranks)], CHUNK_BYTES, next);
            cs_work_wait(cs_comm_ireceive(comm, arrived, CHUNK_BYTES, modulo(rank - 1, ranks)));
            cs_work_wait(sent);
            if (reduces)
                snprintf(chunk, CHUNK_BYTES, "%.40s+%d", arrived, rank);
            else
                memcpy(chunk, arrived, CHUNK_BYTES);
            show(comm, mine, step, reduces);
        }
}

/* Prints how long an all-reduce of fp32 gradients takes over links of this bandwidth in bytes per second. */
static void show_cost(const settings *given)
{
    double bytes = (double)given->params * FP32_BYTES, once = bytes / given->bandwidth;
    printf("all-reduce of %.10g bytes over links of %.10g bytes a second\n\n"
           "  ranks       naive        ring  steps  bytes that a rank sends in the ring\n",
           bytes, given->bandwidth);
    for (int n = 2; n <= 1024; n *= 2)
        printf("  %5d  %8.4g s  %8.4g s  %5d  %.10g\n", n, (n - 1) * once, 2.0 * (n - 1) / n * once, 2 * (n - 1),
               2.0 * (n - 1) / n * bytes);
    printf("  limit    no limit  %8.4g s\n\n"
           "naive: rank 0 receives the gradients of every other rank, one after the other: (N - 1) S / B.\n"
           "ring: 2 (N - 1) steps of S / N bytes on every link at the same time: 2 (N - 1) / N S / B.\n",
           2 * once);
}

int main(int argc, char **argv)
{
    static const cs_option table[] = {
        { CS_OPTION(WHOLE, "params", settings, params, "N", "number of fp32 gradients"), .min = 1, .max = 1e15 },
        { CS_OPTION(NUMBER, "bw", settings, bandwidth, "BYTES_PER_SECOND", "bandwidth of a link"), .min = 1e-9 },
        { .names = "help h", .kind = CS_OPTION_HELP, .text = "these options" },
    };
    static const cs_options_form form = { .usage = "usage: ring [--params N --bw BYTES_PER_SECOND]\n\n",
                                          .what = "flag",
                                          .hint = "see ring --help",
                                          CS_OPTIONS_TABLE(table) };
    settings given = { 0 };
    cs_world world;
    cs_comm *comm;
    (void)argc;
    cs_options_main(&form, &given, argv);
    CS_MUST(cs_world_read(&world));
    if (given.params && given.bandwidth > 0) {
        show_cost(&given);
        return 0;
    }
    if (given.params || given.bandwidth > 0 || world.size < 2 || world.size > MAX_RANKS) {
        fprintf(stderr, "ring: start 2 to %d ranks (cspeed --num_gpus 5 ring), or give both --params and --bw\n",
                MAX_RANKS);
        return CS_OPTIONS_WRONG;
    }
    CS_MUST(cs_comm_open(&comm, &world, &(cs_comm_settings){ .kind = "auto", .nonblocking = true }));
    run_ring(comm);
    cs_comm_close(comm);
    return 0;
}
