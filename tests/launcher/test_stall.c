/* test_stall.c - the stall report, computed from progress records: the time without progress, and the rank for which
 * the others wait. */
#include "suite.h"

#include "fake.h"
#include "front/stall.h"

#include <stdlib.h>

#define SECOND INT64_C(1000000000)

enum { NONE = CE_BEAT_NONE, SUM = CE_BEAT_ALL_REDUCE, GATHER = CE_BEAT_ALL_GATHER, SILENT = -1, ENDED = -2 };

static fake job;

/* Where a rank is. `collective` is the collective in which the rank waits, or NONE if it waits outside of collectives. SILENT
 * means that no progress record of the rank has arrived, and ENDED that the rank has ended with code 0. */
typedef struct {
    int64_t step;
    int collective;
} at;

static cl_front *place(const at ranks[FAKE_RANKS])
{
    cl_front *front = fake_front(&job);
    for (int rank = 0; rank < FAKE_RANKS; rank++) {
        if (ranks[rank].collective == ENDED)
            fake_end(front, rank, 0, false, 0);
        else if (ranks[rank].collective != SILENT)
            fake_beat(front, rank, ranks[rank].step, ranks[rank].collective, 0, SECOND);
    }
    return front;
}

START_TEST(the_odd_one_out)
{
    static const struct {
        at ranks[FAKE_RANKS];
        int odd;
        const char *says;
    } cases[] = {
        { { { 5, SUM }, { 5, SUM }, { 5, SUM }, { 5, SUM } }, -1, "all are at the same position" },
        { { { 0, SILENT }, { 0, SILENT }, { 0, SILENT }, { 0, SILENT } }, -1, "all are at the same position" },
        { { { 5, SUM }, { 5, SUM }, { 5, NONE }, { 5, SUM } },
          2,
          "at step 5, outside of collectives, while 3 others wait\n" },
        { { { 5, NONE }, { 5, SUM }, { 5, SUM }, { 5, SUM } },
          0,
          "at step 5, outside of collectives, while 3 others wait\n" },
        { { { 6, NONE }, { 6, SUM }, { 5, NONE }, { 6, SUM } }, 2, "at step 5, outside of collectives" },
        { { { 5, SUM }, { 5, GATHER }, { 5, SUM }, { 5, SUM } },
          1,
          "waits in all_gather of step 5, while 3 others wait elsewhere" },
        { { { 5, SUM }, { 5, SUM }, { 5, SUM }, { 4, SUM } }, 3, "waits in all_reduce of step 4" },
        { { { 5, SUM }, { 5, SUM }, { 5, SUM }, { 6, SUM } }, 3, "waits in all_reduce of step 6" },
        { { { 5, SUM }, { 5, SUM }, { 4, SUM }, { 4, SUM } }, 2, "waits in all_reduce of step 4" },
        { { { 5, NONE }, { 5, NONE }, { 5, NONE }, { 4, NONE } }, 3, "at step 4, outside of collectives\n" },
        { { { 0, SUM }, { 0, SILENT }, { 0, SUM }, { 0, SUM } }, 1, "has reported no step yet, while 3 others wait\n" },
        { { { 5, SUM }, { 0, ENDED }, { 5, SUM }, { 5, SUM } }, 1, "it has ended, while 3 others wait\n" },
        { { { 5, SUM }, { 5, NONE }, { 5, NONE }, { 5, NONE } }, 1, "outside of collectives, while 1 other waits\n" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cl_front *front = place(cases[i].ranks);
        int odd = cl_stall_suspect(front);
        char *text = cl_stall_text(front, 2 * SECOND);
        ck_assert_msg(odd == cases[i].odd, "case %zu: rank %d: %s", i, odd, text);
        ck_assert_msg(strstr(text, cases[i].says) != NULL, "case %zu: %s", i, text);
        free(text);
    }
}
END_TEST

START_TEST(a_stopped_process_is_named)
{
    static const at ranks[FAKE_RANKS] = { { 5, SUM }, { 5, SUM }, { 5, SUM }, { 5, SUM } };
    cl_front *front = place(ranks);
    front->workers[2].beat.halted = 1;
    ck_assert_int_eq(cl_stall_suspect(front), 2);
    char *text = cl_stall_text(front, 2 * SECOND);
    ck_assert_msg(strstr(text, "its process is stopped (SIGSTOP") && strstr(text, ", while 3 others wait\n"), "%s",
                  text);
    free(text);
}
END_TEST

START_TEST(age_is_of_the_last_that_moved)
{
    cl_front *front = fake_front(&job);
    ck_assert(cl_stall_age(front, 100 * SECOND) == INT64_MAX);
    fake_beat(front, 0, 1, SUM, 3 * SECOND, 50 * SECOND); /* last progress at 47 s */
    fake_beat(front, 1, 1, SUM, 0, 40 * SECOND);          /* last progress at 40 s */
    ck_assert_int_eq(cl_stall_age(front, 100 * SECOND), 53 * SECOND);
    fake_end(front, 0, 0, false, 0); /* a rank that has ended no longer counts */
    ck_assert_int_eq(cl_stall_age(front, 100 * SECOND), 60 * SECOND);
    fake_end(front, 1, 0, false, 0);
    ck_assert(cl_stall_age(front, 100 * SECOND) == INT64_MAX);
}
END_TEST

START_TEST(the_report_lists_every_rank)
{
    cl_front *front = fake_front(&job);
    fake_beat(front, 0, 7, SUM, SECOND, 10 * SECOND);
    fake_beat(front, 1, 7, SUM, 3 * SECOND, 10 * SECOND);
    fake_beat(front, 2, 6, NONE, 4 * SECOND, 10 * SECOND);
    fake_beat(front, 3, 7, SUM, SECOND, 10 * SECOND);
    char *text = cl_stall_text(front, 70 * SECOND);
    ck_assert_str_eq(text, "cspeed: no rank of job ab12cd34 has made progress for 61 s\n  ranks 0-1,3: step 7, "
                           "waiting in all_reduce (63 s)\n  rank 2: step 6 (64 s)\n  rank 2 (w1, local 0, slot 0, pid "
                           "1002) blocks the others: it is at step 6, outside of collectives, while 3 others wait\n");
    free(text);
}
END_TEST

/* What a rank computes; `unit` is 1 + the number of the unit, as in the heartbeat. */
static void work(cl_front *front, int rank, int phase, int unit, const char *name, int micro)
{
    cl_link_beat *beat = &front->workers[rank].beat;
    beat->phase = phase;
    beat->unit = unit;
    beat->micro = micro;
    memset(beat->name, 0, sizeof beat->name);
    memcpy(beat->name, name, strlen(name) < sizeof beat->name ? strlen(name) : sizeof beat->name);
}

static void wait_in(cl_front *front, int rank, int axis, int collective)
{
    front->workers[rank].beat.collectives[axis] = collective;
}

START_TEST(the_report_names_unit_micro_batch_and_axis)
{
    cl_front *front = fake_front(&job);
    for (int rank = 0; rank < FAKE_RANKS; rank++) {
        fake_beat(front, rank, 7, NONE, 0, SECOND);
        work(front, rank, CE_BEAT_BACKWARD, 13, "model.layers.11", 2);
        wait_in(front, rank, CE_BEAT_TP, SUM);
    }
    wait_in(front, 2, CE_BEAT_DP_SHARD, CE_BEAT_REDUCE_SCATTER);
    work(front, 3, CE_BEAT_FORWARD, 1, "a\nb", 0);
    wait_in(front, 3, CE_BEAT_TP, NONE);
    char *text = cl_stall_text(front, 62 * SECOND);
    ck_assert_str_eq(
        text, "cspeed: no rank of job ab12cd34 has made progress for 61 s\n"
              "  ranks 0-1: step 7, backward of unit 12 (model.layers.11), micro-batch 2, waiting in all_reduce "
              "(tp) (61 s)\n"
              "  rank 2: step 7, backward of unit 12 (model.layers.11), micro-batch 2, waiting in all_reduce (tp) "
              "and reduce_scatter (dp_shard) (61 s)\n"
              "  rank 3: step 7, forward of unit 0 (a?b) (61 s)\n"
              "  rank 3 (w1, local 1, slot 1, pid 1003) blocks the others: it is at step 7, forward of unit 0 "
              "(a?b), outside of collectives, while 3 others wait\n");
    free(text);
    wait_in(front, 3, CE_BEAT_DP_REPLICATE, GATHER);
    work(front, 3, CE_BEAT_UPDATE, 0, "", 4);
    text = cl_stall_text(front, 62 * SECOND);
    ck_assert_msg(strstr(text,
                         "  rank 3: step 7, optimizer step, micro-batch 4, waiting in all_gather (dp_replicate) (") !=
                      NULL,
                  "%s", text);
    free(text);
}
END_TEST

/* Two ranks wait at each of two positions: the ranks at the earlier position hold up the others. */
START_TEST(the_earlier_position_is_suspected)
{
    static const struct {
        int phase, unit, micro;
    } early[] = { { CE_BEAT_BACKWARD, 4, 2 }, { CE_BEAT_FORWARD, 9, 2 }, { CE_BEAT_UPDATE, 0, 1 } };
    for (size_t i = 0; i < sizeof early / sizeof *early; i++) {
        cl_front *front = fake_front(&job);
        for (int rank = 0; rank < FAKE_RANKS; rank++) {
            fake_beat(front, rank, 7, NONE, 0, SECOND);
            wait_in(front, rank, CE_BEAT_TP, SUM);
            work(front, rank, CE_BEAT_BACKWARD, 3, "three", 2);
            if (rank >= 2)
                work(front, rank, early[i].phase, early[i].unit, "early", early[i].micro);
        }
        ck_assert_msg(cl_stall_suspect(front) == 2, "case %zu: rank %d", i, cl_stall_suspect(front));
    }
}
END_TEST

/* A record whose numbers are out of range, and whose name has no end, is printed without them. */
START_TEST(a_wrong_record_is_harmless)
{
    char name[2 * CE_BEAT_NAME];
    cl_front *front = fake_front(&job);
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    fake_beat(front, 0, 7, CE_BEAT_COUNT, 0, SECOND);
    work(front, 0, CE_BEAT_PHASES, 1, name, -1);
    wait_in(front, 0, CE_BEAT_TP, -1);
    char *text = cl_stall_text(front, 2 * SECOND);
    name[CE_BEAT_NAME - 1] = '\0';
    ck_assert_msg(strstr(text, "rank 0: step 7, unit 0 (xxx") && strstr(text, name), "%s", text);
    ck_assert_msg(strstr(text, "xxx) (1 s)\n") != NULL, "%s", text);
    free(text);
}
END_TEST

SUITE_MAIN("stall", the_odd_one_out, age_is_of_the_last_that_moved, a_stopped_process_is_named,
           the_report_lists_every_rank, the_report_names_unit_micro_batch_and_axis, the_earlier_position_is_suspected,
           a_wrong_record_is_harmless)
