/* test_nccl.c - collectives on the memory of CUDA devices with the emulated module: through the host if ranks share a
 * device, with NCCL if each rank has its own; lost ranks, and waiting for ranks that never call. */
#include "near.h"
#include "base/clock.h"
#include "base/log.h"
#include "comm/comms_logger.h"
#include "cspeed/ops.h"
#include "suite.h"
#include "sums.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_RANKS = 5, LONGEST_SECONDS = 60 };

/* The ranks have one device each, or share one device. */
static bool is_emulated(const char *devices)
{
    setenv("CSPEED_EMULATOR_DEVICES", devices, 1);
    return near_emulated("nccl");
}

typedef struct {
    cs_device *device;
    cs_comm *comm;
} rank_state;

static cs_status open_rank(rank_state *state, const cs_world *world, const char *kind, double seconds)
{
    CS_TRY(ce_device_open(&state->device, &(ce_device_settings){ .kind = "cuda", .local_rank = world->local_rank }));
    return cs_comm_open(&state->comm, world,
                        &(cs_comm_settings){ .kind = kind, .timeout_seconds = seconds, .device = state->device });
}

static cs_status open_here(rank_state *state, const char *kind)
{
    cs_world world;
    CS_TRY(cs_world_read(&world));
    return open_rank(state, &world, kind, LONGEST_SECONDS);
}

static void close_rank(rank_state *state)
{
    cs_comm_close(state->comm);
    ce_device_close(state->device);
}

/* ---- collectives ------------------------------------------------------------------------------ */

static int each_collective(void *kind)
{
    rank_state state;
    SHOULD(open_here(&state, kind));
    sums_far(state.device);
    if (strcmp(cs_comm_kind(state.comm), "nccl") == 0)
        sums_loosely();
    EXPECT((strcmp(cs_comm_kind(state.comm), "nccl") == 0) == (strcmp(kind, "nccl") == 0), "it is \"%s\"",
           cs_comm_kind(state.comm));
    int failed = sums_try_each(state.comm, cs_comm_size(state.comm) == 2 ? 257 : 31);
    close_rank(&state);
    return failed;
}

START_TEST(ranks_that_share_a_device_go_through_the_host)
{
    char kinds[2][5] = { "shm", "tcp" };
    if (!is_emulated("1"))
        return;
    for (int ranks = 2; ranks <= MOST_RANKS; ranks++)
        ck_assert_msg(cs_spawn(ranks, each_collective, kinds[ranks % 2]) == CS_OK, "%d ranks: %s", ranks, cs_error());
}
END_TEST

START_TEST(ranks_of_their_own_devices_go_by_nccl)
{
    char kind[] = "nccl";
    if (!is_emulated("5"))
        return;
    for (int ranks = 1; ranks <= MOST_RANKS; ranks++)
        ck_assert_msg(cs_spawn(ranks, each_collective, kind) == CS_OK, "%d ranks: %s", ranks, cs_error());
}
END_TEST

static int expect_kind(void *wanted)
{
    rank_state state;
    SHOULD(open_here(&state, "auto"));
    EXPECT(strcmp(cs_comm_kind(state.comm), wanted) == 0, "it is \"%s\"", cs_comm_kind(state.comm));
    int failed = cs_comm_size(state.comm) == 1 && (sums_far(state.device), sums_try_each(state.comm, 31));
    close_rank(&state);
    return failed;
}

START_TEST(auto_takes_nccl_where_it_can)
{
    char self[] = "self", shm[] = "shm", nccl[] = "nccl";
    if (!is_emulated("2"))
        return;
    ck_assert_msg(cs_spawn(1, expect_kind, self) == CS_OK, "%s", cs_error());
    ck_assert_msg(cs_spawn(2, expect_kind, nccl) == CS_OK, "%s", cs_error());
    ck_assert_msg(cs_spawn(3, expect_kind, shm) == CS_OK, "%s", cs_error());
}
END_TEST

static int be_refused(void *sentence)
{
    rank_state state;
    EXPECT(open_here(&state, "nccl") == CS_BAD_CONFIG, "it was opened");
    EXPECT(strstr(cs_error(), sentence), "\"%s\"", cs_error());
    ce_device_close(state.device);
    return 0;
}

START_TEST(nccl_refuses_a_shared_device)
{
    char sentence[] = "ranks 0 and 2 share a GPU (0000:00:00.0";
    if (!is_emulated("2"))
        return;
    ck_assert_msg(cs_spawn(3, be_refused, sentence) == CS_OK, "%s", cs_error());
}
END_TEST

/* Only events order the collective relative to the computations before and after it. */
static int compute_around(void *kind)
{
    rank_state state;
    SHOULD(open_here(&state, kind));
    enum { COUNT = 1000 };
    float got[COUNT];
    int size = cs_comm_size(state.comm);
    cs_stream *compute = ce_device_stream(state.device, CS_COMPUTE), *comm = ce_device_stream(state.device, CS_COMM);
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
    close_rank(&state);
    return 0;
}

START_TEST(events_order_computing_and_collectives)
{
    char shm[] = "shm", nccl[] = "nccl";
    if (!is_emulated("3"))
        return;
    ck_assert_msg(cs_spawn(3, compute_around, shm) == CS_OK, "%s", cs_error());
    ck_assert_msg(cs_spawn(3, compute_around, nccl) == CS_OK, "%s", cs_error());
}
END_TEST

static int pass_messages(void *kind)
{
    static const size_t lengths[] = { 0, 1, 65537, 300001 };
    rank_state state;
    char held[300001];
    SHOULD(open_here(&state, kind));
    int rank = cs_comm_rank(state.comm), size = cs_comm_size(state.comm);
    cs_stream *stream = ce_device_stream(state.device, CS_COMM);
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
    close_rank(&state);
    return 0;
}

START_TEST(messages_arrive)
{
    char shm[] = "shm", nccl[] = "nccl";
    if (!is_emulated("3"))
        return;
    ck_assert_msg(cs_spawn(2, pass_messages, shm) == CS_OK, "%s", cs_error());
    ck_assert_msg(cs_spawn(3, pass_messages, nccl) == CS_OK, "%s", cs_error());
}
END_TEST

/* ---- rendezvous, lost ranks: ranks started by the test, so that it sees how each one ends ---- */

typedef struct {
    int ranks, started;
    const char *kind;
    double seconds;
    int (*run)(rank_state *state);
} scene;

typedef struct {
    int code; /* exit code, or 128 + signal */
    char said[1024];
} ending;

static _Noreturn void play(const scene *on, int rank, int port, int output)
{
    rank_state state;
    cs_world world = { .rank = rank, .size = on->ranks, .local_rank = rank, .local_size = on->ranks, .port = port };
    snprintf(world.job, sizeof world.job, "test-nccl-%d", (int)getppid());
    dup2(output, STDERR_FILENO);
    ce_log_open(CS_LOG_WARNING, rank);
    cs_status status = open_rank(&state, &world, on->kind, on->seconds);
    if (status != CS_OK) {
        dprintf(output, "%s\n", cs_error());
        _exit(cs_exit_code(status));
    }
    _exit(on->run(&state));
}

static void perform(const scene *on, ending *endings)
{
    static int port = 21000;
    pid_t children[MOST_RANKS];
    int outputs[MOST_RANKS][2];
    double begun = ce_clock_seconds();
    port++;
    for (int i = 0; i < on->started; i++) {
        ck_assert_int_eq(pipe2(outputs[i], O_CLOEXEC), 0);
        children[i] = fork();
        ck_assert_int_ge(children[i], 0);
        if (children[i] == 0)
            play(on, i, port, outputs[i][1]);
        close(outputs[i][1]);
    }
    for (int i = 0; i < on->started; i++) {
        int status;
        ck_assert_int_eq(waitpid(children[i], &status, 0), children[i]);
        ssize_t length = read(outputs[i][0], endings[i].said, sizeof endings[i].said - 1);
        endings[i].said[length > 0 ? length : 0] = 0;
        endings[i].code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        close(outputs[i][0]);
    }
    ck_assert_msg(ce_clock_seconds() - begun < LONGEST_SECONDS, "it took %g s", ce_clock_seconds() - begun);
}

static void expect_ending(const ending *end, int code, const char *sentence)
{
    ck_assert_msg(end->code == code, "ended with %d, not %d, saying: %s", end->code, code, end->said);
    ck_assert_msg(!sentence || strstr(end->said, sentence), "said \"%s\", not \"%s\"", end->said, sentence);
}

static int die_in_time(rank_state *state)
{
    float *data = cs_comm_alloc(state->comm, 4000);
    for (int i = 0; i < 1000; i++) {
        if (cs_comm_rank(state->comm) == 1 && i == 5)
            raise(SIGKILL);
        cs_comm_all_reduce(state->comm, data, 1000, CS_F32, CS_SUM);
        ce_stream_sync(ce_device_stream(state->device, CS_COMM));
    }
    return 0;
}

START_TEST(a_lost_rank_ends_the_others)
{
    static const char *const kinds[] = { "nccl", "shm", "tcp" };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        scene on = { 3, 3, kinds[k], LONGEST_SECONDS, die_in_time };
        ending ends[MOST_RANKS];
        if (!is_emulated("3"))
            return;
        perform(&on, ends);
        for (int i = 0; i < on.ranks; i++)
            expect_ending(&ends[i], i == 1 ? 128 + SIGKILL : 75, i == 1 ? NULL : "rank 1 was lost");
        if (k == 0)
            expect_ending(&ends[0], 75, "rank 1 was lost (while this rank was in all_reduce over NCCL)");
    }
}
END_TEST

/* No rank is in a collective when the other one dies. */
static int die_while_others_compute(rank_state *state)
{
    float *data = cs_comm_alloc(state->comm, 4000);
    cs_comm_all_reduce(state->comm, data, 1000, CS_F32, CS_SUM);
    ce_stream_sync(ce_device_stream(state->device, CS_COMM));
    if (cs_comm_rank(state->comm) == 1)
        raise(SIGKILL);
    sleep(LONGEST_SECONDS);
    return 0;
}

START_TEST(a_lost_rank_is_missed_without_a_call)
{
    scene on = { 2, 2, "nccl", LONGEST_SECONDS, die_while_others_compute };
    ending ends[MOST_RANKS];
    if (!is_emulated("2"))
        return;
    perform(&on, ends);
    expect_ending(&ends[0], 75, "rank 1 was lost");
}
END_TEST

START_TEST(a_rank_that_never_comes_is_named)
{
    scene on = { 3, 2, "nccl", 1, die_in_time };
    ending ends[MOST_RANKS];
    if (!is_emulated("3"))
        return;
    perform(&on, ends);
    for (int i = 0; i < on.started; i++)
        expect_ending(&ends[i], 75, NULL);
    ck_assert_msg(strstr(ends[0].said, "rank 2"), "said \"%s\"", ends[0].said);
}
END_TEST

/* ---- faults in calls of NCCL, injected by the emulator: the rank, the call, and what happens in it ---- */

static int sum_once(rank_state *state)
{
    float *data = cs_comm_alloc(state->comm, 4000);
    cs_comm_all_reduce(state->comm, data, 1000, CS_F32, CS_SUM);
    ce_stream_sync(ce_device_stream(state->device, CS_COMM));
    close_rank(state);
    return 0;
}

static int sum_and_stay(rank_state *state)
{
    float *data = cs_comm_alloc(state->comm, 4000);
    cs_comm_all_reduce(state->comm, data, 1000, CS_F32, CS_SUM);
    ce_stream_sync(ce_device_stream(state->device, CS_COMM));
    sleep(LONGEST_SECONDS);
    return 0;
}

/* The rank dies in the fourth use of a graph that has captured a collective. */
static int die_between_graphs(rank_state *state)
{
    float *data = cs_comm_alloc(state->comm, 4000);
    for (int i = 0; i < 5; i++) {
        if (i == 3 && cs_comm_rank(state->comm) == 1)
            raise(SIGKILL);
        ce_device_graph_begin(state->device, 7);
        cs_comm_all_reduce(state->comm, data, 1000, CS_F32, CS_SUM);
        ce_device_graph_end(state->device);
        ce_stream_sync(ce_device_stream(state->device, CS_COMM));
    }
    return 0;
}

/* The second use of a graph is its capture; in it, a broadcast connects the ranks. */
static int die_in_capture(rank_state *state)
{
    float *data = cs_comm_alloc(state->comm, 4000);
    for (int i = 0; i < 2; i++) {
        ce_device_graph_begin(state->device, 7);
        cs_comm_all_reduce(state->comm, data, 1000, CS_F32, CS_SUM);
        if (i == 1 && cs_comm_rank(state->comm) == 1)
            raise(SIGKILL);
        if (i == 1)
            cs_comm_broadcast(state->comm, data, 1000, CS_F32, 0);
        ce_device_graph_end(state->device);
    }
    return 0;
}

enum { ANY = -1, LOST = 75, KILLED = 128 + SIGKILL };

/* said: at least one rank prints it, because the rank that times out first ends the other one. codes, ANY: a rank may
 * or may not notice that another dies while it ends. Rank 1 may be lost in its first collective before rank 0 has
 * started that collective. */
static const struct {
    int ranks;
    const char *fault; /* of the emulator; "": none */
    double seconds;
    int (*run)(rank_state *state);
    int codes[2];
    const char *said;
} faults[] = {
    { 2, "1 init die", 60, sum_once, { LOST, KILLED }, "rank 1 was lost (while this rank was in the connection of" },
    { 2, "1 init fail", 60, sum_once, { LOST, LOST }, "NCCL failed in the connection of the ranks: remote process" },
    { 2, "1 init hang", 2, sum_once, { LOST, LOST }, "the connection of the ranks over NCCL did not return" },
    { 2, "1 collective die", 60, sum_once, { LOST, KILLED }, "rank 1 was lost (while this rank was in " },
    { 2, "1 collective fail", 60, sum_once, { LOST, LOST }, "NCCL failed in all_reduce: remote process exited" },
    { 2, "1 collective hang", 2, sum_once, { LOST, LOST }, "all_reduce over NCCL did not return within 2 seconds" },
    { 2, "1 error fail", 60, sum_and_stay, { LOST, LOST }, "NCCL failed in " },
    { 2, "1 finalize die", 60, sum_once, { ANY, KILLED }, "" },
    { 2, "1 finalize fail", 60, sum_once, { 0, 0 }, "" },
    { 2, "0 finalize hang", 2, sum_once, { 0, 0 }, "NCCL did not end within 2 seconds" },
    { 2, "", 60, die_between_graphs, { LOST, KILLED }, "rank 1 was lost (while this rank was in all_reduce" },
    { 2, "", 60, die_in_capture, { LOST, KILLED }, "rank 1 was lost (while this rank was in broadcast" },
    { 1, "0 init hang", 2, sum_once, { LOST }, "the connection of the ranks over NCCL did not return" },
    { 1, "0 collective hang", 2, sum_once, { LOST }, "all_reduce over NCCL did not return within 2 seconds" },
    { 1, "0 error fail", 60, sum_and_stay, { LOST }, "NCCL failed in " },
    { 1, "0 finalize hang", 2, sum_once, { 0 }, "NCCL did not end within 2 seconds" },
};

START_TEST(a_fault_in_nccl_ends_all_ranks_with_a_sentence)
{
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        scene on = { faults[i].ranks, faults[i].ranks, "nccl", faults[i].seconds, faults[i].run };
        ending ends[MOST_RANKS] = { 0 };
        if (!is_emulated("2"))
            return;
        setenv("CSPEED_EMULATOR_NCCL_FAULT", faults[i].fault, 1);
        perform(&on, ends);
        unsetenv("CSPEED_EMULATOR_NCCL_FAULT");
        ck_assert_msg(strstr(ends[0].said, faults[i].said) || strstr(ends[1].said, faults[i].said),
                      "row %d, \"%s\": said \"%s\" and \"%s\"", (int)i, faults[i].fault, ends[0].said, ends[1].said);
        for (int rank = 0; rank < on.ranks; rank++)
            ck_assert_msg(ends[rank].code == faults[i].codes[rank] || faults[i].codes[rank] == ANY,
                          "row %d, \"%s\": rank %d ended with %d, saying \"%s\"", (int)i, faults[i].fault, rank,
                          ends[rank].code, ends[rank].said);
    }
}
END_TEST

static int count_traffic(void *kind)
{
    rank_state state;
    SHOULD(open_here(&state, kind));
    uint64_t others = (uint64_t)cs_comm_size(state.comm) - 1;
    float *all = cs_comm_alloc(state.comm, 3 * 120), *part = cs_comm_alloc(state.comm, 120), loss = 1;
    cs_comm_reduce_scatter(state.comm, part, all, 30, CS_F32, CS_SUM);
    cs_comm_all_gather(state.comm, all, part, 30, CS_F32);
    cs_comm_all_reduce(state.comm, &loss, 1, CS_F32, CS_SUM); /* the host's */
    cs_comm_traffic traffic = cs_comm_counters(state.comm);
    EXPECT((int)loss == cs_comm_size(state.comm), "a sum of ones is %g", (double)loss);
    EXPECT(traffic.calls == 3, "%d calls", (int)traffic.calls);
    EXPECT(traffic.bytes == 2 * others * 120 + 2 * others * 4 / (others + 1), "%d bytes", (int)traffic.bytes);
    close_rank(&state);
    return 0;
}

START_TEST(traffic_is_counted)
{
    char shm[] = "shm", nccl[] = "nccl";
    if (!is_emulated("3"))
        return;
    ck_assert_msg(cs_spawn(2, count_traffic, shm) == CS_OK, "%s", cs_error());
    ck_assert_msg(cs_spawn(3, count_traffic, nccl) == CS_OK, "%s", cs_error());
}
END_TEST

/* ---- the cost of a call for the caller ---- */

static _Thread_local int naps, threads;

/* These functions count the sleeps and threads of the module: the dynamic linker prefers functions of the program to
 * those of libc with the same name. */
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
    rank_state state;
    SHOULD(open_here(&state, kind));
    float *data = cs_comm_alloc(state.comm, 4000);
    cs_comm_all_reduce(state.comm, data, 1000, CS_F32, CS_SUM);
    naps = threads = 0;
    for (int i = 0; i < 100; i++)
        cs_comm_all_reduce(state.comm, data, 1000, CS_F32, CS_SUM);
    EXPECT(naps == 0 && threads == 0, "%d sleeps and %d threads in 100 calls", naps, threads);
    EXPECT(nanosleep(&(struct timespec){ 0 }, NULL) == 0 && naps > 0, "sleeps are not counted");
    close_rank(&state);
    return 0;
}

/* A call that takes 50 us must cause no sleep, which would last a millisecond, and no thread. */
START_TEST(a_call_is_not_slept_for)
{
    char nccl[] = "nccl";
    if (!is_emulated("2"))
        return;
    setenv("CSPEED_EMULATOR_NCCL_MICROSECONDS", "50", 1);
    ck_assert_msg(cs_spawn(2, call_often, nccl) == CS_OK, "%s", cs_error());
    unsetenv("CSPEED_EMULATOR_NCCL_MICROSECONDS");
}
END_TEST

static int come_late(void *kind)
{
    rank_state state;
    SHOULD(open_here(&state, kind));
    float *data = cs_comm_alloc(state.comm, 4000);
    ce_comm_record(state.comm, &(ce_comms_logger_settings){ .enabled = true, .operations = UINT32_MAX });
    cs_comm_all_reduce(state.comm, data, 1000, CS_F32, CS_SUM); /* connects them */
    double before = cs_comm_counters(state.comm).seconds;
    if (cs_comm_rank(state.comm) == 1)
        nanosleep(&(struct timespec){ .tv_nsec = 300000000 }, NULL);
    cs_comm_all_reduce(state.comm, data, 1000, CS_F32, CS_SUM);
    double took = cs_comm_counters(state.comm).seconds - before;
    EXPECT(cs_comm_rank(state.comm) == 1 || took > 0.25, "it took %g s to wait for a rank that was 0.3 s late", took);
    close_rank(&state);
    return 0;
}

START_TEST(recorded_times_are_those_of_the_collective)
{
    char nccl[] = "nccl";
    if (!is_emulated("2"))
        return;
    ck_assert_msg(cs_spawn(2, come_late, nccl) == CS_OK, "%s", cs_error());
}
END_TEST

SUITE_MAIN_APART("nccl", ranks_that_share_a_device_go_through_the_host, ranks_of_their_own_devices_go_by_nccl,
                 auto_takes_nccl_where_it_can, nccl_refuses_a_shared_device, events_order_computing_and_collectives,
                 messages_arrive, a_lost_rank_ends_the_others, a_lost_rank_is_missed_without_a_call,
                 a_rank_that_never_comes_is_named, a_fault_in_nccl_ends_all_ranks_with_a_sentence,
                 a_call_is_not_slept_for, traffic_is_counted, recorded_times_are_those_of_the_collective)
