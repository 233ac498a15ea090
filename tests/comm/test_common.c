/* test_common.c - memory that is common to the ranks of one host, and a reduce_scatter that adds its result to a
 * vector. */
#include "comm/common.h"
#include "suite.h"
#include "sums.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { HEAP = 64 << 20, COUNT = 5000 };

static cs_status open_world(cs_comm **comm, const char *kind)
{
    cs_world world;
    CE_TRY(cs_world_read(&world));
    return cs_comm_open(comm, &world, &(cs_comm_settings){ .kind = kind, .heap_bytes = HEAP, .timeout_seconds = 60 });
}

/* Each rank writes its part of the common memory; after a barrier each rank reads all parts. The allocations before and
 * after the common memory belong to one rank each. */
static int share(void *argument)
{
    (void)argument;
    cs_comm *comm = NULL;
    SHOULD(open_world(&comm, "auto"));
    int rank = cs_comm_rank(comm), size = cs_comm_size(comm);
    int32_t *before = cs_comm_alloc(comm, sizeof *before);
    int32_t *common = ce_comm_alloc_common(comm, (size_t)size * COUNT * sizeof *common);
    int32_t *after = cs_comm_alloc(comm, sizeof *after);
    EXPECT((uintptr_t)common % 4096 == 0, "not aligned");
    for (int i = 0; i < size * COUNT; i++)
        EXPECT(common[i] == 0, "element %d is not zero", i);
    cs_comm_barrier(comm);
    *before = *after = -1 - rank;
    for (int i = 0; i < COUNT; i++)
        common[rank * COUNT + i] = rank * COUNT + i + 1;
    cs_comm_barrier(comm);
    for (int i = 0; i < size * COUNT; i++)
        EXPECT(common[i] == i + 1, "element %d is %d", i, common[i]);
    EXPECT(*before == -1 - rank && *after == -1 - rank, "memory of a rank was written: %d, %d", *before, *after);
    cs_comm_close(comm);
    return 0;
}

START_TEST(every_rank_reads_what_each_wrote)
{
    for (int world = 1; world <= 4; world++)
        ck_assert_msg(cs_spawn(world, share, NULL) == CS_OK, "%s", cs_error());
}
END_TEST

/* Checks that ce_comm_reduce_scatter_add gives the same bits as a reduce_scatter and an addition, for counts below, at
 * and above the size of its blocks. */
static int add(void *argument)
{
    (void)argument;
    static const int64_t counts[] = { 1, 64, 2048, 2049, 10000 };
    cs_comm *comm = NULL;
    SHOULD(open_world(&comm, "auto"));
    int rank = cs_comm_rank(comm), size = cs_comm_size(comm);
    float *in = cs_comm_alloc(comm, (size_t)size * 10000 * sizeof *in), part[10000], sum[10000];
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int64_t count = counts[i];
        sums_fill(in, size * count, 0, rank, 0, CS_F32);
        for (int64_t at = 0; at < count; at++)
            sum[at] = 0.37f * (float)(at % 101);
        float *wanted = malloc((size_t)count * sizeof *wanted);
        cs_comm_reduce_scatter(comm, part, in, count, CS_F32, CS_SUM);
        for (int64_t at = 0; at < count; at++)
            wanted[at] = sum[at] + part[at];
        bool done = ce_comm_reduce_scatter_add(comm, sum, in, count);
        EXPECT(done == (size > 1), "with %d ranks it %s", size, done ? "was done" : "was not done");
        EXPECT(!done || memcmp(sum, wanted, (size_t)count * sizeof *sum) == 0, "%d elements differ", (int)count);
        free(wanted);
    }
    cs_comm_close(comm);
    return 0;
}

START_TEST(adding_has_the_bits_of_two_steps)
{
    for (int world = 1; world <= 4; world++)
        ck_assert_msg(cs_spawn(world, add, NULL) == CS_OK, "%s", cs_error());
}
END_TEST

START_TEST(only_one_host_has_common_memory)
{
    cs_world one = { .size = 4, .local_size = 4 }, two = { .size = 4, .local_size = 2 };
    cs_world alone = { .size = 1, .local_size = 1 };
    ck_assert(ce_comm_has_common(&one, NULL));
    ck_assert(ce_comm_has_common(&one, "auto"));
    ck_assert(ce_comm_has_common(&one, "shm"));
    ck_assert(!ce_comm_has_common(&one, "tcp"));
    ck_assert(!ce_comm_has_common(&two, "auto"));
    ck_assert(!ce_comm_has_common(&two, "shm"));
    ck_assert(ce_comm_has_common(&alone, "auto"));
}
END_TEST

SUITE_MAIN("common", every_rank_reads_what_each_wrote, adding_has_the_bits_of_two_steps,
           only_one_host_has_common_memory)
