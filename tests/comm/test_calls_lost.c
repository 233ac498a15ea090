/* test_calls_lost.c - a rank that is killed in each collective, ranks whose calls differ, a rank that works for long
 * between two calls, and a rank that exceeds the time limit of a call, over shared memory and over TCP. The test starts
 * the ranks itself, so that it sees how each rank ends.
 *
 * With arguments, `test_calls_lost KIND PART NUMBER`, the program is one rank of three that another program starts.
 * PART is die, differ or late. NUMBER is the number of a call or of a mismatch in the enumerations below. */
#include "base/log.h"
#include "cspeed/comm.h"
#include "endings.h"
#include "near.h"
#include "ports.h"
#include "suite.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { RANKS = 3, COUNT = 20000 };

typedef struct {
    const char *kind;
    int hosts; /* 1: all ranks are on one host; RANKS: each rank is on a host of its own */
    int what;  /* the second argument of `run` */
    int (*run)(cs_comm *comm, int what);
} scene;

static int port; /* the port of the ranks that run now */

static void play(const void *played, int rank)
{
    const scene *on = played;
    bool one_host = on->hosts == 1;
    cs_world world = { .rank = rank, .size = RANKS, .address = "127.0.0.1", .port = port };
    cs_comm *comm = NULL;
    world.local_rank = one_host ? rank : 0;
    world.local_size = one_host ? RANKS : 1;
    snprintf(world.job, sizeof world.job, "test-%d", (int)getppid());
    ce_log_open(CE_LOG_INFO, rank);
    cs_comm_settings settings = { .kind = on->kind, .heap_bytes = 1 << 20, .timeout_seconds = 60, .nonblocking = true };
    endings_must(cs_comm_open(&comm, &world, &settings));
    _exit(on->run(comm, on->what));
}

static void perform(const scene *on, ending *endings)
{
    port = ports_free("127.0.0.1");
    endings_perform(endings, RANKS, play, on);
}

static void expect_ending(const scene *on, const ending *end, int code, const char *sentence)
{
    ck_assert_msg(end->code == code, "%s, %d: ended with %d, not %d, saying: %s", on->kind, on->what, end->code, code,
                  end->said);
    ck_assert_msg(!sentence || strstr(end->said, sentence), "%s, %d: said \"%s\", not \"%s\"", on->kind, on->what,
                  end->said, sentence);
}

enum {
    BARRIER,
    ALL_REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    BROADCAST,
    REDUCE,
    SCATTER,
    GATHER,
    ALL_TO_ALL,
    IALL_REDUCE,
    IMESSAGES,
    CALLS
};

static void call(cs_comm *comm, int what, int64_t count)
{
    static float a[RANKS * COUNT], b[RANKS * COUNT];
    int rank = cs_comm_rank(comm), next = (rank + 1) % RANKS, last = (rank + RANKS - 1) % RANKS;
    switch (what) {
    case ALL_REDUCE:
        cs_comm_all_reduce(comm, a, count, CS_F32, CS_SUM);
        break;
    case REDUCE_SCATTER:
        cs_comm_reduce_scatter(comm, b, a, count, CS_F32, CS_SUM);
        break;
    case ALL_GATHER:
        cs_comm_all_gather(comm, a, b, count, CS_F32);
        break;
    case BROADCAST:
        cs_comm_broadcast(comm, a, count, CS_F32, 0);
        break;
    case REDUCE:
        cs_comm_reduce(comm, a, count, CS_F32, CS_SUM, 0);
        break;
    case SCATTER:
        cs_comm_scatter(comm, b, a, count, CS_F32, 0);
        break;
    case GATHER:
        cs_comm_gather(comm, a, b, count, CS_F32, 0);
        break;
    case ALL_TO_ALL:
        cs_comm_all_to_all(comm, b, a, count, CS_F32);
        break;
    case IALL_REDUCE:
        cs_work_wait(cs_comm_iall_reduce(comm, a, count, CS_F32, CS_SUM));
        break;
    case IMESSAGES: {
        cs_work *sent = cs_comm_isend(comm, a, (size_t)count * sizeof *a, next);
        cs_work_wait(cs_comm_ireceive(comm, b, (size_t)count * sizeof *b, last));
        cs_work_wait(sent);
        break;
    }
    default:
        cs_comm_barrier(comm);
    }
}

static int die_in_time(cs_comm *comm, int what)
{
    for (int i = 0; i < 1000; i++) {
        if (cs_comm_rank(comm) == 1 && i == 5)
            raise(SIGKILL);
        call(comm, what, i % 2 ? COUNT : 10);
    }
    cs_comm_barrier(comm);
    return 0;
}

START_TEST(a_rank_killed_in_each_collective_is_named)
{
    for (int what = BARRIER; what < CALLS; what++)
        for (int tcp = 0; tcp < 2; tcp++) {
            scene on = { tcp ? "tcp" : "shm", tcp ? RANKS : 1, what, die_in_time };
            ending ends[RANKS];
            perform(&on, ends);
            for (int r = 0; r < RANKS; r++)
                expect_ending(&on, &ends[r], r == 1 ? 128 + SIGKILL : 75, r == 1 ? NULL : "rank 1 was lost");
        }
}
END_TEST

/* ---- calls that do not match ------------------------------------------------------------------ */

enum { SKIPS_GATHER, ANOTHER_ROOT, ANOTHER_KIND, ANOTHER_ORDER, ANOTHER_COUNT, MESSAGE, UNEVEN, MISMATCHES };

/* Makes one mismatch: rank 2 makes another call than ranks 0 and 1, or skips the call. */
static int mismatch(cs_comm *comm, int what)
{
    static float a[RANKS * COUNT], b[RANKS * COUNT];
    int64_t counts[RANKS] = { 1, 2, 3 };
    bool odd = cs_comm_rank(comm) == 2;
    cs_comm_barrier(comm);
    switch (what) {
    case SKIPS_GATHER:
        if (!odd)
            cs_comm_gather(comm, a, b, 10, CS_F32, 0);
        break;
    case ANOTHER_ROOT:
        cs_comm_reduce(comm, a, COUNT, CS_F32, CS_SUM, odd);
        break;
    /* one of the calls uses messages, the other waits at a barrier in shared memory */
    case ANOTHER_KIND:
        if (odd)
            cs_comm_all_to_all(comm, b, a, 10, CS_F32);
        else
            cs_comm_all_reduce(comm, a, 10, CS_F32, CS_SUM);
        break;
    case ANOTHER_ORDER:
        call(comm, odd ? SCATTER : ALL_REDUCE, COUNT);
        call(comm, odd ? ALL_REDUCE : SCATTER, COUNT);
        break;
    case ANOTHER_COUNT:
        cs_comm_scatter(comm, b, a, odd ? 11 : 10, CS_F32, 0);
        break;
    case MESSAGE:
        if (odd)
            cs_comm_receive(comm, a, 10, 1);
        break;
    default: /* the counts differ between the ranks, but their sum is the same */
        counts[0] = odd ? 2 : 1;
        counts[1] = odd ? 1 : 2;
        cs_comm_all_gather_v(comm, a, b, counts, CS_F32);
    }
    cs_comm_barrier(comm);
    return 0;
}

START_TEST(calls_that_differ_are_named)
{
    for (int what = 0; what < MISMATCHES; what++)
        for (int tcp = 0; tcp < 2; tcp++) {
            scene on = { tcp ? "tcp" : "shm", tcp ? RANKS : 1, what, mismatch };
            ending ends[RANKS];
            bool named = false;
            perform(&on, ends);
            for (int r = 0; r < RANKS; r++) {
                ck_assert_msg(ends[r].code == 76 || ends[r].code == 75, "%s, %d: rank %d ended with %d, saying %s",
                              on.kind, what, r, ends[r].code, ends[r].said);
                named |= ends[r].code == 76 && strstr(ends[r].said, "rank 2 calls") != NULL;
                ck_assert_msg(what == UNEVEN || !strstr(ends[r].said, "different counts"), "%d: %s", what,
                              ends[r].said);
            }
            ck_assert_msg(named, "%s, %d: rank 2 is not named: %s %s %s", on.kind, what, ends[0].said, ends[1].said,
                          ends[2].said);
        }
}
END_TEST

/* ---- ranks that work for long between two calls ----------------------------------------------- */

/* Rank 0 starts to receive two messages with nonblocking calls, and then computes for long. AFTER_THE_LAST: both
 * messages have arrived by then. BETWEEN_TWO: only the first message has arrived. */
enum { AFTER_THE_LAST, BETWEEN_TWO };

static void work_for_long(void)
{
    nanosleep(&(struct timespec){ .tv_sec = 8 }, NULL); /* waiting ranks report a rank that is stuck for 5 seconds */
}

/* Rank 0 receives a message from rank 1 and then works for 8 seconds, while rank 1 waits in a barrier and has started
 * an all_reduce without waiting. Rank 0 also receives one message from each other rank without waiting. BETWEEN_TWO:
 * rank 2 works too, so its message is late. */
static int work_after_messages(cs_comm *comm, int what)
{
    int rank = cs_comm_rank(comm), word = 1, words[2] = { 0, 0 };
    float sum = 1;
    cs_comm_barrier(comm);
    if (rank == 0) {
        cs_work *second = cs_comm_ireceive(comm, &words[1], sizeof word, 2);
        cs_work *first = cs_comm_ireceive(comm, &words[0], sizeof word, 1);
        cs_comm_receive(comm, &word, sizeof word, 1);
        work_for_long();
        cs_work_wait(first);
        cs_work_wait(second);
        word = words[0] + words[1] - 1;
    } else {
        if (rank == 1)
            cs_comm_send(comm, &word, sizeof word, 0);
        else if (what == BETWEEN_TWO)
            work_for_long();
        cs_work_wait(cs_comm_isend(comm, &word, sizeof word, 0));
    }
    cs_work *summed = cs_comm_iall_reduce(comm, &sum, 1, CS_F32, CS_SUM);
    cs_comm_barrier(comm);
    cs_work_wait(summed);
    return word == 1 && sum == RANKS ? 0 : 1;
}

START_TEST(a_rank_that_works_after_a_message_is_not_stuck)
{
    for (int what = AFTER_THE_LAST; what <= BETWEEN_TWO; what++) {
        scene on = { "shm", 1, what, work_after_messages }; /* over TCP, a rank cannot see the calls of other ranks */
        ending ends[RANKS];
        perform(&on, ends);
        for (int r = 0; r < RANKS; r++)
            expect_ending(&on, &ends[r], 0, NULL);
    }
}
END_TEST

/* ---- the time of a call ----------------------------------------------------------------------- */

static int come_late(cs_comm *world, int what)
{
    cs_comm *comm = NULL;
    if (cs_comm_split(&comm, world, 0, 0) != CS_OK)
        return 1;
    cs_comm_set_call_seconds(comm, 0.5);
    cs_comm_barrier(comm);
    if (cs_comm_rank(comm) == 1) /* sanitizers may delay the other ranks' calls for longer than a second */
        nanosleep(&(struct timespec){ .tv_sec = near_limit(1, 4), .tv_nsec = 500000000 }, NULL);
    call(comm, what, 10);
    nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL); /* a rank whose call is complete must not be the first to end */
    return 0;
}

START_TEST(a_late_rank_is_named)
{
    static const int calls[] = { ALL_REDUCE, GATHER, IMESSAGES };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (int tcp = 0; tcp < 2; tcp++) {
            scene on = { tcp ? "tcp" : "shm", tcp ? RANKS : 1, calls[i], come_late };
            ending ends[RANKS];
            perform(&on, ends);
            /* It suffices that rank 0 or rank 2 names rank 1: the rank that notices later may instead report that the
             * other rank has ended. */
            bool named = false;
            for (int r = 0; r < RANKS; r++)
                named |= ends[r].code == 75 &&
                         strstr(ends[r].said, "rank 1 did not take part within the time limit of a call");
            ck_assert_msg(named, "%s, %d: %s %s", on.kind, on.what, ends[0].said, ends[2].said);
        }
}
END_TEST

static int run_as_rank(const char *kind, const char *part, int number)
{
    cs_world world;
    cs_comm *comm = NULL;
    cs_comm_settings settings = { .kind = kind, .heap_bytes = 1 << 20, .nonblocking = true };
    CS_MUST(cs_world_read(&world));
    ce_log_open(CE_LOG_INFO, world.rank);
    CS_MUST(cs_comm_open(&comm, &world, &settings));
    return strcmp(part, "die") == 0      ? die_in_time(comm, number)
           : strcmp(part, "differ") == 0 ? mismatch(comm, number)
                                         : come_late(comm, number);
}

int main(int words, char **word)
{
    const TTest *const tests[] = { a_rank_killed_in_each_collective_is_named, calls_that_differ_are_named,
                                   a_rank_that_works_after_a_message_is_not_stuck, a_late_rank_is_named };
    return words > 3 ? run_as_rank(word[1], word[2], atoi(word[3])) : suite_run("calls_lost", tests, 4);
}
