/* bench.h - `bench comm`: times of collectives. For the files of this folder. */
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

/* The measured ranks, and two buffers of `room` bytes. */
typedef struct {
    cs_world world;
    cs_comm *comm;
    size_t room;
    char *a, *b;
    bool own_memory;       /* the buffers are ordinary memory, not from cs_comm_alloc */
    const char *algorithm; /* that of the last measured collective */
} bench_ranks;

/* Opens the comm and the buffers; bench_close frees them. */
cs_status bench_open(bench_ranks *ranks, const char *kind, const char *algorithms, size_t room, bool own_memory);
void bench_close(bench_ranks *ranks);

/* The seconds of a collective on `bytes` bytes of fp32: the time of the slowest rank, and of the repetitions the
 * median. `bytes` are those of the longest buffer of the call. All ranks get the same result. */
double bench_measure(bench_ranks *ranks, int collective, size_t bytes);

/* tune.c: measures the sizes at which the transport's algorithms change, and prints them. */
cs_status bench_tune(const char *kind, size_t largest);

#endif
