/* test_nccl.c - collectives on the memory of CUDA devices: through the host if ranks share a device, with NCCL if each
 * rank has its own. The emulated module has as many devices as a test needs; on a real machine with fewer devices fewer
 * ranks run over NCCL. test_nccl_lost.c is about lost ranks. */
#include "gpu_ranks.h"
#include "comm/comms_logger.h"
#include "cspeed/ops.h"
#include "near.h"
#include "suite.h"
#include "sums.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_RANKS = 5 };

/* Runs the function in `ranks` ranks that share a device. */
static void by_host(int (*rank)(void *kind), int ranks, const char *name)
{
    char kind[8];
    snprintf(kind, sizeof kind, "%s", name);
    if (near_gpus("ranks that share a device", 1))
        ck_assert_msg(cs_spawn(ranks, rank, kind) == CS_OK, "%d ranks over %s: %s", ranks, kind, cs_error());
}

/* Runs the function in `ranks` ranks over NCCL. Returns false if the test is skipped, because there are fewer GPUs. */
static bool by_nccl(int (*rank)(void *kind), int ranks)
{
    char kind[] = "nccl", test[32];
    snprintf(test, sizeof test, "%d ranks over NCCL", ranks);
    bool runs = near_gpus(test, ranks);
    ck_assert_msg(!runs || cs_spawn(ranks, rank, kind) == CS_OK, "%s: %s", test, cs_error());
    return runs;
}

/* As by_nccl; if there are fewer GPUs, runs the function in one rank. */
static void by_nccl_or_alone(int (*rank)(void *kind), int ranks)
{
    if (!by_nccl(rank, ranks))
        by_nccl(rank, 1);
}

/* ---- collectives ------------------------------------------------------------------------------ */

static int each_collective(void *kind)
{
    gpu_rank state;
    SHOULD(gpu_rank_open_here(&state, kind));
    sums_far(state.device);
    if (strcmp(cs_comm_kind(state.comm), "nccl") == 0)
        sums_loosely();
    EXPECT((strcmp(cs_comm_kind(state.comm), "nccl") == 0) == (strcmp(kind, "nccl") == 0), "it is \"%s\"",
           cs_comm_kind(state.comm));
    int failed = sums_try_each(state.comm, cs_comm_size(state.comm) == 2 ? 257 : 31);
    gpu_rank_close(&state);
    return failed;
}

START_TEST(ranks_that_share_a_device_go_through_the_host)
{
    for (int ranks = 2; ranks <= MAX_RANKS; ranks++)
        by_host(each_collective, ranks, ranks % 2 ? "tcp" : "shm");
}
END_TEST

START_TEST(ranks_of_their_own_devices_go_by_nccl)
{
    for (int ranks = 1; ranks <= MAX_RANKS && by_nccl(each_collective, ranks);)
        ranks++;
}
END_TEST

static int expect_kind(void *wanted)
{
    gpu_rank state;
    SHOULD(gpu_rank_open_here(&state, "auto"));
    EXPECT(strcmp(cs_comm_kind(state.comm), wanted) == 0, "it is \"%s\"", cs_comm_kind(state.comm));
    int failed = cs_comm_size(state.comm) == 1 && (sums_far(state.device), sums_try_each(state.comm, 31));
    gpu_rank_close(&state);
    return failed;
}

START_TEST(auto_takes_nccl_where_it_can)
{
    char self[] = "self", shm[] = "shm", nccl[] = "nccl";
    int gpus = near_gpus("auto", 1), more = near_gpus("auto on two GPUs", 2);
    if (!gpus)
        return;
    ck_assert_msg(cs_spawn(1, expect_kind, self) == CS_OK, "%s", cs_error());
    ck_assert_msg(!more || cs_spawn(2, expect_kind, nccl) == CS_OK, "%s", cs_error());
    ck_assert_msg(cs_spawn((more ? more : gpus) + 1, expect_kind, shm) == CS_OK, "%s", cs_error());
}
END_TEST

static int be_refused(void *sentence)
{
    gpu_rank state;
    EXPECT(gpu_rank_open_here(&state, "nccl") == CS_BAD_CONFIG, "it was opened");
    EXPECT(strstr(cs_error(), sentence), "\"%s\"", cs_error());
    ce_device_close(state.device);
    return 0;
}

START_TEST(nccl_refuses_a_shared_device)
{
    char sentence[64];
    int gpus = near_gpus("a shared device", 1);
    if (!gpus)
        return;
    if (near_counts())
        gpus = near_gpus("a shared device", 2);
    snprintf(sentence, sizeof sentence, "ranks 0 and %d use the same GPU (", gpus);
    ck_assert_msg(cs_spawn(gpus + 1, be_refused, sentence) == CS_OK, "%s", cs_error());
}
END_TEST

/* Only events order the collective relative to the computations before and after it. */
static int compute_around(void *kind)
{
    gpu_rank state;
    SHOULD(gpu_rank_open_here(&state, kind));
    enum { COUNT = 1000 };
    float got[COUNT];
    int size = cs_comm_size(state.comm);
    cs_stream *compute = ce_device_stream(state.device, CE_COMPUTE), *comm = ce_device_stream(state.device, CE_COMM);
    cs_tensor all = cs_vector(cs_comm_alloc(state.comm, sizeof got), CS_F32, COUNT);
    cs_tensor twice = cs_vector(ce_device_alloc(state.device, sizeof got), CS_F32, COUNT);
    for (int round = 1; round <= 3; round++) {
        cs_op_fill(compute, all, (float)(round * (1 + cs_comm_rank(state.comm))));
        ce_stream_follow(comm, compute);
        cs_comm_all_reduce(state.comm, all.data, COUNT, CS_F32, CS_SUM);
        ce_stream_follow(compute, comm);
        cs_op_add(compute, twice, all, all);
        ce_stream_fetch(compute, got, twice.data, sizeof got);
        for (int i = 0; i < COUNT; i++)
            EXPECT((int)got[i] == round * size * (size + 1), "round %d: element %d is %g", round, i, (double)got[i]);
    }
    gpu_rank_close(&state);
    return 0;
}

START_TEST(events_order_computing_and_collectives)
{
    by_host(compute_around, 3, "shm");
    by_nccl_or_alone(compute_around, 3);
}
END_TEST

static int pass_messages(void *kind)
{
    static const size_t lengths[] = { 0, 1, 65537, 300001 };
    gpu_rank state;
    char held[300001];
    SHOULD(gpu_rank_open_here(&state, kind));
    int rank = cs_comm_rank(state.comm), size = cs_comm_size(state.comm);
    cs_stream *stream = ce_device_stream(state.device, CE_COMM);
    char *data = cs_comm_alloc(state.comm, sizeof held);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        sums_fill(held, (int64_t)lengths[i], 0, 0, (int)i, CS_U8);
        if (rank == 0)
            ce_stream_copy(stream, data, held, lengths[i]);
        else
            cs_comm_receive(state.comm, data, lengths[i], rank - 1);
        if (rank + 1 < size)
            cs_comm_send(state.comm, data, lengths[i], rank + 1);
        ce_stream_fetch(stream, held, data, lengths[i]);
        if (sums_expect_values(held, (int64_t)lengths[i], 0, 0, (int)i, CS_U8, "message"))
            return 1;
    }
    gpu_rank_close(&state);
    return 0;
}

START_TEST(messages_arrive)
{
    by_host(pass_messages, 2, "shm");
    by_nccl(pass_messages, 3);
}
END_TEST

static int count_traffic(void *kind)
{
    gpu_rank state;
    SHOULD(gpu_rank_open_here(&state, kind));
    uint64_t others = (uint64_t)cs_comm_size(state.comm) - 1;
    float *all = cs_comm_alloc(state.comm, 3 * 120), *part = cs_comm_alloc(state.comm, 120), loss = 1;
    cs_comm_reduce_scatter(state.comm, part, all, 30, CS_F32, CS_SUM);
    cs_comm_all_gather(state.comm, all, part, 30, CS_F32);
    cs_comm_all_reduce(state.comm, &loss, 1, CS_F32, CS_SUM); /* `loss` is in host memory */
    cs_comm_traffic traffic = cs_comm_counters(state.comm);
    EXPECT((int)loss == cs_comm_size(state.comm), "a sum of ones is %g", (double)loss);
    EXPECT(traffic.calls == 3, "%d calls", (int)traffic.calls);
    EXPECT(traffic.bytes == 2 * others * 120 + 2 * others * 4 / (others + 1), "%d bytes", (int)traffic.bytes);
    gpu_rank_close(&state);
    return 0;
}

START_TEST(traffic_is_counted)
{
    by_host(count_traffic, 2, "shm");
    by_nccl_or_alone(count_traffic, 3);
}
END_TEST

/* ---- the cost of a call for the caller ---- */

static _Thread_local int naps, threads;

/* These functions count the sleeps and threads of the module. They take the place of the libc functions with the same
 * names, because the dynamic linker finds functions of the program first. */
int nanosleep(const struct timespec *duration, struct timespec *left)
{
    naps++;
    return clock_nanosleep(CLOCK_REALTIME, 0, duration, left) ? -1 : 0;
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    threads++;
    return real(thread, attributes, run, argument);
}

static int call_often(void *kind)
{
    gpu_rank state;
    SHOULD(gpu_rank_open_here(&state, kind));
    float *data = cs_comm_alloc(state.comm, 4000);
    cs_comm_all_reduce(state.comm, data, 1000, CS_F32, CS_SUM);
    naps = threads = 0;
    for (int i = 0; i < 100; i++)
        cs_comm_all_reduce(state.comm, data, 1000, CS_F32, CS_SUM);
    EXPECT(naps == 0 && threads == 0, "%d sleeps and %d threads in 100 calls", naps, threads);
    EXPECT(nanosleep(&(struct timespec){ 0 }, NULL) == 0 && naps > 0, "sleeps are not counted");
    gpu_rank_close(&state);
    return 0;
}

/* A call that takes 50 us must not sleep, because a sleep would last a millisecond, and must not start a thread. */
START_TEST(a_call_is_not_slept_for)
{
    setenv("CSPEED_EMULATOR_NCCL_MICROSECONDS", "50", 1);
    by_nccl_or_alone(call_often, 2);
    unsetenv("CSPEED_EMULATOR_NCCL_MICROSECONDS");
}
END_TEST

static int come_late(void *kind)
{
    gpu_rank state;
    SHOULD(gpu_rank_open_here(&state, kind));
    float *data = cs_comm_alloc(state.comm, 4000);
    ce_comm_record(state.comm, &(ce_comms_logger_settings){ .enabled = true, .operations = UINT32_MAX });
    cs_comm_all_reduce(state.comm, data, 1000, CS_F32, CS_SUM); /* the first collective connects the ranks */
    double before = cs_comm_counters(state.comm).seconds;
    if (cs_comm_rank(state.comm) == 1)
        nanosleep(&(struct timespec){ .tv_nsec = 300000000 }, NULL);
    cs_comm_all_reduce(state.comm, data, 1000, CS_F32, CS_SUM);
    double took = cs_comm_counters(state.comm).seconds - before;
    EXPECT(cs_comm_rank(state.comm) == 1 || took > 0.25, "it took %g s to wait for a rank that was 0.3 s late", took);
    gpu_rank_close(&state);
    return 0;
}

START_TEST(recorded_times_are_those_of_the_collective)
{
    by_nccl(come_late, 2);
}
END_TEST

SUITE_MAIN_APART("nccl", ranks_that_share_a_device_go_through_the_host, ranks_of_their_own_devices_go_by_nccl,
                 auto_takes_nccl_where_it_can, nccl_refuses_a_shared_device, events_order_computing_and_collectives,
                 messages_arrive, traffic_is_counted, a_call_is_not_slept_for,
                 recorded_times_are_those_of_the_collective)
