/* test_algorithms.c - compares each algorithm that cs_comm_settings.algorithms can name with a serial model, in worlds
 * of 1 to 9 ranks on each transport. Also tests the sizes at which algorithms change, and lists of algorithms that are
 * wrong or differ between ranks.
 *
 * With the argument "mpi" the program is one rank of a world that mpirun starts, and tries the transport mpi. */
#include "layout.h"
#include "suite.h"
#include "sums.h"

#include <stdlib.h>
#include <string.h>

/* MAX_COUNT: elements; BUFFER_BYTES: bytes. A piece, the part of a vector that the staging buffer holds, is at most 1 MB for
 * each rank. */
enum { MAX_COUNT = 600011, BUFFER_BYTES = MAX_COUNT * 4 };

typedef struct {
    layout on;
    const char *list;
    const char *algorithms[3]; /* what cs_comm_algorithm must return after all_reduce, reduce_scatter and all_gather */
    bool loose;                /* true: the algorithm adds in another order than the tree */
} setup;

static const char *const reduced[] = { "all_reduce", "reduce_scatter", "all_gather" };

/* ---- against the model ------------------------------------------------------------------------ */

static int expect_algorithm(const cs_comm *comm, const setup *with, int collective)
{
    EXPECT(strcmp(cs_comm_algorithm(comm), with->algorithms[collective]) == 0, "%s was made by %s, not by %s",
           reduced[collective], cs_comm_algorithm(comm), with->algorithms[collective]);
    return 0;
}

/* Returns true for products that are not compared with the model, because the model's tolerance is valid for sums only:
 * products of 16-bit types, and fp32 products by an algorithm that does not keep the order of the tree. */
static bool is_out_of_model(const setup *with, cs_dtype dtype, cs_reduce_op op)
{
    bool real = dtype == CS_F32 || dtype == CS_BF16 || dtype == CS_F16;
    return op == CS_PROD && real && (with->loose || dtype != CS_F32);
}

/* Every rank must have the bits of rank 0. */
static int expect_same_bits(cs_comm *comm, const char *data, size_t bytes, char *other)
{
    memcpy(other, data, bytes);
    cs_comm_broadcast(comm, other, (int64_t)bytes, CS_U8, 0);
    EXPECT(memcmp(other, data, bytes) == 0, "an all_reduce of %zu bytes has other bits on rank %d than on rank 0",
           bytes, cs_comm_rank(comm));
    return 0;
}

static int try_one(cs_comm *comm, const setup *with, char *a, char *b, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    int rank = cs_comm_rank(comm), size = cs_comm_size(comm), salt = (int)count + (int)dtype;
    size_t element = cs_dtype_bytes(dtype);
    sums_fill(a, count, 0, rank, salt, dtype);
    cs_comm_all_reduce(comm, a, count, dtype, op);
    if (expect_algorithm(comm, with, 0) || sums_expect_reduction(a, count, 0, size, salt, dtype, op, "all_reduce") ||
        expect_same_bits(comm, a, (size_t)count * element, b))
        return 1;
    int64_t part = count / size;
    char *own_part = salt % 2 ? a + (size_t)(rank * part) * element : b;
    sums_fill(a, size * part, 0, rank, salt, dtype);
    cs_comm_reduce_scatter(comm, own_part, a, part, dtype, op);
    if (expect_algorithm(comm, with, 1) ||
        sums_expect_reduction(own_part, part, rank * part, size, salt, dtype, op, "reduce_scatter"))
        return 1;
    sums_fill(own_part, part, 0, rank, salt, dtype);
    cs_comm_all_gather(comm, a, own_part, part, dtype);
    for (int i = 0; i < size; i++)
        if (sums_expect_values(a + (size_t)(i * part) * element, part, 0, i, salt, dtype, "all_gather"))
            return 1;
    return expect_algorithm(comm, with, 2);
}

/* Tries collectives with parts of uneven length, some of which are empty. */
static int try_uneven(cs_comm *comm, const setup *with, char *a, char *b, int64_t count)
{
    int64_t counts[SUMS_RANKS], from[SUMS_RANKS + 1] = { 0 };
    int rank = cs_comm_rank(comm), size = cs_comm_size(comm);
    for (int i = 0; i < size; i++) {
        counts[i] = (i + 1) % 3 ? count * ((i + 2) % 5) / 4 : 0;
        from[i + 1] = from[i] + counts[i];
    }
    sums_fill(a, from[size], 0, rank, 5, CS_F32);
    cs_comm_reduce_scatter_v(comm, b, a, counts, CS_F32, CS_SUM);
    if (expect_algorithm(comm, with, 1) ||
        sums_expect_reduction(b, counts[rank], from[rank], size, 5, CS_F32, CS_SUM, "reduce_scatter_v"))
        return 1;
    sums_fill(b, counts[rank], 0, rank, 6, CS_F32);
    cs_comm_all_gather_v(comm, a, b, counts, CS_F32);
    for (int i = 0; i < size; i++)
        if (sums_expect_values(a + (size_t)from[i] * 4, counts[i], 0, i, 6, CS_F32, "all_gather_v"))
            return 1;
    return expect_algorithm(comm, with, 2);
}

static int run(void *argument)
{
    static const int64_t counts[] = { 0, 1, 9, 257, 4099 };
    const setup *with = argument;
    cs_comm *comm = NULL;
    SHOULD(layout_open_by(&comm, &with->on, with->list, false, 3 * (size_t)BUFFER_BYTES));
    char *a = cs_comm_alloc(comm, BUFFER_BYTES), *b = malloc(BUFFER_BYTES);
    EXPECT(b, "no memory");
    if (with->loose)
        sums_loosely();
    int size = cs_comm_size(comm);
    int64_t max =
        size == 2 || size == 9 ? MAX_COUNT : MAX_COUNT / 9; /* in worlds of 2 and 9 ranks a vector has several pieces */
    int failed = try_one(comm, with, a, b, max, CS_F32, CS_AVG) || try_uneven(comm, with, a, b, 0) ||
                 try_uneven(comm, with, a, b, size == 2 ? max / 5 * 4 : max / size);
    for (int dtype = CS_F32; dtype <= CS_U8; dtype++)
        for (int op = CS_SUM; op <= CS_PROD; op++)
            for (size_t i = 0; i < sizeof counts / sizeof *counts && !failed; i++) {
                if (dtype == CS_BF16 || dtype == CS_F16)
                    sums_loosely();
                if (!is_out_of_model(with, (cs_dtype)dtype, (cs_reduce_op)op))
                    failed =
                        try_one(comm, with, i % 2 ? a : b, i % 2 ? b : a, counts[i], (cs_dtype)dtype, (cs_reduce_op)op);
            }
    free(b);
    cs_comm_close(comm);
    return failed;
}

static const setup setups[] = {
    { .list = "all_reduce=whole,reduce_scatter=direct,all_gather=direct",
      .algorithms = { "whole", "direct", "direct" } },
    { .list = "all_reduce=direct, all_gather=ring,reduce_scatter=ring",
      .algorithms = { "direct", "ring", "ring" },
      .loose = true },
    { .list = "all_reduce=ring,reduce_scatter=halving,all_gather=doubling",
      .algorithms = { "ring", "halving", "doubling" },
      .loose = true },
    { .list = "all_reduce=halving,reduce_scatter=halving,all_gather=doubling",
      .algorithms = { "halving", "halving", "doubling" } },
};
enum { SETUPS = sizeof setups / sizeof *setups };

static void try_world(const char *kind, int ranks)
{
    for (int i = 0; i < SETUPS; i++) {
        setup with = setups[i];
        with.on.kind = kind;
        with.on.ranks = ranks;
        ck_assert_msg(cs_spawn(ranks, run, &with) == CS_OK, "%s, %d ranks, %s: %s", kind, ranks, with.list, cs_error());
    }
}

START_TEST(each_algorithm_is_the_model_in_shared_memory)
{
    try_world("auto", 1);
    for (int ranks = 2; ranks <= SUMS_RANKS; ranks++)
        try_world("shm", ranks);
}
END_TEST

START_TEST(each_algorithm_is_the_model_over_tcp)
{
    for (int ranks = 2; ranks <= SUMS_RANKS; ranks++)
        try_world("tcp", ranks);
}
END_TEST

/* ---- communicators that are made from another one ---------------------------------------------- */

static int run_in_groups(void *argument)
{
    cs_comm *comm = NULL, *group = NULL;
    float data[100], other[100];
    SHOULD(layout_open_by(&comm, argument, "all_reduce=halving", true, 1 << 20));
    int rank = cs_comm_rank(comm);
    SHOULD(cs_comm_split(&group, comm, rank % 2, rank));
    sums_fill(data, 100, 0, cs_comm_rank(group), 3, CS_F32);
    cs_comm_all_reduce(group, data, 100, CS_F32, CS_SUM);
    EXPECT(strcmp(cs_comm_algorithm(group), "halving") == 0, "a group used %s", cs_comm_algorithm(group));
    if (sums_expect_reduction(data, 100, 0, cs_comm_size(group), 3, CS_F32, CS_SUM, "all_reduce of a group"))
        return 1;
    sums_fill(other, 100, 0, rank, 4, CS_F32);
    cs_work_wait(cs_comm_iall_reduce(comm, other, 100, CS_F32, CS_SUM));
    if (sums_expect_reduction(other, 100, 0, cs_comm_size(comm), 4, CS_F32, CS_SUM, "iall_reduce"))
        return 1;
    cs_comm_close(group);
    cs_comm_close(comm);
    return 0;
}

START_TEST(groups_have_the_algorithms_of_their_parent)
{
    layout shm = { "shm", 5, { 0 } }, tcp = { "tcp", 5, { 3, 2 } };
    ck_assert_msg(cs_spawn(5, run_in_groups, &shm) == CS_OK, "shm: %s", cs_error());
    ck_assert_msg(cs_spawn(5, run_in_groups, &tcp) == CS_OK, "tcp: %s", cs_error());
}
END_TEST

/* ---- MPI's own collectives --------------------------------------------------------------------- */

/* Checks the algorithm of the last call: mpi if `own` is true, otherwise `other`. The algorithm mpi is for sums and
 * averages of f32, i32 and i64, and for parts of equal length. */
static int expect_own(const cs_comm *comm, bool own, const char *other)
{
    const char *made = cs_comm_algorithm(comm);
    EXPECT(strcmp(made, own ? "mpi" : other) == 0, "made by %s", made);
    return 0;
}

static int try_own(cs_comm *comm, char *a, char *b, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    int rank = cs_comm_rank(comm), size = cs_comm_size(comm), salt = (int)count + (int)op;
    size_t element = cs_dtype_bytes(dtype);
    char *in_place = a + (size_t)(rank * count) * element, *part = salt % 2 ? in_place : b;
    bool own = (op == CS_SUM || op == CS_AVG) && (dtype == CS_F32 || dtype == CS_I32 || dtype == CS_I64);
    sums_fill(a, count, 0, rank, salt, dtype);
    cs_comm_all_reduce(comm, a, count, dtype, op);
    if (expect_own(comm, own, (size_t)count * element > 16 << 10 ? "direct" : "whole") ||
        sums_expect_reduction(a, count, 0, size, salt, dtype, op, "all_reduce") ||
        expect_same_bits(comm, a, (size_t)count * element, b))
        return 1;
    sums_fill(part, count, 0, rank, salt, dtype);
    cs_comm_all_gather(comm, a, part, count, dtype);
    for (int i = 0; i < size; i++)
        if (sums_expect_values(a + (size_t)(i * count) * element, count, 0, i, salt, dtype, "all_gather"))
            return 1;
    return expect_own(comm, true, NULL);
}

static int try_own_of_types(cs_comm *comm, char *a, char *b)
{
    static const int64_t counts[] = { 0, 1, 257, 4099, 70001 };
    for (int dtype = CS_F32; dtype <= CS_U8; dtype++)
        for (int op = CS_SUM; op < CS_PROD; op++)
            for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
                if (try_own(comm, a, b, counts[i], (cs_dtype)dtype, (cs_reduce_op)op))
                    return 1;
    return 0;
}

/* Runs one rank of a world that mpirun started. */
static int run_by_mpi(void)
{
    layout on = { .kind = "mpi" };
    cs_comm *comm = NULL, *group = NULL;
    SHOULD(layout_open_by(&comm, &on, "all_reduce=mpi,all_gather=mpi", true, 3 * (size_t)BUFFER_BYTES));
    int rank = cs_comm_rank(comm);
    char *a = cs_comm_alloc(comm, BUFFER_BYTES), *b = malloc(BUFFER_BYTES);
    EXPECT(b, "no memory");
    sums_loosely();
    SHOULD(cs_comm_split(&group, comm, rank % 2, -rank)); /* the ranks of a group are numbered in the opposite order */
    int64_t counts[SUMS_RANKS], of_a_work[3] = { rank, 1, 2 };
    for (int i = 0; i < SUMS_RANKS; i++)
        counts[i] = i + 1;
    bool shared = cs_comm_size(group) > 1; /* a group of one rank does not use MPI */
    int failed = try_own_of_types(comm, a, b) || (shared && try_own_of_types(group, a, b));
    cs_comm_all_gather_v(comm, a, b, counts, CS_F32);
    failed = failed || expect_own(comm, false, "direct");
    cs_work_wait(cs_comm_iall_reduce(comm, of_a_work, 3, CS_I64, CS_SUM));
    int size = cs_comm_size(comm);
    EXPECT(of_a_work[0] == size * (size - 1) / 2 && of_a_work[2] == 2 * size, "a wrong sum: %lld",
           (long long)of_a_work[0]);
    free(b);
    cs_comm_close(group);
    cs_comm_close(comm);
    return failed;
}

/* ---- sizes ------------------------------------------------------------------------------------ */

typedef struct {
    layout on;
    const char *list;
    int64_t bytes;
    const char *expected;
} size_trial;

static int run_size(void *argument)
{
    const size_trial *t = argument;
    cs_comm *comm = NULL;
    SHOULD(layout_open_by(&comm, &t->on, t->list, false, 1 << 20));
    char *data = cs_comm_alloc(comm, 1 << 17);
    cs_comm_all_reduce(comm, data, t->bytes, CS_U8, CS_SUM);
    EXPECT(strcmp(cs_comm_algorithm(comm), t->expected) == 0, "%lld bytes: %s", (long long)t->bytes,
           cs_comm_algorithm(comm));
    cs_comm_close(comm);
    return 0;
}

START_TEST(a_list_moves_the_switches)
{
    static const char tcp[] = "tcp.all_reduce_whole=100,shm.slots=7", shm[] = "shm.slots=5000", none[] = "shm.slots=0";
    size_trial trials[] = {
        { { "tcp", 2, { 1, 1 } }, NULL, 16384, "whole" },
        { { "tcp", 2, { 1, 1 } }, NULL, 16385, "direct" },
        { { "tcp", 2, { 1, 1 } }, tcp, 100, "whole" },
        { { "tcp", 2, { 1, 1 } }, tcp, 101, "direct" },
        { { "tcp", 4, { 2, 2 } }, "all_reduce=hierarchical", 101, "hierarchical" },
        { { "tcp", 4, { 2, 2 } }, "all_reduce=direct", 101, "direct" },
        { { "shm", 2, { 0 } }, shm, 5000, "slots" },
        { { "shm", 2, { 0 } }, shm, 5001, "in_place" },
        { { "shm", 2, { 0 } }, none, 1, "in_place" },
    };
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++)
        ck_assert_msg(cs_spawn(trials[i].on.ranks, run_size, &trials[i]) == CS_OK, "trial %zu: %s", i, cs_error());
}
END_TEST

/* ---- mistakes --------------------------------------------------------------------------------- */

START_TEST(a_wrong_list_is_refused_by_name)
{
    static const struct {
        const char *list, *says;
    } wrong[] = {
        { "all_reduce", "\"all_reduce\" is not NAME=VALUE" },
        { "all_reduce=rong",
          "all_reduce=rong: its algorithms are auto, whole, direct, ring, halving, mpi and hierarchical" },
        { "all_gather=halving", "all_gather=halving: its algorithms are auto, direct, ring, doubling" },
        { "gather=ring", "\"gather\" is neither all_reduce" },
        { "shm.slot=4", "shm.slot: it is TRANSPORT.SIZE" },
        { "pigeon.slots=4", "pigeon.slots: it is TRANSPORT.SIZE" },
        { "tcp.slots=4", "tcp.slots: the transport tcp has no such switch" },
        { "shm.slots=4k", "shm.slots=4k: a number of bytes" },
        { "shm.slots=-4", "a number of bytes" },
        { "reduce_scatter=mpi", "reduce_scatter=mpi: its algorithms are auto, direct, ring, halving and" },
        { "all_gather=mpi", "all_gather=mpi: only the transport mpi has it, and this is the transport self" },
        { "all_reduce=hierarchical", "all_reduce=hierarchical: the transport self does not have it" },
    };
    cs_world world = { .size = 1, .local_size = 1 };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cs_comm *comm;
        cs_comm_settings settings = { .kind = "auto", .algorithms = wrong[i].list };
        ck_assert_int_eq(cs_comm_open(&comm, &world, &settings), CS_BAD_CONFIG);
        ck_assert_ptr_null(comm);
        ck_assert_msg(strstr(cs_error(), wrong[i].says), "\"%s\": %s", wrong[i].list, cs_error());
    }
}
END_TEST

typedef struct {
    layout on;
    const char *list, *list_of_rank_1, *says;
} discord;

static int run_apart(void *argument)
{
    const discord *d = argument;
    cs_world world;
    cs_comm *comm = NULL;
    SHOULD(cs_world_read(&world));
    cs_status status = layout_open_by(&comm, &d->on, world.rank == 1 ? d->list_of_rank_1 : d->list, false, 1 << 20);
    EXPECT(status == CS_DISAGREE, "lists that differ opened: status %d, %s", (int)status, cs_error());
    EXPECT(strstr(cs_error(), d->says), "lists that differ: %s", cs_error());
    return 0;
}

START_TEST(lists_that_differ_are_named)
{
    static const char ring[] = "all_reduce is \"ring\" on rank 0 and \"auto\" on rank 1";
    discord discords[] = {
        { { "shm", 3, { 0 } }, "all_reduce=ring", NULL, ring },
        { { "tcp", 3, { 0 } }, "all_reduce=ring", NULL, ring },
        { { "shm", 3, { 0 } }, "shm.slots=1", "shm.slots=2", "rank 0 and rank 1 give shm.slots different values" },
        { { "tcp", 3, { 0 } }, "", "tcp.reduce_whole=0", "rank 0 and rank 1 give tcp.reduce_whole different values" },
    };
    for (size_t i = 0; i < sizeof discords / sizeof *discords; i++)
        ck_assert_msg(cs_spawn(3, run_apart, &discords[i]) == CS_OK, "trial %zu: %s", i, cs_error());
}
END_TEST

int main(int words, char **word)
{
    const TTest *const tests[] = {
        each_algorithm_is_the_model_in_shared_memory,
        each_algorithm_is_the_model_over_tcp,
        groups_have_the_algorithms_of_their_parent,
        a_list_moves_the_switches,
        a_wrong_list_is_refused_by_name,
        lists_that_differ_are_named,
    };
    if (words > 1 && strcmp(word[1], "mpi") == 0) {
        int failed = run_by_mpi();
        if (failed)
            fprintf(stderr, "%s\n", cs_error());
        return failed;
    }
    return suite_run("algorithms", tests, (int)(sizeof tests / sizeof *tests));
}
