/* bench.c - measures this machine: `bench comm` prints times and bandwidths of collectives, as nccl-tests does.
 *
 * The columns of the table:
 * - size: the number of bytes of the longest buffer of a call.
 * - algbw: the size divided by the time of the collective.
 * - busbw: algbw multiplied by the share of the vector that every rank must at least send or receive. It can be
 *   compared with the bandwidth of memory or of a link, for any number of ranks.
 * - of copy: the time in which every rank copies a buffer of this size, divided by the time of the collective. */
#include "cspeed/comm.h"
#include "cspeed/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SHORTEST = 1024, MIN_REPETITIONS = 5, MAX_REPETITIONS = 200, WARM_UP = 2 };

enum {
    ALL_REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    BROADCAST,
    REDUCE,
    SCATTER,
    GATHER,
    ALL_TO_ALL,
    COLLECTIVES,
    COPY = COLLECTIVES /* a copy inside each rank's own memory, on all ranks at the same time */
};

static const char *const names[] = { "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
                                     "scatter",    "gather",         "all_to_all", "copy" };

/* The ranks that are measured, and two buffers of options.max_bytes bytes. */
typedef struct {
    cs_world world;
    cs_comm *comm;
    char *a, *b;
    bool ordinary; /* true: the buffers are from malloc; false: they are from cs_comm_alloc */
} bench;

typedef struct {
    const char *comm, *collectives;
    int64_t min_bytes, max_bytes;
    bool ordinary;
} options;

static const cs_option table[] = {
    { CS_OPTION(TEXT, "collectives", options, collectives, "NAME,...",
                "the collectives to measure: all_reduce, reduce_scatter, all_gather, broadcast, reduce, scatter, "
                "gather, all_to_all. Default: the first three") },
    { CS_OPTION(WHOLE, "min_bytes b", options, min_bytes, "N", "size of the first vector in bytes. Default: 1024"),
      .min = 256, .max = 1e12 },
    { CS_OPTION(WHOLE, "max_bytes e", options, max_bytes, "N",
                "upper limit of the size in bytes; each vector has twice the size of the one before. Default: "
                "67108864"),
      .min = 256, .max = 1e12 },
    { CS_OPTION(TEXT, "comm", options, comm, "auto|shm|tcp|mpi",
                "the transport, as the key cspeed.comm of a configuration. Default: auto") },
    { CS_OPTION(SWITCH, "ordinary", options, ordinary, NULL,
                "take the buffers from ordinary memory of each rank, not from memory that the ranks share") },
    { .names = "help h", .kind = CS_OPTION_HELP, .text = "print this text" },
};

static const char usage[] = "usage: cspeed [LAUNCH FLAGS] bench comm [OPTIONS]\n\n";

static void fail(int rank, int code)
{
    if (rank <= 0)
        fprintf(stderr, "bench: %s\n", cs_error());
    exit(code);
}

static void refuse(const char *what, const char *value)
{
    if (cs_launched_rank() <= 0)
        fprintf(stderr, "bench: %s \"%s\"; --help lists the possible ones\n", what, value);
    exit(CS_OPTIONS_WRONG);
}

/* ---- one measurement ---- */

/* Opens the communicator and allocates the buffers. */
static cs_status open_ranks(bench *ranks, const options *given)
{
    size_t capacity = (size_t)given->max_bytes;
    *ranks = (bench){ .ordinary = given->ordinary };
    cs_status status = cs_world_read(&ranks->world);
    if (status == CS_OK)
        status = cs_comm_open(&ranks->comm, &ranks->world, &(cs_comm_settings){ .kind = given->comm });
    if (status != CS_OK)
        return status;
    ranks->a = given->ordinary ? malloc(capacity) : cs_comm_alloc(ranks->comm, capacity);
    ranks->b = given->ordinary ? malloc(capacity) : cs_comm_alloc(ranks->comm, capacity);
    if (!ranks->a || !ranks->b)
        return CS_NO_MEMORY;
    memset(ranks->a, 0, capacity);
    memset(ranks->b, 0, capacity);
    return CS_OK;
}

static void close_ranks(bench *ranks)
{
    if (ranks->ordinary) {
        free(ranks->a);
        free(ranks->b);
    }
    cs_comm_close(ranks->comm);
}

static void call(const bench *r, int collective, size_t bytes)
{
    int64_t count = (int64_t)(bytes / sizeof(float)), part = count / cs_comm_size(r->comm);
    switch (collective) {
    case ALL_REDUCE:
        cs_comm_all_reduce(r->comm, r->a, count, CS_F32, CS_SUM);
        break;
    case REDUCE_SCATTER:
        cs_comm_reduce_scatter(r->comm, r->b, r->a, part, CS_F32, CS_SUM);
        break;
    case ALL_GATHER:
        cs_comm_all_gather(r->comm, r->b, r->a, part, CS_F32);
        break;
    case BROADCAST:
        cs_comm_broadcast(r->comm, r->a, count, CS_F32, 0);
        break;
    case REDUCE:
        cs_comm_reduce(r->comm, r->a, count, CS_F32, CS_SUM, 0);
        break;
    case SCATTER:
        cs_comm_scatter(r->comm, r->b, r->a, part, CS_F32, 0);
        break;
    case GATHER:
        cs_comm_gather(r->comm, r->b, r->a, part, CS_F32, 0);
        break;
    case ALL_TO_ALL:
        cs_comm_all_to_all(r->comm, r->b, r->a, part, CS_F32);
        break;
    default:
        memcpy(r->b, r->a, bytes);
    }
}

static int64_t nanoseconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* Measures a collective on `bytes` bytes of fp32, where `bytes` is the size of the longest buffer of the call. The time
 * of a repetition is the time of the slowest rank. Returns, on all ranks, the median time of the repetitions in
 * seconds, and in *algorithm the name of the collective's algorithm. */
static double measure(const bench *ranks, int collective, size_t bytes, const char **algorithm)
{
    int64_t times[MAX_REPETITIONS];
    size_t wanted = ((size_t)64 << 20) / (bytes + 1);
    int count = wanted < MIN_REPETITIONS ? MIN_REPETITIONS : wanted > MAX_REPETITIONS ? MAX_REPETITIONS : (int)wanted;
    for (int i = -WARM_UP; i < count; i++) {
        memset(ranks->a, 0, bytes); /* each rank writes its own vector before the call, as in a training */
        cs_comm_barrier(ranks->comm);
        int64_t begun = nanoseconds();
        call(ranks, collective, bytes);
        times[i < 0 ? 0 : i] = nanoseconds() - begun;
    }
    *algorithm = cs_comm_algorithm(ranks->comm);
    cs_comm_all_reduce(ranks->comm, times, count, CS_I64, CS_MAX);
    qsort(times, (size_t)count, sizeof *times, compare);
    int middle = count / 2;
    return 1e-9 * (double)times[middle];
}

/* ---- the table ---- */

/* Returns the share of the vector that a rank must at least send or receive. nccl-tests computes busbw with the same
 * factor. */
static double bus_factor(int collective, int ranks)
{
    double n = ranks;
    if (collective == ALL_REDUCE)
        return 2 * (n - 1) / n;
    return collective == BROADCAST || collective == REDUCE ? 1 : (n - 1) / n;
}

static void print_line(const bench *ranks, int collective, size_t bytes)
{
    const char *algorithm;
    double copy = measure(ranks, COPY, bytes, &algorithm), seconds = measure(ranks, collective, bytes, &algorithm);
    double algbw = 1e-9 * (double)bytes / seconds, busbw = algbw * bus_factor(collective, ranks->world.size);
    if (ranks->world.rank == 0)
        printf("%-15s %12zu %-13s %12.1f %10.2f %10.2f %9.0f%%\n", names[collective], bytes, algorithm, seconds * 1e6,
               algbw, busbw, 100 * copy / seconds);
    fflush(stdout);
}

static int64_t shortest(const options *given)
{
    return given->min_bytes ? given->min_bytes : SHORTEST;
}

static void read_collectives(bool wanted[COLLECTIVES], const char *list)
{
    char *copy = strdup(list), *rest;
    for (char *word = copy ? strtok_r(copy, ",", &rest) : NULL; word; word = strtok_r(NULL, ",", &rest)) {
        int i = 0;
        while (i < COLLECTIVES && strcmp(names[i], word) != 0)
            i++;
        if (i == COLLECTIVES)
            refuse("no collective", word);
        wanted[i] = true;
    }
    free(copy);
}

static void run(const options *given)
{
    bool wanted[COLLECTIVES] = { false };
    bench ranks;
    if (shortest(given) > given->max_bytes)
        refuse("--max_bytes must be at least", "--min_bytes");
    read_collectives(wanted, given->collectives ? given->collectives : "all_reduce,reduce_scatter,all_gather");
    cs_status status = open_ranks(&ranks, given);
    if (status != CS_OK)
        fail(cs_launched_rank(), cs_exit_code(status));
    if (ranks.world.rank == 0)
        printf("%d ranks over %s, %s memory, fp32; the slowest rank, the median of repetitions\n"
               "%-15s %12s %-13s %12s %10s %10s %10s\n",
               ranks.world.size, cs_comm_kind(ranks.comm), given->ordinary ? "ordinary" : "shared", "collective",
               "size", "algorithm", "us", "algbw GB/s", "busbw GB/s", "of copy");
    for (int i = 0; i < COLLECTIVES; i++)
        for (int64_t bytes = shortest(given); wanted[i] && bytes <= given->max_bytes; bytes *= 2)
            print_line(&ranks, i, (size_t)bytes);
    close_ranks(&ranks);
}

/* Refuses a world of one rank, because collectives need at least two ranks. */
static void check_world(void)
{
    cs_world world;
    cs_status status = cs_world_read(&world);
    if (status != CS_OK)
        fail(cs_launched_rank(), cs_exit_code(status));
    if (world.size > 1)
        return;
    fprintf(stderr, "bench: at least two ranks are needed to measure communication: cspeed --num_gpus 2 bench comm\n");
    exit(CS_OPTIONS_WRONG);
}

int main(int argc, char **argv)
{
    options given = { .comm = "auto", .max_bytes = 64 << 20 };
    cs_options_form form = { .usage = usage,
                             .what = "flag",
                             .hint = "see cspeed bench comm --help",
                             CS_OPTIONS_TABLE(table),
                             .min = 1,
                             .max = 1,
                             .needs = "name what to measure: comm" };
    (void)argc;
    char **words = cs_options_main(&form, &given, argv);
    if (strcmp(words[0], "comm") != 0)
        refuse("nothing to measure is called", words[0]);
    check_world();
    run(&given);
    return 0;
}
