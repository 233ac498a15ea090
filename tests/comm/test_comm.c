/* test_comm.c - collectives compared with a plain summation tree, in worlds of 1 to 7 ranks; barriers,
 * messages, memory and closing. test_comm_lost.c is about lost ranks. */
#include "base/half.h"
#include "cspeed/comm.h"
#include "comm/collective/reduction.h"
#include "sums.h"

#include <check.h>
#include <dirent.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { HEAP = 256 << 20, LARGE = (1 << 20) + 3, MAX_RANKS = SUMS_RANKS };

static cs_status open_world(cs_comm **comm, const char *kind)
{
    cs_world world;
    CE_TRY(cs_world_read(&world));
    return cs_comm_open(comm, &world, &(cs_comm_settings){ .kind = kind, .heap_bytes = HEAP, .timeout_seconds = 60 });
}

static int each_collective(void *argument)
{
    const char *kind = argument;
    cs_comm *comm = NULL;
    SHOULD(open_world(&comm, kind));
    int failed = sums_try_each(comm, 10007);
    cs_comm_close(comm);
    return failed;
}

START_TEST(collectives_are_the_tree)
{
    static const int sizes[] = { 1, 1, 2, 3, 4, 5, 7 };
    char kind[] = "auto", shm[] = "shm";
    ck_assert_msg(cs_spawn(sizes[_i], each_collective, _i ? kind : shm) == CS_OK, "%s", cs_error());
}
END_TEST

static int large_collectives(void *argument)
{
    (void)argument;
    cs_comm *comm = NULL;
    SHOULD(open_world(&comm, "shm"));
    int size = cs_comm_size(comm), failed = 0;
    size_t capacity = (size_t)size * LARGE * 4;
    char *lone = malloc(2 * capacity);
    sums_place all[] = { { "in place", cs_comm_alloc(comm, capacity), cs_comm_alloc(comm, capacity) },
                         { "staged", lone, lone + capacity } };
    EXPECT(lone, "no memory");
    for (int p = 0; p < 2 && !failed; p++)
        failed = sums_try(comm, all[p], LARGE, 11, CS_F32, CS_SUM) ||
                 (size == 2 && sums_try(comm, all[p], LARGE, 13, CS_BF16, CS_SUM)) ||
                 sums_try_copies(comm, all[p], LARGE, 17, CS_I32);
    free(lone);
    cs_comm_close(comm);
    return failed;
}

START_TEST(large_vectors_are_the_tree)
{
    ck_assert_msg(cs_spawn(_i, large_collectives, NULL) == CS_OK, "%s", cs_error());
}
END_TEST

/* The ranks pass different kinds of memory to one call; the result is the same on all ranks. */
static int disagreeing_places(void *argument)
{
    (void)argument;
    cs_comm *comm = NULL;
    SHOULD(open_world(&comm, "shm"));
    enum { COUNT = 70001 };
    int rank = cs_comm_rank(comm), size = cs_comm_size(comm);
    size_t capacity = (size_t)size * COUNT * sizeof(float);
    char *lone = malloc(2 * capacity);
    char *big = cs_comm_alloc(comm, capacity), *small = cs_comm_alloc(comm, capacity);
    EXPECT(lone, "no memory");
    int failed = 0;
    for (int odd = 0; odd <= size && !failed; odd++) {
        sums_place where = { "disagreeing", rank == odd ? lone : big, rank == odd ? lone + capacity : small };
        failed = sums_try(comm, where, COUNT, odd, CS_F32, CS_SUM) || sums_try_copies(comm, where, COUNT, odd, CS_F32);
        sums_place cross = { "crosswise", rank == odd ? small : big, rank == odd ? big : small };
        failed = failed || sums_try(comm, cross, COUNT, odd + 50, CS_F32, CS_SUM) ||
                 sums_try_copies(comm, cross, COUNT, odd + 50, CS_F32);
    }
    free(lone);
    cs_comm_close(comm);
    return failed;
}

START_TEST(buffers_may_be_at_different_offsets)
{
    ck_assert_msg(cs_spawn(3, disagreeing_places, NULL) == CS_OK, "%s", cs_error());
}
END_TEST

START_TEST(minimum_and_maximum_keep_nan)
{
    float a[3] = { NAN, 1, 2 }, b[3] = { 1, NAN, 2 }, c[3] = { 1, 1, NAN }, out[3];
    const void *inputs[] = { a, b, c };
    for (int op = CS_SUM; op <= CS_MAX; op++)
        for (int ranks = 2; ranks <= 3; ranks++) {
            ce_reduce((void *[]){ out }, 1, inputs, ranks, 3, CS_F32, (cs_reduce_op)op);
            for (int i = 0; i < ranks; i++)
                ck_assert_msg(isnan(out[i]), "op %d, %d ranks, element %d: %g", op, ranks, i, (double)out[i]);
        }
}
END_TEST

/* Adds two 16-bit numbers, of which the first takes every bit pattern, and compares the sum with the fp32 sum as half.h
 * rounds it. */
START_TEST(sums_of_16_bits_are_rounded_once)
{
    static const cs_dtype dtypes[] = { CS_BF16, CS_F16 };
    for (int d = 0; d < 2; d++)
        for (int low = 0; low < 0x10000; low += 8) {
            uint16_t a[8], b[8], out[8];
            for (int i = 0; i < 8; i++) {
                a[i] = (uint16_t)(low + i);
                b[i] = (uint16_t)((unsigned)(low + i) * 40503u >> 3);
            }
            ce_reduce((void *[]){ out }, 1, (const void *[]){ a, b }, 2, 8, dtypes[d], CS_SUM);
            for (int i = 0; i < 8; i++) {
                float sum = sums_get(a, i, dtypes[d]).real + sums_get(b, i, dtypes[d]).real;
                uint16_t should = dtypes[d] == CS_BF16 ? ce_float_to_bf16(sum) : ce_float_to_f16(sum);
                ck_assert_msg(isnan(sum) ? isnan(sums_get(out, i, dtypes[d]).real) : out[i] == should,
                              "%s: %04x + %04x is %04x", d ? "f16" : "bf16", a[i], b[i], out[i]);
            }
        }
}
END_TEST

/* ---- waiting, messages ------------------------------------------------------------------------ */

static _Atomic int *shared_counter(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(page, MAP_FAILED);
    return page;
}

static int count_at_barriers(void *argument)
{
    _Atomic int *counter = argument;
    cs_comm *comm = NULL;
    SHOULD(open_world(&comm, "shm"));
    int rank = cs_comm_rank(comm), size = cs_comm_size(comm);
    for (int round = 1; round <= 300; round++) {
        if (round % 100 == rank) /* now and then one rank is late, so that the others sleep while they wait */
            nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
        atomic_fetch_add(counter, 1);
        cs_comm_barrier(comm);
        int seen = atomic_load(counter);
        EXPECT(seen >= round * size, "round %d: %d of %d had come when the barrier opened", round, seen, round * size);
        cs_comm_barrier(comm);
    }
    cs_comm_close(comm);
    return 0;
}

START_TEST(barrier_waits_for_all)
{
    _Atomic int *counter = shared_counter();
    ck_assert_msg(cs_spawn(_i, count_at_barriers, counter) == CS_OK, "%s", cs_error());
    munmap(counter, 4096);
}
END_TEST

static int pass_messages(void *argument)
{
    static const size_t lengths[] = { 0, 1, 7, 65535, 65536, 65537, 0, 131072, 3000001 };
    (void)argument;
    cs_comm *comm = NULL;
    SHOULD(open_world(&comm, "shm"));
    int rank = cs_comm_rank(comm), size = cs_comm_size(comm), next = (rank + 1) % size, last = (rank + size - 1) % size;
    char *data = malloc(3000001), *got = malloc(3000001);
    EXPECT(data && got, "no memory");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t bytes = lengths[i];
        sums_fill(data, (int64_t)bytes, 0, rank, (int)i, CS_U8);
        if (rank == 0)
            cs_comm_send(comm, data, bytes, next);
        cs_comm_receive(comm, got, bytes, last);
        if (sums_expect_values(got, (int64_t)bytes, 0, last, (int)i, CS_U8, "message"))
            return 1;
        if (rank != 0)
            cs_comm_send(comm, data, bytes, next);
    }
    for (int i = 0; i < 1000; i++) { /* ranks 0 and 1 exchange messages, which must arrive in order */
        int mine = i * size + rank, others = -1;
        if (rank == 0)
            cs_comm_send(comm, &mine, sizeof mine, 1);
        if (rank < 2)
            cs_comm_receive(comm, &others, sizeof others, 1 - rank);
        if (rank == 1)
            cs_comm_send(comm, &mine, sizeof mine, 0);
        EXPECT(rank >= 2 || others == i * size + 1 - rank, "message %d brought %d", i, others);
    }
    free(data);
    free(got);
    cs_comm_close(comm);
    return 0;
}

START_TEST(messages_arrive_in_order)
{
    ck_assert_msg(cs_spawn(_i, pass_messages, NULL) == CS_OK, "%s", cs_error());
}
END_TEST

static int count_traffic(void *argument)
{
    (void)argument;
    cs_comm *comm = NULL;
    SHOULD(open_world(&comm, "auto"));
    uint64_t others = (uint64_t)cs_comm_size(comm) - 1;
    float data[4 * 30], part[30];
    sums_fill(data, 4 * 30, 0, 0, 0, CS_F32);
    cs_comm_reduce_scatter(comm, part, data, 30, CS_F32, CS_SUM);
    cs_comm_all_gather(comm, data, part, 30, CS_F32);
    cs_comm_traffic traffic = cs_comm_counters(comm);
    EXPECT(traffic.calls == 2, "%d calls", (int)traffic.calls);
    EXPECT(traffic.bytes == 2 * others * 30 * 4, "%d bytes", (int)traffic.bytes);
    EXPECT(traffic.seconds > 0, "%g s", traffic.seconds);
    cs_comm_close(comm);
    return 0;
}

START_TEST(traffic_is_counted)
{
    ck_assert_msg(cs_spawn(_i, count_traffic, NULL) == CS_OK, "%s", cs_error());
}
END_TEST

static int allocate(void *argument)
{
    (void)argument;
    cs_comm *comm = NULL;
    SHOULD(open_world(&comm, "auto"));
    char *a = cs_comm_alloc(comm, 1), *b = cs_comm_alloc(comm, 5000), *c = cs_comm_alloc(comm, 4096);
    EXPECT(((uintptr_t)a | (uintptr_t)b | (uintptr_t)c) % 4096 == 0, "not aligned");
    EXPECT(b >= a + 1 && c >= b + 5000, "overlapping");
    for (int i = 0; i < 5000; i++)
        EXPECT(b[i] == 0, "not zeroed");
    cs_comm_close(comm);
    SHOULD(open_world(&comm, "auto"));
    cs_comm_close(comm);
    return 0;
}

START_TEST(heap_is_zeroed_and_aligned)
{
    ck_assert_msg(cs_spawn(_i, allocate, NULL) == CS_OK, "%s", cs_error());
}
END_TEST

static int take_too_much(void *argument)
{
    (void)argument;
    cs_comm *comm = NULL;
    SHOULD(open_world(&comm, "auto"));
    cs_comm_alloc(comm, HEAP);
    cs_comm_alloc(comm, (size_t)4 << 30);
    return 0;
}

START_TEST(an_exhausted_heap_is_a_fatal_error)
{
    ck_assert_int_ne(cs_spawn(_i, take_too_much, NULL), CS_OK);
    ck_assert_msg(strstr(cs_error(), "ended with code 1") != NULL, "%s", cs_error());
}
END_TEST

static int count_open(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (directory && readdir(directory))
        count++;
    if (directory)
        closedir(directory);
    return count;
}

static int open_and_close(void *argument)
{
    (void)argument;
    int before = count_open();
    for (int i = 0; i < 50; i++) {
        cs_comm *comm = NULL;
        float one = 1;
        SHOULD(open_world(&comm, "shm"));
        cs_comm_all_reduce(comm, &one, 1, CS_F32, CS_SUM);
        EXPECT(one == (float)cs_comm_size(comm), "round %d: the sum is %g", i, (double)one);
        cs_comm_close(comm);
        EXPECT(count_open() == before, "round %d: %d descriptors, not %d", i, count_open(), before);
    }
    return 0;
}

START_TEST(closing_leaves_no_descriptor_open)
{
    ck_assert_msg(cs_spawn(3, open_and_close, NULL) == CS_OK, "%s", cs_error());
}
END_TEST

START_TEST(unfit_kinds_are_refused)
{
    cs_comm *comm = NULL;
    cs_world two = { .size = 2, .local_size = 1, .port = 29500 };
    ck_assert_int_eq(cs_comm_open(&comm, &two, &(cs_comm_settings){ .kind = "auto" }), CS_BAD_CONFIG);
    /* the message names MASTER_ADDR and MASTER_PORT */
    ck_assert_msg(strstr(cs_error(), "set both for all ranks") != NULL, "%s", cs_error());
    ck_assert_int_eq(cs_comm_open(&comm, &two, &(cs_comm_settings){ .kind = "shm" }), CS_BAD_CONFIG);
    ck_assert_int_eq(cs_comm_open(&comm, &two, &(cs_comm_settings){ .kind = "self" }), CS_BAD_CONFIG);
    ck_assert_int_eq(cs_comm_open(&comm, &two, &(cs_comm_settings){ .kind = "pigeon" }), CS_BAD_CONFIG);
    ck_assert_ptr_null(comm);
    ck_assert_msg(strstr(cs_error(), "pigeon") != NULL, "%s", cs_error());
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("comm");
    TCase *tests = tcase_create("comm");
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, collectives_are_the_tree, 0, 7);
    tcase_add_loop_test(tests, large_vectors_are_the_tree, 2, 5);
    tcase_add_test(tests, buffers_may_be_at_different_offsets);
    tcase_add_test(tests, minimum_and_maximum_keep_nan);
    tcase_add_test(tests, sums_of_16_bits_are_rounded_once);
    tcase_add_loop_test(tests, barrier_waits_for_all, 2, 6);
    tcase_add_loop_test(tests, messages_arrive_in_order, 2, 5);
    tcase_add_loop_test(tests, traffic_is_counted, 1, 5);
    tcase_add_loop_test(tests, heap_is_zeroed_and_aligned, 1, 3);
    tcase_add_loop_test(tests, an_exhausted_heap_is_a_fatal_error, 1, 3);
    tcase_add_test(tests, closing_leaves_no_descriptor_open);
    tcase_add_test(tests, unfit_kinds_are_refused);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
