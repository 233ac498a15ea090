/* measure.c - the time of one collective. */
#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MIN_REPETITIONS = 5, MAX_REPETITIONS = 200, WARM_UP = 2 };

const char *const bench_names[] = { "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
                                    "scatter",    "gather",         "all_to_all", "copy" };

cs_status bench_open(bench_ranks *ranks, const char *kind, const char *algorithms, size_t capacity, bool own_memory)
{
    cs_comm_settings settings = { .kind = kind, .algorithms = algorithms };
    *ranks = (bench_ranks){ .capacity = capacity, .own_memory = own_memory };
    cs_status status = cs_world_read(&ranks->world);
    if (status == CS_OK)
        status = cs_comm_open(&ranks->comm, &ranks->world, &settings);
    if (status != CS_OK)
        return status;
    ranks->a = own_memory ? malloc(capacity) : cs_comm_alloc(ranks->comm, capacity);
    ranks->b = own_memory ? malloc(capacity) : cs_comm_alloc(ranks->comm, capacity);
    if (!ranks->a || !ranks->b)
        return CS_NO_MEMORY;
    memset(ranks->a, 0, capacity);
    memset(ranks->b, 0, capacity);
    return CS_OK;
}

void bench_close(bench_ranks *ranks)
{
    if (ranks->own_memory) {
        free(ranks->a);
        free(ranks->b);
    }
    cs_comm_close(ranks->comm);
}

static void call(const bench_ranks *r, int collective, size_t bytes)
{
    int64_t count = (int64_t)(bytes / sizeof(float)), part = count / cs_comm_size(r->comm);
    switch (collective) {
    case BENCH_ALL_REDUCE:
        cs_comm_all_reduce(r->comm, r->a, count, CS_F32, CS_SUM);
        break;
    case BENCH_REDUCE_SCATTER:
        cs_comm_reduce_scatter(r->comm, r->b, r->a, part, CS_F32, CS_SUM);
        break;
    case BENCH_ALL_GATHER:
        cs_comm_all_gather(r->comm, r->b, r->a, part, CS_F32);
        break;
    case BENCH_BROADCAST:
        cs_comm_broadcast(r->comm, r->a, count, CS_F32, 0);
        break;
    case BENCH_REDUCE:
        cs_comm_reduce(r->comm, r->a, count, CS_F32, CS_SUM, 0);
        break;
    case BENCH_SCATTER:
        cs_comm_scatter(r->comm, r->b, r->a, part, CS_F32, 0);
        break;
    case BENCH_GATHER:
        cs_comm_gather(r->comm, r->b, r->a, part, CS_F32, 0);
        break;
    case BENCH_ALL_TO_ALL:
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

double bench_measure(bench_ranks *ranks, int collective, size_t bytes)
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
    ranks->algorithm = cs_comm_algorithm(ranks->comm);
    cs_comm_all_reduce(ranks->comm, times, count, CS_I64, CS_MAX);
    qsort(times, (size_t)count, sizeof *times, compare);
    int middle = count / 2;
    return 1e-9 * (double)times[middle];
}
