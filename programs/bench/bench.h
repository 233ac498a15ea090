/* bench.h - `bench comm` measures the times of collectives. This header declares the functions that the files of this
 * folder share. */
#ifndef CS_PROGRAMS_BENCH_H
#define CS_PROGRAMS_BENCH_H

#include "cspeed/comm.h"

enum {
    BENCH_ALL_REDUCE,
    BENCH_REDUCE_SCATTER,
    BENCH_ALL_GATHER,
    BENCH_BROADCAST,
    BENCH_REDUCE,
    BENCH_SCATTER,
    BENCH_GATHER,
    BENCH_ALL_TO_ALL,
    BENCH_COLLECTIVES,
    BENCH_COPY = BENCH_COLLECTIVES /* a copy inside each rank's own memory, on all ranks at the same time */
};

extern const char *const bench_names[BENCH_COLLECTIVES + 1];

/* The ranks that are measured, and two buffers of `capacity` bytes. */
typedef struct {
    cs_world world;
    cs_comm *comm;
    size_t capacity;
    char *a, *b;
    bool own_memory;       /* true: the buffers are ordinary memory; false: they are from cs_comm_alloc */
    const char *algorithm; /* the algorithm of the collective that was measured most recently */
} bench_ranks;

/* Opens the communicator and allocates the buffers. bench_close closes the communicator and frees the buffers. */
cs_status bench_open(bench_ranks *ranks, const char *kind, const char *algorithms, size_t capacity, bool own_memory);
void bench_close(bench_ranks *ranks);

/* Measures a collective on `bytes` bytes of fp32, where `bytes` is the size of the longest buffer of the call. The time
 * of a repetition is the time of the slowest rank. Returns, on all ranks, the median time of the repetitions in
 * seconds. */
double bench_measure(bench_ranks *ranks, int collective, size_t bytes);

/* tune.c: measures the vector lengths at which the transport's algorithms should change, and prints them. */
cs_status bench_tune(const char *kind, size_t largest);

#endif
