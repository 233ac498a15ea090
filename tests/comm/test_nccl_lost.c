/* test_nccl_lost.c - ranks that are lost or missing, and faults in calls of NCCL, which only the emulated module
 * injects. The test starts the ranks itself, so that it sees how each rank ends. */
#include "endings.h"
#include "gpu_ranks.h"
#include "base/log.h"
#include "cspeed/ops.h"
#include "near.h"
#include "suite.h"
#include "sums.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_RANKS = 5 };

typedef struct {
    int ranks, started;
    const char *kind;
    double seconds;
    int (*run)(gpu_rank *state);
} scene;

static int port = 21000; /* the port of the ranks that run now */

static void play(const void *played, int rank)
{
    const scene *on = played;
    gpu_rank state;
    cs_world world = { .rank = rank, .size = on->ranks, .local_rank = rank, .local_size = on->ranks, .port = port };
    snprintf(world.job, sizeof world.job, "test-nccl-%d", (int)getppid());
    ce_log_open(CE_LOG_WARNING, rank);
    endings_must(gpu_rank_open(&state, &world, on->kind, on->seconds));
    _exit(on->run(&state));
}

static void perform(const scene *on, ending *endings)
{
    port++;
    endings_perform(endings, on->started, play, on);
}

static int die_in_time(gpu_rank *state)
{
    float *data = cs_comm_alloc(state->comm, 4000);
    for (int i = 0; i < 1000; i++) {
        if (cs_comm_rank(state->comm) == 1 && i == 5)
            raise(SIGKILL);
        cs_comm_all_reduce(state->comm, data, 1000, CS_F32, CS_SUM);
        ce_stream_sync(ce_device_stream(state->device, CE_COMM));
    }
    return 0;
}

START_TEST(a_lost_rank_ends_the_others)
{
    static const char *const kinds[] = { "nccl", "shm", "tcp" };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        scene on = { 3, 3, kinds[k], GPU_RANKS_SECONDS, die_in_time };
        ending ends[MAX_RANKS];
        if (!near_gpus("a lost rank", k == 0 ? on.ranks : 1))
            continue;
        perform(&on, ends);
        for (int i = 0; i < on.ranks; i++)
            endings_expect(&ends[i], i == 1 ? 128 + SIGKILL : 75, i == 1 ? NULL : "rank 1 was lost");
        if (k == 0)
            endings_expect(&ends[0], 75, "rank 1 was lost (while this rank was in all_reduce over NCCL)");
    }
}
END_TEST

/* Rank 1 dies while neither of the two ranks is in a collective. */
static int die_while_others_compute(gpu_rank *state)
{
    float *data = cs_comm_alloc(state->comm, 4000);
    cs_comm_all_reduce(state->comm, data, 1000, CS_F32, CS_SUM);
    ce_stream_sync(ce_device_stream(state->device, CE_COMM));
    if (cs_comm_rank(state->comm) == 1)
        raise(SIGKILL);
    sleep(GPU_RANKS_SECONDS);
    return 0;
}

START_TEST(a_lost_rank_is_missed_without_a_call)
{
    scene on = { 2, 2, "nccl", GPU_RANKS_SECONDS, die_while_others_compute };
    ending ends[MAX_RANKS];
    if (!near_gpus("a lost rank without a call", on.ranks))
        return;
    perform(&on, ends);
    endings_expect(&ends[0], 75, "rank 1 was lost");
}
END_TEST

START_TEST(a_rank_that_never_comes_is_named)
{
    scene on = { 3, 2, "nccl", 1, die_in_time };
    ending ends[MAX_RANKS];
    if (!near_gpus("a missing rank", on.ranks))
        return;
    perform(&on, ends);
    for (int i = 0; i < on.started; i++)
        endings_expect(&ends[i], 75, NULL);
    ck_assert_msg(strstr(ends[0].said, "rank 2"), "said \"%s\"", ends[0].said);
}
END_TEST

/* ---- faults in calls of NCCL, injected by the emulator: the rank, the call, and what happens in it ---- */

static int sum_once(gpu_rank *state)
{
    float *data = cs_comm_alloc(state->comm, 4000);
    cs_comm_all_reduce(state->comm, data, 1000, CS_F32, CS_SUM);
    ce_stream_sync(ce_device_stream(state->device, CE_COMM));
    gpu_rank_close(state);
    return 0;
}

static int sum_and_stay(gpu_rank *state)
{
    float *data = cs_comm_alloc(state->comm, 4000);
    cs_comm_all_reduce(state->comm, data, 1000, CS_F32, CS_SUM);
    ce_stream_sync(ce_device_stream(state->device, CE_COMM));
    sleep(GPU_RANKS_SECONDS);
    return 0;
}

/* The rank dies in the fourth use of a graph that has captured a collective. */
static int die_between_graphs(gpu_rank *state)
{
    float *data = cs_comm_alloc(state->comm, 4000);
    for (int i = 0; i < 5; i++) {
        if (i == 3 && cs_comm_rank(state->comm) == 1)
            raise(SIGKILL);
        ce_device_graph_begin(state->device, 7);
        cs_comm_all_reduce(state->comm, data, 1000, CS_F32, CS_SUM);
        ce_device_graph_end(state->device);
        ce_stream_sync(ce_device_stream(state->device, CE_COMM));
    }
    return 0;
}

/* The second use of a graph is its capture; in it, a broadcast connects the ranks. */
static int die_in_capture(gpu_rank *state)
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

/* `said`: a text that at least one rank prints. The other rank may be ended before it prints the text, by the rank that
 * times out first. `codes`: the exit codes; ANY: any exit code is accepted, because the rank may or may not notice that
 * the other rank has died. With "1 collective die", rank 1 may be lost before rank 0 has started the collective, so
 * `said` does not name the collective. */
static const struct {
    int ranks;
    const char *fault; /* the fault that the emulator injects; "": none */
    double seconds;
    int (*run)(gpu_rank *state);
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
    bool injects = near_emulated("faults of NCCL") && near_counts();
    if (!injects)
        printf("faults of NCCL: skipped, only the emulated module injects them\n");
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        scene on = { faults[i].ranks, faults[i].ranks, "nccl", faults[i].seconds, faults[i].run };
        ending ends[MAX_RANKS] = { 0 };
        if ((faults[i].fault[0] && !injects) || !near_gpus("a lost rank of graphs", on.ranks))
            continue;
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

SUITE_MAIN_APART("nccl_lost", a_lost_rank_ends_the_others, a_lost_rank_is_missed_without_a_call,
                 a_rank_that_never_comes_is_named, a_fault_in_nccl_ends_all_ranks_with_a_sentence)
