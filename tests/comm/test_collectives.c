/* test_collectives.c - compares every collective on every transport with a serial model: worlds of 1 to 9 ranks, every
 * root, type and operation, sizes around the switches between algorithms, groups, calls that return before they are
 * done, and sequences of random calls on groups that overlap. CSPEED_COLLECTIVE_STEPS is the number of random calls
 * (default: 200).
 *
 * With arguments, `test_collectives KIND PART`, the program is one rank of a world that another program starts, and
 * runs a part of the test: `each`, `switches`, `random`, or `large` (a message of more than 2 GiB). */
#include "layout.h"
#include "suite.h"
#include "sums.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_COUNT = 280001, BUFFER_BYTES = 9 * MAX_COUNT * 8, GROUPS = 5 };

enum {
    ALL_REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    BROADCAST,
    REDUCE,
    SCATTER,
    GATHER,
    ALL_TO_ALL,
    REDUCE_SCATTER_V,
    ALL_GATHER_V,
    BARRIER,
    MESSAGES,
    WITHOUT_WAITING,
    KINDS
};

typedef struct {
    cs_comm *comm;
    char *a, *b;
    int what, root, salt;
    int64_t count;
    cs_dtype dtype;
    cs_reduce_op op;
} trial;

/* ---- one collective against the model --------------------------------------------------------- */

static void fill(const trial *t, void *data, int64_t count, int64_t first, int rank, int salt)
{
    sums_fill(data, count, first, rank, salt, t->dtype);
}

static int expect_values(const trial *t, const void *data, int64_t count, int64_t first, int rank, const char *what)
{
    return sums_expect_values(data, count, first, rank, t->salt, t->dtype, what);
}

static int expect_reduction(const trial *t, const void *data, int64_t count, int64_t first, const char *what)
{
    return sums_expect_reduction(data, count, first, cs_comm_size(t->comm), t->salt, t->dtype, t->op, what);
}

static size_t bytes_of(const trial *t, int64_t count)
{
    return (size_t)count * cs_dtype_bytes(t->dtype);
}

static int try_reductions(const trial *t)
{
    cs_comm *comm = t->comm;
    int rank = cs_comm_rank(comm), size = cs_comm_size(comm);
    switch (t->what) {
    case ALL_REDUCE:
        fill(t, t->a, t->count, 0, rank, t->salt);
        cs_comm_all_reduce(comm, t->a, t->count, t->dtype, t->op);
        return expect_reduction(t, t->a, t->count, 0, "all_reduce");
    case REDUCE_SCATTER:
        fill(t, t->a, size * t->count, 0, rank, t->salt);
        cs_comm_reduce_scatter(comm, t->b, t->a, t->count, t->dtype, t->op);
        return expect_reduction(t, t->b, t->count, rank * t->count, "reduce_scatter");
    default:
        fill(t, t->a, t->count, 0, rank, t->salt);
        cs_comm_reduce(comm, t->a, t->count, t->dtype, t->op, t->root);
        return rank == t->root ? expect_reduction(t, t->a, t->count, 0, "reduce")
                               : expect_values(t, t->a, t->count, 0, rank, "data of a reduce");
    }
}

static int try_copies(const trial *t)
{
    cs_comm *comm = t->comm;
    int rank = cs_comm_rank(comm), size = cs_comm_size(comm);
    bool is_root = rank == t->root, in_place = t->salt % 2;
    char *part = t->a + bytes_of(t, rank * t->count), *own_part = in_place && is_root ? part : t->b;
    memset(t->a, 0xaa, bytes_of(t, size * t->count));
    switch (t->what) {
    case BROADCAST:
        fill(t, t->a, is_root ? t->count : 0, 0, rank, t->salt);
        cs_comm_broadcast(comm, t->a, t->count, t->dtype, t->root);
        return expect_values(t, t->a, t->count, 0, t->root, "broadcast");
    case SCATTER:
        fill(t, t->a, is_root ? size * t->count : 0, 0, rank, t->salt);
        cs_comm_scatter(comm, own_part, is_root ? t->a : NULL, t->count, t->dtype, t->root);
        return expect_values(t, own_part, t->count, rank * t->count, t->root, "scatter");
    case ALL_TO_ALL:
        fill(t, t->a, size * t->count, 0, rank, t->salt);
        cs_comm_all_to_all(comm, t->b, t->a, t->count, t->dtype);
        for (int i = 0; i < size; i++)
            if (expect_values(t, t->b + bytes_of(t, i * t->count), t->count, rank * t->count, i, "all_to_all"))
                return 1;
        return 0;
    case ALL_GATHER:
        own_part = in_place ? part : t->b;
        fill(t, own_part, t->count, 0, rank, t->salt);
        cs_comm_all_gather(comm, t->a, own_part, t->count, t->dtype);
        break;
    default:
        fill(t, own_part, t->count, 0, rank, t->salt);
        cs_comm_gather(comm, is_root ? t->a : NULL, own_part, t->count, t->dtype, t->root);
    }
    for (int i = 0; i < size && (is_root || t->what == ALL_GATHER); i++)
        if (expect_values(t, t->a + bytes_of(t, i * t->count), t->count, 0, i, "gather"))
            return 1;
    return 0;
}

/* Tries a collective with parts of up to t->count elements, some of which are empty. */
static int try_uneven(const trial *t)
{
    int64_t counts[SUMS_RANKS], from[SUMS_RANKS + 1] = { 0 };
    int rank = cs_comm_rank(t->comm), size = cs_comm_size(t->comm);
    for (int i = 0; i < size; i++) {
        counts[i] = (t->salt + i) % 3 ? t->count * ((t->salt + i) % 5) / 4 : 0;
        from[i + 1] = from[i] + counts[i];
    }
    char *own_part = t->salt % 2 ? t->a + bytes_of(t, from[rank]) : t->b;
    if (t->what == REDUCE_SCATTER_V) {
        fill(t, t->a, from[size], 0, rank, t->salt);
        cs_comm_reduce_scatter_v(t->comm, own_part, t->a, counts, t->dtype, t->op);
        return expect_reduction(t, own_part, counts[rank], from[rank], "reduce_scatter_v");
    }
    fill(t, own_part, counts[rank], 0, rank, t->salt);
    cs_comm_all_gather_v(t->comm, t->a, own_part, counts, t->dtype);
    for (int i = 0; i < size; i++)
        if (expect_values(t, t->a + bytes_of(t, from[i]), counts[i], 0, i, "all_gather_v"))
            return 1;
    return 0;
}

static int try_messages(const trial *t)
{
    int rank = cs_comm_rank(t->comm), size = cs_comm_size(t->comm), next = (rank + 1) % size;
    int last = (rank + size - 1) % size;
    fill(t, t->a, t->count, 0, rank, t->salt);
    if (size == 1)
        return 0;
    if (rank == 0)
        cs_comm_send(t->comm, t->a, bytes_of(t, t->count), next);
    cs_comm_receive(t->comm, t->b, bytes_of(t, t->count), last);
    if (rank != 0)
        cs_comm_send(t->comm, t->a, bytes_of(t, t->count), next);
    return expect_values(t, t->b, t->count, 0, last, "message");
}

/* Starts nonblocking messages in both directions of a ring and a nonblocking all_reduce; while they are under way, a
 * blocking all_reduce must work too. */
static int try_without_waiting(const trial *t)
{
    cs_comm *comm = t->comm;
    int rank = cs_comm_rank(comm), size = cs_comm_size(comm), next = (rank + 1) % size, last = (rank + size - 1) % size;
    int64_t count = t->count / 4;
    char *from[6], *to[6];
    cs_work *work[7];
    int works = 0, one = 1;
    for (int i = 0; i < 6; i++) {
        from[i] = t->a + bytes_of(t, i * count);
        to[i] = t->b + bytes_of(t, i * count);
    }
    fill(t, from[0], count, 0, rank, t->salt);
    for (int turn = 0; turn < 2 && size > 1; turn++) {
        work[works++] = cs_comm_isend(comm, from[0], bytes_of(t, count), turn ? last : next);
        work[works++] = cs_comm_ireceive(comm, to[turn], bytes_of(t, count), turn ? next : last);
    }
    fill(t, from[1], count, 0, rank, t->salt);
    work[works++] = cs_comm_iall_reduce(comm, from[1], count, t->dtype, t->op);
    fill(t, from[3], size > 3 ? count : 0, 0, rank, t->salt);
    cs_comm_all_reduce(comm, &one, 1, CS_I32, CS_SUM);
    EXPECT(one == size, "a sum of ones over %d ranks is %d", size, one);
    for (int i = works - 1; i >= 0; i--)
        cs_work_wait(work[i]);
    if (expect_reduction(t, from[1], count, 0, "iall_reduce"))
        return 1;
    if (size > 1 && (expect_values(t, to[0], count, 0, last, "ireceive") ||
                     expect_values(t, to[1], count, 0, next, "ireceive of the other direction")))
        return 1;
    fill(t, t->a, size * count, 0, rank, t->salt);
    cs_work *summed = cs_comm_ireduce_scatter(comm, t->b, t->a, count, t->dtype, t->op);
    while (!cs_work_is_done(summed))
        usleep(10);
    cs_work_wait(summed);
    if (expect_reduction(t, t->b, count, rank * count, "ireduce_scatter"))
        return 1;
    fill(t, t->b, count, 0, rank, t->salt);
    cs_work_wait(cs_comm_iall_gather(comm, t->a, t->b, count, t->dtype));
    for (int i = 0; i < size; i++)
        if (expect_values(t, t->a + bytes_of(t, i * count), count, 0, i, "iall_gather"))
            return 1;
    return 0;
}

static int try_one(const trial *t)
{
    switch (t->what) {
    case ALL_REDUCE:
    case REDUCE_SCATTER:
    case REDUCE:
        return try_reductions(t);
    case REDUCE_SCATTER_V:
    case ALL_GATHER_V:
        return try_uneven(t);
    case MESSAGES:
        return try_messages(t);
    case WITHOUT_WAITING:
        return try_without_waiting(t);
    case BARRIER:
        cs_comm_barrier(t->comm);
        return 0;
    default:
        return try_copies(t);
    }
}

/* ---- every root, type and operation ----------------------------------------------------------- */

static int try_each(cs_comm *comm, char *a, char *b, int64_t count)
{
    int size = cs_comm_size(comm);
    trial t = { .comm = comm, .a = a, .b = b, .count = count, .salt = (int)count };
    for (t.what = 0; t.what < WITHOUT_WAITING; t.what++)
        for (t.root = 0; t.root < size; t.root++)
            for (int dtype = CS_F32; dtype <= CS_U8; dtype++)
                for (int op = CS_SUM; op <= CS_PROD; op++) {
                    bool reduces = t.what <= REDUCE_SCATTER || t.what == REDUCE || t.what == REDUCE_SCATTER_V;
                    bool rooted = t.what >= BROADCAST && t.what <= GATHER;
                    t.dtype = (cs_dtype)dtype;
                    t.op = (cs_reduce_op)op;
                    t.salt++;
                    if ((op > CS_SUM && !reduces) || (t.root > 0 && !rooted))
                        continue;
                    if (try_one(&t))
                        return 1;
                }
    return 0;
}

static int each_collective(void *argument)
{
    static const int64_t counts[] = { 0, 1, 3, 257 };
    cs_comm *comm = NULL;
    SHOULD(layout_open(&comm, argument, false, 3 * (size_t)BUFFER_BYTES));
    char *a = cs_comm_alloc(comm, BUFFER_BYTES), *b = malloc(BUFFER_BYTES);
    int failed = !b;
    for (size_t i = 0; i < sizeof counts / sizeof *counts && !failed; i++)
        failed = try_each(comm, i % 2 ? a : b, i % 2 ? b : a, counts[i]);
    free(b);
    cs_comm_close(comm);
    return failed;
}

START_TEST(collectives_are_the_model)
{
    static const layout layouts[] = {
        { "auto", 1, { 0 } },      { "shm", 2, { 0 } },    { "shm", 3, { 0 } },    { "shm", 4, { 0 } },
        { "shm", 5, { 0 } },       { "shm", 6, { 0 } },    { "shm", 7, { 0 } },    { "shm", 8, { 0 } },
        { "shm", 9, { 0 } },       { "tcp", 2, { 1, 1 } }, { "tcp", 3, { 1, 2 } }, { "tcp", 4, { 2, 2 } },
        { "tcp", 5, { 5 } },       { "tcp", 6, { 3, 3 } }, { "tcp", 7, { 4, 3 } }, { "tcp", 8, { 2, 2, 2, 2 } },
        { "tcp", 9, { 4, 4, 1 } },
    };
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        layout on = layouts[i];
        ck_assert_msg(cs_spawn(on.ranks, each_collective, &on) == CS_OK, "%s, %d ranks: %s", on.kind, on.ranks,
                      cs_error());
    }
}
END_TEST

/* Sizes on both sides of the switches: 16 KB and 64 KB of a vector, and 1 MB of a piece. */
static int around_switches(void *argument)
{
    static const int64_t counts[] = { 4095, 4097, 16384, 16385, 262145, MAX_COUNT };
    cs_comm *comm = NULL;
    SHOULD(layout_open(&comm, argument, false, 3 * (size_t)BUFFER_BYTES));
    char *a = cs_comm_alloc(comm, BUFFER_BYTES), *b = malloc(BUFFER_BYTES);
    EXPECT(b, "no memory");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        trial t = { comm, i % 2 ? a : b, i % 2 ? b : a, 0, 0, (int)i, counts[i], CS_F32, CS_AVG };
        t.root = (int)i % cs_comm_size(comm);
        for (t.what = 0; t.what < WITHOUT_WAITING; t.what++)
            if (try_one(&t))
                return 1;
    }
    free(b);
    cs_comm_close(comm);
    return 0;
}

START_TEST(sizes_around_the_switches_are_the_model)
{
    static const layout layouts[] = {
        { "shm", 2, { 0 } }, { "shm", 3, { 0 } }, { "tcp", 3, { 1, 2 } }, { "tcp", 4, { 2, 2 } }
    };
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        layout on = layouts[i];
        ck_assert_msg(cs_spawn(on.ranks, around_switches, &on) == CS_OK, "%s: %s", on.kind, cs_error());
    }
}
END_TEST

/* ---- which algorithm a length has -------------------------------------------------------------- */

typedef struct {
    layout on;
    int64_t bytes;
    const char *expected;
} length;

static int run_length(void *argument)
{
    const length *l = argument;
    cs_comm *comm = NULL;
    SHOULD(layout_open(&comm, &l->on, false, 1 << 20));
    char *data = cs_comm_alloc(comm, 1 << 17);
    cs_comm_all_reduce(comm, data, l->bytes, CS_U8, CS_SUM);
    EXPECT(strcmp(cs_comm_algorithm(comm), l->expected) == 0, "%lld bytes: %s", (long long)l->bytes,
           cs_comm_algorithm(comm));
    cs_comm_all_gather_v(comm, data, data, (int64_t[SUMS_RANKS]){ 1, 0 }, CS_U8);
    EXPECT(strcmp(cs_comm_algorithm(comm), "direct") == 0, "all_gather_v: %s", cs_comm_algorithm(comm));
    cs_comm_close(comm);
    return 0;
}

/* If ranks share cores, shared memory has its slots for vectors that are 8 times as long. */
START_TEST(an_algorithm_is_chosen_by_the_length)
{
    length lengths[] = {
        { { "tcp", 2, { 1, 1 } }, 16384, "whole" },           { { "tcp", 2, { 1, 1 } }, 16385, "direct" },
        { { "tcp", 4, { 2, 2 } }, 101, "hierarchical" },      { { "shm", 2, { 0 } }, 2048, "slots" },
        { { "shm", 2, { 0 } }, (2048 << 3) + 1, "in_place" },
    };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        ck_assert_msg(cs_spawn(lengths[i].on.ranks, run_length, &lengths[i]) == CS_OK, "length %zu: %s", i, cs_error());
}
END_TEST

/* ---- random calls on groups ------------------------------------------------------------------- */

typedef struct {
    uint64_t state;
} dice;

static int roll(dice *d, int sides)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (int)((d->state >> 33) % (uint64_t)sides);
}

/* Splits the world, groups[0], into the other groups. Group 1: the even or the odd ranks. Group 2: the first half of
 * the ranks. Group 3: all ranks in the opposite order. Group 4: the odd ranks in the opposite order. A rank that is not
 * in a group gets a communicator without members. */
static cs_status open_groups(cs_comm *groups[GROUPS])
{
    int rank = cs_comm_rank(groups[0]), size = cs_comm_size(groups[0]);
    CE_TRY(cs_comm_split(&groups[1], groups[0], rank % 2, 0));
    CE_TRY(cs_comm_split(&groups[2], groups[0], rank < (size + 1) / 2 ? 7 : -1, 0));
    CE_TRY(cs_comm_split(&groups[3], groups[0], 0, -rank));
    return cs_comm_split(&groups[4], groups[1], rank % 2 ? 0 : -1, -rank);
}

static int run_steps(cs_comm *groups[GROUPS], char *a, char *b, int steps)
{
    static const int64_t counts[] = { 0, 1, 2, 3, 17, 255, 1021, 4097, 16385, 40001 };
    dice d = { 20 };
    for (int step = 0; step < steps; step++) {
        cs_comm *comm = groups[roll(&d, GROUPS)];
        trial t = { comm, a, b, 0, 0, step, 0, CS_F32, CS_SUM };
        t.what = roll(&d, KINDS);
        t.count = counts[roll(&d, (int)(sizeof counts / sizeof *counts))];
        t.dtype = (cs_dtype)roll(&d, CS_U8 + 1);
        t.op = (cs_reduce_op)roll(&d, CS_PROD + 1);
        int root = roll(&d, 1000);
        if (roll(&d, 2)) {
            t.a = b;
            t.b = a;
        }
        if (cs_comm_size(comm) == 0)
            continue; /* this rank is not in the group */
        t.root = root % cs_comm_size(comm);
        if (try_one(&t)) {
            fprintf(stderr, "the fault is in step %d\n", step);
            return 1;
        }
    }
    return 0;
}

static int random_calls(void *argument)
{
    const char *text = getenv("CSPEED_COLLECTIVE_STEPS");
    cs_comm *groups[GROUPS] = { NULL };
    SHOULD(layout_open(&groups[0], argument, true, 3 * (size_t)BUFFER_BYTES));
    SHOULD(open_groups(groups));
    EXPECT(cs_comm_rank(groups[3]) == cs_comm_size(groups[0]) - 1 - cs_comm_rank(groups[0]), "rank %d is %d backwards",
           cs_comm_rank(groups[0]), cs_comm_rank(groups[3]));
    char *a = cs_comm_alloc(groups[0], BUFFER_BYTES), *b = malloc(BUFFER_BYTES);
    int failed = !b || run_steps(groups, a, b, text ? atoi(text) : 200);
    free(b);
    for (int i = GROUPS - 1; i >= 0 && !failed; i--)
        cs_comm_close(groups[i]);
    return failed;
}

START_TEST(random_calls_are_the_model)
{
    static const layout layouts[] = { { "shm", 4, { 0 } }, { "tcp", 4, { 2, 2 } }, { "auto", 5, { 4, 1 } } };
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        layout on = layouts[i];
        ck_assert_msg(cs_spawn(on.ranks, random_calls, &on) == CS_OK, "%s: %s", on.kind, cs_error());
    }
}
END_TEST

/* Rank 0 sends a message of several pieces. The last piece is shorter than the others. */
static int large_message(void *argument)
{
    enum { STEP = 4099 }; /* bytes 0, STEP, 2 STEP, ... are set */
    size_t bytes = ((size_t)9 << 28) + 5;
    cs_comm *comm = NULL;
    SHOULD(layout_open(&comm, argument, false, 4096));
    unsigned char *data = calloc(bytes, 1);
    EXPECT(data, "no memory for %zu bytes", bytes);
    if (cs_comm_rank(comm) == 0) {
        for (size_t i = 0; i < bytes; i += STEP)
            data[i] = (unsigned char)(i >> 12);
        cs_comm_send(comm, data, bytes, 1);
    } else {
        cs_comm_receive(comm, data, bytes, 0);
    }
    for (size_t i = 0; i < bytes; i++)
        EXPECT(data[i] == (i % STEP ? 0 : (unsigned char)(i >> 12)), "byte %zu is %d", i, data[i]);
    free(data);
    cs_comm_close(comm);
    return 0;
}

static int run_as_rank(const char *kind, const char *part)
{
    layout on = { .kind = kind };
    if (strcmp(part, "each") == 0)
        return each_collective(&on);
    if (strcmp(part, "switches") == 0)
        return around_switches(&on);
    return strcmp(part, "large") == 0 ? large_message(&on) : random_calls(&on);
}

int main(int words, char **word)
{
    const TTest *const tests[] = { collectives_are_the_model, sizes_around_the_switches_are_the_model,
                                   an_algorithm_is_chosen_by_the_length, random_calls_are_the_model };
    return words > 2 ? run_as_rank(word[1], word[2]) : suite_run("collectives", tests, 4);
}
