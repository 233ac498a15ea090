/* tune.c - `bench comm --tune`: the sizes at which the algorithms of a transport should change on this machine.
 *
 * Every switch chooses between two algorithms by the length of a vector. Both algorithms are measured for each length:
 * in turn, the switch is set to 0 and to a length above all measured lengths. For a given position of the switch, each
 * length has the time of the algorithm that the switch then chooses. The best position is the one with the least
 * product of these times. */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTHS = 32, ROUNDS = 3, SMALLEST = 256, LIST = 512 };

typedef struct {
    const char *name;
    int collective; /* the collective whose time shows the difference between the algorithms */
    /* true: a switch of the shared-memory transport; false: a switch of the collectives over messages */
    bool shm;
    bool own_memory;
} tune_switch;

static const tune_switch switches[] = {
    { "slots", BENCH_ALL_REDUCE, true, false },    { "messages", BENCH_ALL_TO_ALL, true, false },
    { "reduce_whole", BENCH_REDUCE, true, true },  { "all_reduce_whole", BENCH_ALL_REDUCE, false, true },
    { "reduce_whole", BENCH_REDUCE, false, true }, { "broadcast_whole", BENCH_BROADCAST, false, true },
};
enum { SWITCHES = sizeof switches / sizeof *switches };

typedef struct {
    const char *kind, *transport;
    int lengths;
    double first[LENGTHS], second[LENGTHS]; /* seconds of the two algorithms for each length */
} tuning;

static size_t length_at(int index)
{
    return (size_t)SMALLEST << index;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Measures one of the two algorithms: the one that is chosen if the switch is at the length `position`. */
static cs_status measure_side(const tuning *t, const tune_switch *s, const char *position, double *seconds)
{
    char list[LIST];
    bench_ranks ranks;
    snprintf(list, sizeof list, "%s.%s=%s", t->transport, s->name, position);
    cs_status status = bench_open(&ranks, t->kind, list, length_at(t->lengths - 1), s->own_memory);
    for (int i = 0; i < t->lengths && status == CS_OK; i++)
        seconds[i] = bench_measure(&ranks, s->collective, length_at(i));
    bench_close(&ranks);
    return status;
}

static cs_status measure_switch(tuning *t, const tune_switch *s)
{
    /* lengths for the switch: with 2^40 bytes the first algorithm is always used, with 0 it is never used */
    static const char always[] = "1099511627776", never[] = "0";
    double first[ROUNDS][LENGTHS], second[ROUNDS][LENGTHS], sorted[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        cs_status status = measure_side(t, s, always, first[round]);
        if (status == CS_OK)
            status = measure_side(t, s, never, second[round]);
        if (status != CS_OK)
            return status;
    }
    for (int i = 0; i < t->lengths; i++)
        for (int side = 0; side < 2; side++) {
            for (int round = 0; round < ROUNDS; round++)
                sorted[round] = side ? second[round][i] : first[round][i];
            qsort(sorted, ROUNDS, sizeof *sorted, compare);
            *(side ? &t->second[i] : &t->first[i]) = sorted[ROUNDS / 2];
        }
    return CS_OK;
}

/* Returns for how many of the lengths, from the shortest on, the first algorithm should be used. */
static int place_switch(const tuning *t)
{
    double cost = 0, min = 0;
    int best = 0;
    for (int i = 0; i < t->lengths; i++) {
        /* cost of using the first algorithm for the i + 1 shortest lengths: the sum of log(t1 / t2), with
         * the times t1 and t2 of the first and the second algorithm */
        cost += log(t->first[i] / t->second[i]);
        if (cost < min) {
            min = cost;
            best = i + 1;
        }
    }
    return best;
}

static size_t chosen_size(const tuning *t)
{
    int place = place_switch(t);
    return place == 0 ? 0 : length_at(place - 1);
}

static void print_switch(const tuning *t, const tune_switch *s, size_t size)
{
    printf("\n%s.%s, by %s in %s memory, with the algorithms below and above the switch\n%12s %12s   %12s\n",
           t->transport, s->name, bench_names[s->collective], s->own_memory ? "ordinary" : "shared", "bytes",
           "us below", "us above");
    for (int i = 0; i < t->lengths; i++) {
        bool first = length_at(i) <= size;
        printf("%12zu %12.1f%s %12.1f%s\n", length_at(i), t->first[i] * 1e6, first ? " *" : "  ", t->second[i] * 1e6,
               first ? "" : " *");
    }
}

/* Finds out which transport the ranks have, and the number of this rank. */
static cs_status find_transport(tuning *t, int *rank)
{
    static char name[16];
    bench_ranks ranks;
    cs_status status = bench_open(&ranks, t->kind, NULL, 1, true);
    if (status == CS_OK) {
        snprintf(name, sizeof name, "%s", cs_comm_kind(ranks.comm));
        *rank = cs_comm_rank(ranks.comm);
    }
    t->transport = name;
    bench_close(&ranks);
    return status;
}

cs_status bench_tune(const char *kind, size_t largest)
{
    tuning t = { .kind = kind };
    char list[LIST] = "";
    int rank = 0;
    cs_status status = find_transport(&t, &rank);
    while (t.lengths < LENGTHS && length_at(t.lengths) <= largest)
        t.lengths++;
    bool shm = status == CS_OK && strcmp(t.transport, "shm") == 0;
    for (int i = 0; i < SWITCHES && status == CS_OK; i++) {
        if (switches[i].shm != shm)
            continue;
        status = measure_switch(&t, &switches[i]);
        size_t size = chosen_size(&t), used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s.%s=%zu", used ? "," : "", t.transport, switches[i].name, size);
        if (status == CS_OK && rank == 0)
            print_switch(&t, &switches[i], size);
    }
    if (status == CS_OK && rank == 0)
        printf("\n*: the algorithm that this key of the configuration chooses for so many bytes:\n"
               "\"cspeed\": {\"comm_algorithms\": \"%s\"}\n",
               list);
    return status;
}
