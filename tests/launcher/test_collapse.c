/* test_collapse.c - with --console dedup, equal lines of several ranks are shown as one. */
#include "shown.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 16 };

typedef struct {
    int rank;
    const char *bytes;
    int milliseconds; /* milliseconds that pass before the output */
} output_step;

START_TEST(merging_keeps_the_order_of_each_rank)
{
    static const struct {
        output_step steps[STEPS];
        const char *expected;
    } cases[] = {
        /* all ranks print the same line: it is shown at once */
        { { { 0, "a\n", 0 }, { 1, "a\n", 0 }, { 2, "a\n", 0 }, { 3, "a\n", 0 } }, "[0-3]| a  (x4 identical)\n" },
        /* several lines of each rank, one rank after the other */
        { { { 0, "a\nb\n", 0 }, { 3, "a\nb\n", 0 } }, "[0,3]| a  (x2 identical)\n[0,3]| b  (x2 identical)\n" },
        /* a rank that repeats a line does not count as another rank */
        { { { 0, "a\na\n", 0 }, { 1, "a\n", 0 } }, "[0-1]| a  (x2 identical)\na\n" },
        /* if rank 1's "a" were merged with the earlier "a", it would come before rank 1's "b" */
        { { { 0, "a\n", 0 }, { 1, "b\n", 0 }, { 1, "a\n", 0 } }, "a\n1| b\n1| a\n" },
        { { { 0, "a\nb\n", 0 }, { 1, "b\na\n", 0 } }, "a\n[0-1]| b  (x2 identical)\n1| a\n" },
        /* a line that comes more than 100 ms later is not merged */
        { { { 0, "a\n", 0 }, { 1, "a\n", 150 } }, "a\n1| a\n" },
        { { { 0, "a\n", 0 }, { 1, "a\n", 50 }, { 2, "a\n", 90 } }, "[0-1]| a  (x2 identical)\n2| a\n" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shown_reset();
        shown_options.console = "dedup";
        ck_assert_int_eq(shown_open(false), 0);
        char all[4096] = "";
        for (const output_step *step = cases[i].steps; step->bytes; step++) {
            shown_now += step->milliseconds * SHOWN_MILLISECOND;
            strcat(all, shown_since());
            shown_feed(step->rank, 0, step->bytes);
        }
        strcat(all, shown_close());
        ck_assert_msg(strcmp(all, cases[i].expected) == 0, "case %zu: %s", i, all);
    }
}
END_TEST

START_TEST(merging_delays_a_line_at_most_100_ms)
{
    shown_reset();
    shown_options.console = "dedup";
    ck_assert_int_eq(shown_open(false), 0);
    shown_feed(0, 0, "a\n");
    ck_assert_str_eq(shown_since(), "");
    ck_assert_int_le(cl_output_due(&shown_output), shown_now + 100 * SHOWN_MILLISECOND);
    shown_now = cl_output_due(&shown_output);
    ck_assert_str_eq(shown_since(), "a\n");
    shown_feed(1, 0, "b\n");
    /* the launcher's line is shown after what ranks printed before it */
    cl_output_say(&shown_output, "cspeed: a word");
    ck_assert_str_eq(shown_since(), "1| b\ncspeed: a word\n");
    shown_close();
}
END_TEST

START_TEST(many_lines_may_wait_to_be_merged)
{
    shown_reset();
    shown_options.console = "dedup";
    ck_assert_int_eq(shown_open(false), 0);
    char line[32], wanted[64];
    for (int rank = 0; rank < 2; rank++)
        for (int i = 0; i < 1000; i++) {
            snprintf(line, sizeof line, "line %d\n", i);
            shown_feed(rank, 0, line);
        }
    const char *at = shown_close();
    /* At most CL_COLLAPSE_LINES lines wait. Each further line displaces the oldest one, which is shown at once and can
     * no longer be merged. */
    for (int i = 0; i < 2000; i++) {
        snprintf(wanted, sizeof wanted, "%sline %d\n", i < 1000 ? "" : "1| ", i % 1000);
        ck_assert_msg(strncmp(at, wanted, strlen(wanted)) == 0, "line %d: %.40s", i, at);
        at += strlen(wanted);
    }
    ck_assert_str_eq(at, "");
}
END_TEST

/* Random lines from a few words: each rank's lines are shown in the rank's order, each as often as it was printed. */
START_TEST(merging_loses_no_line)
{
    enum { LINES = 3000 };
    static char sent[SHOWN_RANKS][LINES], got[SHOWN_RANKS][LINES + 1];
    int sent_count[SHOWN_RANKS] = { 0 }, got_count[SHOWN_RANKS] = { 0 };
    unsigned seed = 1;
    shown_reset();
    shown_options.console = "dedup";
    ck_assert_int_eq(shown_open(false), 0);
    for (int i = 0; i < LINES; i++) {
        int rank = (int)((seed = seed * 1664525 + 1013904223) >> 16) % SHOWN_RANKS;
        char line[3] = { (char)('a' + (seed >> 20) % 3), '\n', '\0' };
        shown_now += (seed >> 24) % 8 * SHOWN_MILLISECOND;
        sent[rank][sent_count[rank]++] = line[0];
        shown_feed(rank, 0, line);
        if (i % 100 == 99 || i == LINES - 1) {
            if (i == LINES - 1)
                cl_output_finish(&shown_output);
            for (char *rest = strdup(shown_since()), *all = rest, *at; (at = strsep(&rest, "\n")) || (free(all), 0);) {
                int ranks[2 * SHOWN_RANKS], count = 0, used = 0;
                if (*at == '\0')
                    continue;
                if (*at == '[') {
                    for (at++; at[-1] != ']'; at += used + 1) {
                        int from, to, more = 0;
                        ck_assert_int_eq(sscanf(at, "%d%n", &from, &used), 1);
                        to = from;
                        if (sscanf(at + used, "-%d%n", &to, &more) == 1)
                            used += more;
                        for (; from <= to; from++)
                            ranks[count++] = from;
                    }
                    at += 2;
                } else if (at[1] == '|') {
                    ranks[count++] = *at - '0';
                    at += 3;
                } else {
                    ranks[count++] = 0;
                }
                for (int j = 0; j < count; j++)
                    got[ranks[j]][got_count[ranks[j]]++] = *at;
            }
        }
    }
    shown_close();
    for (int rank = 0; rank < SHOWN_RANKS; rank++) {
        ck_assert_int_eq(got_count[rank], sent_count[rank]);
        ck_assert_int_eq(memcmp(got[rank], sent[rank], (size_t)got_count[rank]), 0);
    }
}
END_TEST

/* Three ranks print the same two errors, rank 3 another one, and rank 2 prints a line of its own twice. */
START_TEST(the_last_sentence_of_several_ranks_is_shown_once)
{
    static const char faults[] = "cspeed: a.json:1: no\na.json:2: no\n";
    for (int attempt = 0; attempt < 2; attempt++) {
        shown_reset();
        ck_assert_int_eq(shown_open(false), 0);
        shown_feed(2, 1, "a.json:2: no\n");
        for (int rank = 0; rank < 3; rank++)
            shown_feed(rank, 1, faults);
        shown_feed(3, 1, "cspeed: a.json:1: no\nb.json:2: no\n");
        shown_feed(2, 1, "mine\nmine\n");
        shown_feed(1, 0, "cspeed: a.json:1: no\n"); /* lines on stdout are not merged with those on stderr */
        ck_assert_str_eq(shown_since(), "2| a.json:2: no\ncspeed: a.json:1: no\na.json:2: no\n3| b.json:2: no\n"
                                        "2| mine\n2| mine\n1| cspeed: a.json:1: no\n");
        ck_assert_int_eq(cl_output_rank(&shown_output), 0); /* in the next attempt the same error is shown again */
        shown_feed(1, 1, faults);
        ck_assert_str_eq(shown_since(), "1| cspeed: a.json:1: no\n1| a.json:2: no\n");
        shown_close();
    }
}
END_TEST

SUITE_MAIN("collapse", merging_keeps_the_order_of_each_rank, merging_delays_a_line_at_most_100_ms,
           many_lines_may_wait_to_be_merged, merging_loses_no_line, the_last_sentence_of_several_ranks_is_shown_once)
