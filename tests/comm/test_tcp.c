/* test_tcp.c - ranks of several hosts, all simulated on this host: sums must equal the sums of the other transports,
 * and lost ranks must be detected. */
#include "base/log.h"
#include "endings.h"
#include "runs.h"
#include "ports.h"
#include "suite.h"
#include "sums.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HEAP = 256 << 20, LARGE = (1 << 20) + 5 };

/* The number of ranks of each simulated host; 0 ends the list. */
typedef struct {
    const char *name;
    int ranks, hosts[SUMS_RANKS];
} layout;

static const layout layouts[] = {
    { "one host", 2, { 2 } },    { "one host", 3, { 3 } },
    { "1+1", 2, { 1, 1 } },      { "1+1+1", 3, { 1, 1, 1 } },
    { "1+3", 4, { 1, 3 } },      { "2+2", 4, { 2, 2 } },
    { "3+2", 5, { 3, 2 } },      { "1+1+1+1+1", 5, { 1, 1, 1, 1, 1 } },
    { "2+2+2", 6, { 2, 2, 2 } }, { "3+3", 6, { 3, 3 } },
    { "4+4", 8, { 4, 4 } },      { "2+2+2+2", 8, { 2, 2, 2, 2 } },
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static void place_rank(cs_world *world, const int *hosts)
{
    int first = 0;
    while (world->rank >= first + *hosts)
        first += *hosts++;
    world->local_rank = world->rank - first;
    world->local_size = *hosts;
}

static cs_status open_world(cs_comm **comm, const int *hosts)
{
    cs_world world;
    CE_TRY(cs_world_read(&world));
    place_rank(&world, hosts);
    return cs_comm_open(comm, &world, &(cs_comm_settings){ .kind = "tcp", .heap_bytes = HEAP, .timeout_seconds = 60 });
}

static void run_everywhere(int (*run)(void *argument), int max)
{
    for (int i = 0; i < LAYOUTS; i++) {
        layout copy = layouts[i];
        if (copy.ranks <= max)
            ck_assert_msg(cs_spawn(copy.ranks, run, copy.hosts) == CS_OK, "%s: %s", copy.name, cs_error());
    }
}

static int each_collective(void *hosts)
{
    cs_comm *comm = NULL;
    SHOULD(open_world(&comm, hosts));
    int failed = sums_try_each(comm, cs_comm_size(comm) <= 2 ? 1021 : 31);
    cs_comm_close(comm);
    return failed;
}

START_TEST(collectives_are_the_tree)
{
    run_everywhere(each_collective, 6);
}
END_TEST

static int large_collectives(void *hosts)
{
    cs_comm *comm = NULL;
    SHOULD(open_world(&comm, hosts));
    int size = cs_comm_size(comm), failed = 0;
    int64_t count = LARGE / size;
    size_t capacity = (size_t)size * (size_t)count * 4;
    char *lone = malloc(2 * capacity);
    sums_place all[] = { { "in place", cs_comm_alloc(comm, capacity), cs_comm_alloc(comm, capacity) },
                         { "private", lone, lone + capacity } };
    EXPECT(lone, "no memory");
    for (int p = 0; p < 2 && !failed; p++)
        failed = sums_try(comm, all[p], count, 11, CS_F32, CS_SUM) ||
                 (p == 0 && sums_try(comm, all[p], count, 13, CS_BF16, CS_SUM)) ||
                 sums_try_copies(comm, all[p], count, 17, CS_I32);
    free(lone);
    cs_comm_close(comm);
    return failed;
}

START_TEST(large_vectors_are_the_tree)
{
    static const int some[] = { 0, 3, 5, 10 }; /* indices of the layouts 2, 1+1+1, 2+2 and 4+4 */
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        layout copy = layouts[some[i]];
        ck_assert_msg(cs_spawn(copy.ranks, large_collectives, copy.hosts) == CS_OK, "%s: %s", copy.name, cs_error());
    }
}
END_TEST

/* The same vectors over shm and over tcp, between hosts of two ranks: the results are equal bit for bit. */
static int compare_with_shm(void *hosts)
{
    enum { COUNT = 100003 };
    cs_world world;
    cs_comm *comms[3] = { NULL };
    float *results[3];
    SHOULD(cs_world_read(&world));
    for (int i = 0; i < 3; i++) {
        cs_world own = world;
        if (i == 2)
            place_rank(&own, hosts);
        SHOULD(
            cs_comm_open(&comms[i], &own,
                         &(cs_comm_settings){ .kind = i ? "tcp" : "shm", .heap_bytes = HEAP, .timeout_seconds = 60 }));
        results[i] = cs_comm_alloc(comms[i], COUNT * sizeof(float));
        sums_fill(results[i], COUNT, 0, world.rank, 3, CS_F32);
        cs_comm_all_reduce(comms[i], results[i], COUNT, CS_F32, CS_SUM);
        EXPECT(memcmp(results[0], results[i], COUNT * sizeof(float)) == 0, "the bits of comm %d differ from shm's", i);
    }
    for (int i = 0; i < 3; i++)
        cs_comm_close(comms[i]);
    return 0;
}

START_TEST(bits_are_those_of_shm)
{
    int hosts[] = { 2, 2 };
    ck_assert_msg(cs_spawn(4, compare_with_shm, hosts) == CS_OK, "%s", cs_error());
}
END_TEST

static int pass_messages(void *hosts)
{
    static const size_t lengths[] = { 0, 1, 7, 65536, 65537, 0, 3000001 };
    cs_comm *comm = NULL;
    SHOULD(open_world(&comm, hosts));
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
        cs_comm_barrier(comm);
    }
    free(data);
    free(got);
    cs_comm_close(comm);
    return 0;
}

START_TEST(messages_arrive_in_order)
{
    run_everywhere(pass_messages, 3);
}
END_TEST

/* ---- lost ranks, closing: ranks started by the test, so that it sees how each one ends ---- */

typedef struct {
    const layout *on;
    int port;
    int (*run)(cs_comm *comm);
} scene;

static void play(const void *played, int rank)
{
    const scene *here = played;
    cs_world world = { .rank = rank, .size = here->on->ranks, .address = "127.0.0.1", .port = here->port };
    cs_comm *comm = NULL;
    snprintf(world.job, sizeof world.job, "test-%d", (int)getppid());
    place_rank(&world, here->on->hosts);
    ce_log_open(CE_LOG_INFO, rank);
    cs_comm_settings settings = { .kind = "tcp", .heap_bytes = 1 << 20, .timeout_seconds = 60 };
    endings_must(cs_comm_open(&comm, &world, &settings));
    _exit(here->run(comm));
}

static void perform(const layout *on, int (*run)(cs_comm *comm), ending *endings)
{
    scene here = { on, ports_free("127.0.0.1"), run };
    endings_perform(endings, on->ranks, play, &here);
}

static int die_in_time(cs_comm *comm)
{
    static float data[300000];
    for (int i = 0; i < 1000; i++) {
        if (cs_comm_rank(comm) == 1 && i == 20)
            raise(SIGKILL);
        cs_comm_all_reduce(comm, data, i % 2 ? 300000 : 100, CS_F32, CS_SUM);
    }
    return 0;
}

START_TEST(a_lost_rank_ends_the_others)
{
    for (int i = 0; i < LAYOUTS; i++) {
        ending ends[SUMS_RANKS];
        if (layouts[i].ranks > 4)
            continue;
        perform(&layouts[i], die_in_time, ends);
        for (int r = 0; r < layouts[i].ranks; r++)
            endings_expect(&ends[r], r == 1 ? 128 + SIGKILL : 75,
                           r == 1 ? NULL : "rank 1 was lost (while this rank waited in all_reduce)");
    }
}
END_TEST

START_TEST(a_rank_that_left_is_missed_only_when_waited_for)
{
    ending ends[3];
    perform(&layouts[3], endings_leave_early, ends);
    endings_expect(&ends[0], 75, "rank 1 has left (while this rank waited in barrier)");
    endings_expect(&ends[1], 0, NULL);
    endings_expect(&ends[2], 75, NULL);
}
END_TEST

START_TEST(mismatched_calls_are_refused_with_both)
{
    ending ends[2];
    perform(&layouts[2], endings_call_another, ends);
    endings_expect(&ends[0], 76, "rank 0 calls all_reduce of 4 f32 (sum), but rank 1 calls all_gather of 3 i32");
    endings_expect(&ends[1], 76, "rank 1 calls all_gather of 3 i32, but rank 0 calls all_reduce of 4 f32 (sum)");
}
END_TEST

static int send_too_much(cs_comm *comm)
{
    char data[100] = "";
    if (cs_comm_rank(comm) == 0)
        cs_comm_send(comm, data, 100, 1);
    else
        cs_comm_receive(comm, data, 99, 0);
    cs_comm_barrier(comm);
    return 0;
}

START_TEST(mismatched_lengths_are_refused)
{
    ending ends[2];
    perform(&layouts[2], send_too_much, ends);
    endings_expect(&ends[0], 75, "rank 1 was lost");
    endings_expect(&ends[1], 76, "rank 0 sent 100 bytes, but rank 1 receives 99");
}
END_TEST

static int wait_for_message(cs_comm *comm)
{
    char data[100] = "";
    if (cs_comm_rank(comm) == 0)
        cs_comm_barrier(comm);
    else
        cs_comm_receive(comm, data, 99, 0);
    return 0;
}

START_TEST(a_message_is_no_barrier)
{
    ending ends[2];
    perform(&layouts[2], wait_for_message, ends);
    endings_expect(&ends[1], 76, "rank 1 calls receive, but rank 0 calls barrier");
}
END_TEST

static int open_twice(void *hosts)
{
    for (int i = 0; i < 5; i++) {
        cs_comm *comm = NULL;
        float one = 1;
        SHOULD(open_world(&comm, hosts));
        cs_comm_all_reduce(comm, &one, 1, CS_F32, CS_SUM);
        EXPECT((int)one == cs_comm_size(comm), "%g", (double)one);
        cs_comm_close(comm);
    }
    return 0;
}

START_TEST(ranks_meet_again)
{
    run_everywhere(open_twice, 4);
}
END_TEST

/* A training of two ranks over tcp gives the bits of the training over shm, with sharded and with replicated
 * parameters. */
START_TEST(a_training_is_that_over_shm)
{
    static run_result over[2];
    for (int stage = 0; stage <= 3; stage += 3) {
        run_spec spec = { .world = 2, .stage = stage, .steps = 8, .micro = 2, .accumulation = 2, .precision = "fp32" };
        spec.recompute = "none";
        for (int tcp = 0; tcp < 2; tcp++) {
            spec.set[0] = tcp ? "cspeed.comm=\"tcp\"" : "cspeed.comm=\"shm\"";
            run_train(&spec, &over[tcp]);
        }
        for (int step = 0; step < spec.steps; step++) {
            ck_assert_mem_eq(&over[0].loss[step], &over[1].loss[step], sizeof(double));
            ck_assert_mem_eq(&over[0].norm[step], &over[1].norm[step], sizeof(double));
        }
        ck_assert(over[0].loss[0] > over[0].loss[spec.steps - 1]);
    }
}
END_TEST

SUITE_MAIN("tcp", a_training_is_that_over_shm, collectives_are_the_tree, large_vectors_are_the_tree,
           bits_are_those_of_shm, messages_arrive_in_order, a_lost_rank_ends_the_others,
           a_rank_that_left_is_missed_only_when_waited_for, mismatched_calls_are_refused_with_both,
           mismatched_lengths_are_refused, a_message_is_no_barrier, ranks_meet_again)
