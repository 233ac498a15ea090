/* test_comm_lost.c - ranks that die, leave, are missing, or make another call than the other ranks. The test starts the
 * ranks itself, so that it sees how each rank ends. */
#include "base/log.h"
#include "cspeed/comm.h"
#include "endings.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_RANKS = 8 };

typedef struct {
    int ranks, rank;
    double seconds;
    int (*run)(cs_comm *comm);
} role;

static int port = 20000; /* the port of the current world */

static void play(const void *parts, int index)
{
    const role *part = (const role *)parts + index;
    cs_world world = { .rank = part->rank, .size = part->ranks, .local_rank = part->rank, .local_size = part->ranks };
    cs_comm *comm = NULL;
    world.port = port;
    snprintf(world.job, sizeof world.job, "test-%d", (int)getppid());
    ce_log_open(CE_LOG_INFO, part->rank);
    cs_comm_settings settings = { .kind = "shm", .heap_bytes = 1 << 20, .timeout_seconds = part->seconds };
    endings_must(cs_comm_open(&comm, &world, &settings));
    _exit(part->run ? part->run(comm) : 0);
}

static void perform(const role *parts, int count, ending *endings)
{
    port++;
    endings_perform(endings, count, play, parts);
}

static int die_in_time(cs_comm *comm)
{
    float data[1000] = { 0 };
    for (int i = 0; i < 1000; i++) {
        if (cs_comm_rank(comm) == 1 && i == 20)
            raise(SIGKILL);
        cs_comm_all_reduce(comm, data, 1000, CS_F32, CS_SUM);
    }
    return 0;
}

START_TEST(a_lost_rank_ends_the_others)
{
    role parts[4] = { 0 };
    ending ends[4];
    for (int i = 0; i < _i; i++)
        parts[i] = (role){ _i, i, 60, die_in_time };
    perform(parts, _i, ends);
    for (int i = 0; i < _i; i++)
        endings_expect(&ends[i], i == 1 ? 128 + SIGKILL : 75,
                       i == 1 ? NULL : "rank 1 was lost (while this rank waited in all_reduce)");
}
END_TEST

START_TEST(a_rank_that_left_is_missed_only_when_waited_for)
{
    role parts[3];
    ending ends[3];
    for (int i = 0; i < 3; i++)
        parts[i] = (role){ 3, i, 60, endings_leave_early };
    perform(parts, 3, ends);
    endings_expect(&ends[0], 75, "rank 1 has left (while this rank waited in barrier)");
    endings_expect(&ends[1], 0, NULL);
    endings_expect(&ends[2], 75, NULL);
}
END_TEST

START_TEST(mismatched_calls_are_refused_with_both)
{
    role parts[2] = { { 2, 0, 60, endings_call_another }, { 2, 1, 60, endings_call_another } };
    ending ends[2];
    perform(parts, 2, ends);
    endings_expect(&ends[0], 76, "rank 0 calls all_reduce of 4 f32 (sum), but rank 1 calls all_gather of 3 i32");
    endings_expect(&ends[1], 76, "rank 1 calls all_gather of 3 i32, but rank 0 calls all_reduce of 4 f32 (sum)");
}
END_TEST

static int count_differently(cs_comm *comm)
{
    float *data = cs_comm_alloc(comm, 100000);
    cs_comm_broadcast(comm, data, cs_comm_rank(comm) ? 20000 : 20001, CS_F32, 0);
    return 0;
}

START_TEST(mismatched_counts_are_refused)
{
    role parts[2] = { { 2, 0, 60, count_differently }, { 2, 1, 60, count_differently } };
    ending ends[2];
    perform(parts, 2, ends);
    endings_expect(&ends[0], 76,
                   "broadcast of 20001 f32 from rank 0, but rank 1 calls broadcast of 20000 f32 from rank 0");
    endings_expect(&ends[1], 76, NULL);
}
END_TEST

static int receive_more(cs_comm *comm)
{
    char data[10] = { 0 };
    if (cs_comm_rank(comm) == 0)
        cs_comm_send(comm, data, 9, 1);
    else
        cs_comm_receive(comm, data, 10, 0);
    return 0;
}

START_TEST(a_message_of_another_length_is_refused)
{
    role parts[2] = { { 2, 0, 60, receive_more }, { 2, 1, 60, receive_more } };
    ending ends[2];
    perform(parts, 2, ends);
    endings_expect(&ends[1], 76, "rank 0 sent 9 bytes, but rank 1 receives 10");
}
END_TEST

START_TEST(a_missing_rank_is_named)
{
    role parts[2] = { { 4, 0, 0.5, NULL }, { 4, 2, 0.5, NULL } };
    ending ends[2];
    perform(parts, 2, ends);
    endings_expect(&ends[0], 75, "ranks 1, 3 did not join within 0.5 seconds:");
    endings_expect(&ends[1], 75, "ranks 1, 3 did not join within 0.5 seconds:");
    role alone[1] = { { 2, 1, 0.3, NULL } };
    perform(alone, 1, ends);
    endings_expect(&ends[0], 75, "rank 0 did not join within 0.3 seconds:");
}
END_TEST

START_TEST(a_second_job_of_the_same_name_is_refused)
{
    role parts[2] = { { 2, 0, 0.5, NULL }, { 2, 0, 0.5, NULL } };
    ending ends[2];
    perform(parts, 2, ends);
    bool first_won = strstr(ends[0].said, "did not join") != NULL;
    endings_expect(&ends[first_won ? 1 : 0], 75, "another job has its rendezvous at MASTER_PORT");
    endings_expect(&ends[first_won ? 0 : 1], 75, "rank 1 did not join");
    role twice[4] = { { 3, 0, 0.5, NULL }, { 3, 1, 0.5, NULL }, { 3, 1, 0.5, NULL }, { 2, 1, 0.5, NULL } };
    ending fates[4];
    perform(twice, 4, fates);
    bool first_in = strstr(fates[1].said, "did not join") != NULL;
    endings_expect(&fates[first_in ? 2 : 1], 75, "there are two ranks 1 at MASTER_PORT");
    endings_expect(&fates[first_in ? 1 : 2], 75, "rank 2 did not join");
    endings_expect(&fates[3], 75, "rank 1 has WORLD_SIZE 2, but rank 0 has 3");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("comm_lost");
    TCase *tests = tcase_create("comm_lost");
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, a_lost_rank_ends_the_others, 2, 5);
    tcase_add_test(tests, a_rank_that_left_is_missed_only_when_waited_for);
    tcase_add_test(tests, mismatched_calls_are_refused_with_both);
    tcase_add_test(tests, mismatched_counts_are_refused);
    tcase_add_test(tests, a_message_of_another_length_is_refused);
    tcase_add_test(tests, a_missing_rank_is_named);
    tcase_add_test(tests, a_second_job_of_the_same_name_is_refused);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
