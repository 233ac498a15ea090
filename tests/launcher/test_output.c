/* test_output.c - the output of ranks: prefixes, progress lines, JSON, and a console that is blocked. */
#include "shown.h"
#include "suite.h"

#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- prefixes and which ranks are shown ---- */

typedef struct {
    const char *console, *prefix;
    bool no_prefix;
    int node_count;
    const char *expected;
} view;

START_TEST(lines_have_the_prefix_of_their_rank)
{
    static const view views[] = {
        { NULL, NULL, false, 1, "a\n1| a\n2| a\n3| e\n" },
        { NULL, NULL, false, 2, "w0:0| a\nw0:1| a\nw1:2| a\nw1:3| e\n" },
        { NULL, NULL, true, 2, "a\na\na\ne\n" },
        { NULL, "{node}/{local_rank} {host} {stream}> ", false, 2,
          "0/0 w0 out> a\n0/1 w0 out> a\n1/0 w1 out> a\n1/1 w1 err> e\n" },
        { NULL, "{rank} {} { {x y} ", false, 1, "0 {} { {x y} a\n1 {} { {x y} a\n2 {} { {x y} a\n3 {} { {x y} e\n" },
        { "all", "", false, 1, "a\na\na\ne\n" },
        { "first", NULL, false, 1, "a\n" },
        { "none", NULL, false, 1, "" },
        { "1,3", NULL, false, 1, "1| a\n3| e\n" },
        { "1-2", NULL, false, 1, "1| a\n2| a\n" },
        { "3-9,0", NULL, false, 2, "w0:0| a\nw1:3| e\n" },
        { "dedup", NULL, false, 1, "[0-2]| a  (x3 identical)\n3| e\n" },
        { "dedup", NULL, false, 2, "*:[0-2]| a  (x3 identical)\nw1:3| e\n" },
        { "dedup", NULL, true, 2, "a  (x3 identical)\ne\n" },
        { "dedup", "{host} {node} {rank} {local_rank}: ", false, 2, "* * [0-2] *: a  (x3 identical)\nw1 1 3 1: e\n" },
    };
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        shown_reset();
        shown_make_plan(views[i].node_count, SHOWN_RANKS);
        shown_options.console = views[i].console;
        shown_options.prefix = views[i].prefix;
        shown_options.no_prefix = views[i].no_prefix;
        ck_assert_int_eq(shown_open(false), 0);
        for (int rank = 0; rank < 3; rank++)
            shown_feed(rank, 0, "a\n");
        shown_feed(3, 1, "e\n");
        const char *got = shown_close();
        ck_assert_msg(strcmp(got, views[i].expected) == 0, "case %zu: %s", i, got);
    }
}
END_TEST

/* As with torchrun, a stream that --redirects names is shown only if --tee names it too. */
START_TEST(streams_are_redirected)
{
    static const struct {
        int node_count;
        const char *redirects, *tee, *console, *expected;
    } rows[] = {
        { 1, "0", "3", NULL, "a\n1| a\n2| a\n3| e\n" },
        { 1, "3", NULL, NULL, "" },
        { 1, "1", NULL, NULL, "3| e\n" },
        { 1, "2", NULL, NULL, "a\n1| a\n2| a\n" },
        { 1, "3", "3", NULL, "a\n1| a\n2| a\n3| e\n" },
        { 1, "3", "2", NULL, "3| e\n" },
        { 1, "3", "1", "1", "1| a\n" },
        { 2, "0:2,1:3", "0:1", NULL, "w0:0| a\nw1:2| a\n" },
        { 2, "3", "1:3", NULL, "w0:1| a\nw1:3| e\n" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        shown_reset();
        shown_make_plan(rows[i].node_count, SHOWN_RANKS);
        shown_options.redirects = rows[i].redirects;
        shown_options.tee = rows[i].tee;
        shown_options.console = rows[i].console;
        ck_assert_int_eq(shown_open(false), 0);
        for (int rank = 0; rank < 3; rank++)
            shown_feed(rank, 0, "a\n");
        shown_feed(3, 1, "e\n");
        const char *got = shown_close();
        ck_assert_msg(strcmp(got, rows[i].expected) == 0, "case %zu: %s", i, got);
    }
}
END_TEST

START_TEST(wrong_flags_are_refused)
{
    static const struct {
        const char *console, *prefix, *says;
    } faults[] = {
        { "some", NULL, "--console" },
        { "", NULL, "--console" },
        { "0,", NULL, "--console" },
        { "2-1", NULL, "--console" },
        { "-1", NULL, "--console" },
        { "4-9", NULL, "0 to 3" },
        { NULL, "{rnak}| ", "{rnak} is not known" },
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        shown_reset();
        shown_options.console = faults[i].console;
        shown_options.prefix = faults[i].prefix;
        int code = shown_open(false);
        shown_close();
        ck_assert_msg(code == 64, "case %zu: %d", i, code);
        ck_assert_msg(strstr(cs_error(), faults[i].says) != NULL, "case %zu: %s", i, cs_error());
    }
}
END_TEST

START_TEST(timestamps_are_printed)
{
    shown_reset();
    shown_options.timestamps = true;
    ck_assert_int_eq(shown_open(false), 0);
    shown_feed(1, 0, "x\n");
    int hour, minute, second, part, end = 0;
    ck_assert_int_eq(sscanf(shown_close(), "%2d:%2d:%2d.%3d 1| x\n%n", &hour, &minute, &second, &part, &end), 4);
    ck_assert_int_gt(end, 0);
}
END_TEST

/* ---- lines and states ---- */

START_TEST(a_file_gets_the_bytes_of_a_rank)
{
    static const struct {
        const char *bytes, *expected;
    } cases[] = {
        { "no end", "no end\n" },       { "\n\na\n", "\n\na\n" },
        { "a\r\nb\r\n", "a\r\nb\r\n" }, { "10%\r20%\r30%\ndone\n", "10%\r20%\r30%\ndone\n" },
        { "x\ry\r", "x\ry\r\n" },       { "\033[31mred\033[0m\n", "\033[31mred\033[0m\n" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t cut = 0; cut <= strlen(cases[i].bytes); cut++) {
            shown_reset();
            ck_assert_int_eq(shown_open(false), 0);
            cl_output_feed(&shown_output, 0, 0, cases[i].bytes, cut, shown_now);
            shown_feed(0, 0, cases[i].bytes + cut);
            const char *got = shown_close();
            ck_assert_msg(strcmp(got, cases[i].expected) == 0, "case %zu cut at %zu: %s", i, cut, got);
        }
}
END_TEST

START_TEST(unfinished_text_is_shown_and_broken)
{
    shown_reset();
    ck_assert_int_eq(shown_open(false), 0);
    shown_feed(0, 0, "waiting");
    ck_assert_str_eq(shown_since(), "");
    ck_assert_int_le(cl_output_due(&shown_output), shown_now + SHOWN_SECOND / 5);
    shown_now += SHOWN_SECOND / 4;
    ck_assert_str_eq(shown_since(), "waiting");
    shown_feed(1, 0, "other\n");
    ck_assert_str_eq(shown_since(), "\\\n1| other\n");
    shown_feed(0, 0, " done\n");
    ck_assert_str_eq(shown_close(), " done\n");
}
END_TEST

/* An unfinished line is held back while other ranks print lines. If its end does not arrive within five seconds, it is
 * shown unfinished. */
START_TEST(unfinished_text_waits_for_a_pause)
{
    shown_reset();
    ck_assert_int_eq(shown_open(false), 0);
    shown_feed(0, 0, "half ");
    for (int i = 0; i < 30; i++) {
        shown_now += SHOWN_SECOND / 10;
        shown_feed(1, 0, "busy\n");
        ck_assert_str_eq(shown_since(), "1| busy\n");
    }
    shown_feed(0, 0, "whole\nnext");
    ck_assert_str_eq(shown_since(), "half whole\n");
    int shown_at = 0;
    for (int i = 1; i < 100 && !shown_at; i++) {
        shown_now += SHOWN_SECOND / 10;
        shown_feed(1, 0, "busy\n");
        shown_at = strstr(shown_since(), "next") ? i : 0;
    }
    ck_assert_int_ge(shown_at, 50);
    ck_assert_int_le(shown_at, 52);
    shown_close();
}
END_TEST

START_TEST(long_lines_are_broken)
{
    shown_reset();
    shown_options.prefix = "> ";
    ck_assert_int_eq(shown_open(false), 0);
    char *line = malloc(100001);
    memset(line, 'x', 100000);
    line[100000] = '\n';
    cl_output_feed(&shown_output, 0, 0, line, 100001, shown_now);
    free(line);
    const char *got = shown_close(), *broken = strstr(got, "\\\n> ");
    ck_assert_int_eq(broken - got, 2 + (64 << 10));
    ck_assert_uint_eq(strlen(got), 100001 + 4 + 2);
}
END_TEST

/* ---- a terminal ---- */

START_TEST(the_lowest_rank_shows_progress)
{
    shown_reset();
    setenv("NO_COLOR", "1", 1);
    ck_assert_int_eq(shown_open(true), 0);
    shown_feed(2, 0, "\r10%");
    ck_assert_str_eq(shown_since(), "\r2| 10%\033[K");
    shown_feed(1, 0, "\r11%"); /* rank 1's progress line replaces rank 2's */
    ck_assert_str_eq(shown_since(), "\r1| 11%\033[K");
    shown_feed(2, 0, "\r20%"); /* rank 2's progress line is not shown, because rank 1, a lower rank, shows progress */
    ck_assert_str_eq(shown_since(), "");
    shown_feed(3, 0, "a line\n");
    shown_now += 100 * SHOWN_MILLISECOND;
    shown_since();
    /* rank 3's line is printed in the row above rank 1's progress line */
    ck_assert_str_eq(shown_text, "\r\033[K3| a line\n\r1| 11%\033[K");
    shown_feed(1, 0, "\r100%\n");
    shown_now += 100 * SHOWN_MILLISECOND;
    shown_since();
    ck_assert_msg(strstr(shown_text, "1| 100%\n") && !strstr(shown_text, "11%"), "%s", shown_text);
    shown_feed(2, 0, "\r30%"); /* now no other rank's progress is shown */
    ck_assert_str_eq(shown_since(), "\r2| 30%\033[K");
    shown_close();
}
END_TEST

/* The progress is cut to the 40 columns of the terminal, prefix included and color codes not counted, so that it stays
 * in one row. */
START_TEST(progress_stays_in_one_row)
{
    static const char wide[] = "\rstep 1  loss 2.0  lr 1.0e-03  ETA 0:12345\033[K";
    shown_reset();
    setenv("NO_COLOR", "1", 1);
    ck_assert_int_eq(shown_open(true), 0);
    shown_feed(2, 0, "\rstep 1\033[K");
    ck_assert_str_eq(shown_since(), "\r2| step 1\033[K"); /* the rank's own "\033[K" is not repeated */
    shown_feed(2, 0, wide);
    ck_assert_str_eq(shown_since(), "\r2| step 1  loss 2.0  lr 1.0e-03  ETA 0:\033[K");
    shown_feed(2, 0, "\r\033[31mstep 1  loss 2.0  lr 1.0e-03  ETA 0:12345\033[0m\033[K");
    ck_assert_str_eq(shown_since(), "\r2| \033[31mstep 1  loss 2.0  lr 1.0e-03  ETA 0:\033[0m\033[K");
    shown_close();
}
END_TEST

START_TEST(a_terminal_merges_and_colors_lines)
{
    static const struct {
        const char *color, *none, *prefix, *alarm;
    } cases[] = {
        { NULL, NULL, "\033[2m1| \033[0mx\n", "\033[31mcspeed: job a failed: y\033[0m\n" },
        { "auto", "1", "1| x\n", "\ncspeed: job a failed: y\n" },
        { "never", NULL, "1| x\n", "\ncspeed: job a failed: y\n" },
        { "always", "1", "\033[2m1| \033[0mx\n", "\033[31mcspeed: job a failed: y\033[0m\n" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shown_reset();
        shown_options.color = cases[i].color;
        if (cases[i].none)
            setenv("NO_COLOR", cases[i].none, 1);
        ck_assert_int_eq(shown_open(true), 0);
        shown_feed(1, 0, "x\n");
        for (int rank = 0; rank < SHOWN_RANKS; rank++)
            shown_feed(rank, 0, "same\n");
        cl_output_say(&shown_output, "cspeed: job a runs\ncspeed: job a failed: y\n");
        const char *got = shown_close();
        ck_assert_msg(strstr(got, cases[i].prefix) && strstr(got, cases[i].alarm), "case %zu: %s", i, got);
        ck_assert_msg(strstr(got, "same  (x4 identical)\n") != NULL, "case %zu: %s", i, got);
    }
}
END_TEST

/* ---- JSON ---- */

START_TEST(every_line_is_an_object)
{
    static const struct {
        const char *line, *text;
    } cases[] = {
        { "plain", "plain" },
        { "a \"b\" \\ \t \001 \x7f", "a \"b\" \\ \t \001 \x7f" },
        { "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80" },
        { "\xff\xfe", "\\xff\\xfe" },
        { "\xc3", "\\xc3" },                                       /* a truncated character */
        { "\xc0\xaf \xe0\x80\xaf", "\\xc0\\xaf \\xe0\\x80\\xaf" }, /* overlong encodings */
        { "\xed\xa0\x80", "\\xed\\xa0\\x80" },                     /* a surrogate */
        { "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" },            /* above U+10FFFF */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shown_reset();
        shown_options.log_json = true;
        shown_make_plan(2, SHOWN_RANKS);
        ck_assert_int_eq(shown_open(false), 0);
        shown_feed(3, 1, cases[i].line);
        /* In JSON an unfinished line is not shown, however long it waits. */
        shown_now += SHOWN_SECOND;
        ck_assert_str_eq(shown_since(), "");
        shown_feed(3, 1, "\n");
        const char *got = shown_close();
        json_t *object = json_loads(got, 0, NULL);
        ck_assert_msg(object != NULL, "case %zu: %s", i, got);
        ck_assert_str_eq(json_string_value(json_object_get(object, "text")), cases[i].text);
        ck_assert_str_eq(json_string_value(json_object_get(object, "host")), "w1");
        ck_assert_str_eq(json_string_value(json_object_get(object, "stream")), "stderr");
        ck_assert_int_eq(json_integer_value(json_object_get(object, "rank")), 3);
        ck_assert_uint_eq(strlen(json_string_value(json_object_get(object, "time"))), 24);
        json_decref(object);
    }
}
END_TEST

/* A progress line has no '\n'. Its objects are marked as parts of a line. */
START_TEST(progress_becomes_objects)
{
    shown_reset();
    shown_options.log_json = true;
    ck_assert_int_eq(shown_open(false), 0);
    shown_feed(0, 0, "10%\r20%");
    shown_now += SHOWN_SECOND;
    ck_assert_ptr_nonnull(strstr(shown_since(), "\"text\": \"10%\\r20%\", \"broken\": true}\n"));
    shown_feed(0, 0, "\r30%\n");
    ck_assert_ptr_nonnull(strstr(shown_close(), "\"text\": \"\\r30%\"}\n"));
}
END_TEST

START_TEST(any_bytes_are_json)
{
    shown_reset();
    shown_options.log_json = true;
    ck_assert_int_eq(shown_open(false), 0);
    char line[257];
    unsigned seed = 7;
    size_t count = 0;
    for (int i = 0; i < 100; i++) {
        for (int j = 0; j < 256; j++)
            do
                line[j] = (char)((seed = seed * 1664525 + 1013904223) >> 24);
            while (line[j] == '\n');
        line[256] = '\n';
        cl_output_feed(&shown_output, 0, 0, line, 257, shown_now);
        char *rest = strdup(shown_since()), *all = rest, *at;
        while ((at = strsep(&rest, "\n"))) {
            json_t *object = *at ? json_loads(at, JSON_ALLOW_NUL, NULL) : NULL;
            ck_assert_msg(!*at || object, "%s", at);
            count += object != NULL;
            json_decref(object);
        }
        free(all);
    }
    ck_assert_uint_eq(count, 100);
    cl_output_say(&shown_output, "cspeed: \"x\"");
    json_t *object = json_loads(shown_close(), 0, NULL);
    ck_assert_str_eq(json_string_value(json_object_get(object, "stream")), "launcher");
    ck_assert_str_eq(json_string_value(json_object_get(object, "text")), "cspeed: \"x\"");
    ck_assert(json_is_null(json_object_get(object, "rank")));
    json_decref(object);
}
END_TEST

/* ---- a blocked console ---- */

START_TEST(a_blocked_console_drops_lines_and_says_so)
{
    enum { BYTES = 64 << 10 };
    static char block[BYTES];
    for (int i = 0; i < BYTES; i++)
        block[i] = i % 64 == 63 ? '\n' : 'x';
    shown_reset();
    ck_assert_int_eq(shown_open(false), 0);
    shown_output.log_dir = "/logs/here";
    int before = 0;
    for (; cl_output_has_room(&shown_output) && before < 1000; before++) {
        cl_output_feed(&shown_output, 0, 0, block, BYTES, shown_now);
        cl_output_serve(&shown_output, shown_now);
    }
    ck_assert_int_lt(before, 1000); /* the console's buffer is full: agents get no more credit to send */
    ck_assert(cl_output_waits(&shown_output));
    for (int i = 0; i < 100; i++) /* what agents had already sent is kept */
        cl_output_feed(&shown_output, 0, 0, block, BYTES, shown_now);
    shown_now += 4 * SHOWN_SECOND;
    cl_output_serve(&shown_output, shown_now);
    ck_assert(!cl_output_has_room(&shown_output));
    shown_now += 2 * SHOWN_SECOND;
    cl_output_serve(&shown_output, shown_now);
    /* after 5 s the console counts as blocked: its output is dropped and ranks continue */
    ck_assert(cl_output_has_room(&shown_output));
    for (int i = 0; i < 500; i++)
        cl_output_feed(&shown_output, 0, 0, block, BYTES, shown_now);
    size_t kept_bytes = 0;
    for (int i = 0; i < 1000 && cl_output_waits(&shown_output); i++)
        kept_bytes += strlen(shown_since());
    ck_assert_uint_eq(kept_bytes, (size_t)(before + 100) * BYTES);
    shown_feed(0, 0, "again\n");
    const char *got = shown_close();
    long lines;
    ck_assert_int_eq(sscanf(got, "cspeed: %ld lines dropped", &lines), 1);
    /* each line was either shown or counted as dropped */
    ck_assert_uint_eq((size_t)lines * 64 + kept_bytes, (size_t)(before + 600) * BYTES);
    ck_assert_ptr_nonnull(strstr(got, "all are in /logs/here\nagain\n"));
}
END_TEST

START_TEST(the_number_of_ranks_may_change)
{
    shown_reset();
    shown_options.console = "dedup";
    ck_assert_int_eq(shown_open(false), 0);
    shown_feed(3, 0, "a\nunfinished");
    shown_make_plan(2, 2);
    ck_assert_int_eq(cl_output_rank(&shown_output), 0);
    shown_feed(1, 0, "b\n");
    ck_assert_str_eq(shown_close(), "3| a\n3| unfinished\nw1:1| b\n");
}
END_TEST

SUITE_MAIN("output", lines_have_the_prefix_of_their_rank, streams_are_redirected, wrong_flags_are_refused,
           timestamps_are_printed, a_file_gets_the_bytes_of_a_rank, unfinished_text_is_shown_and_broken,
           unfinished_text_waits_for_a_pause, long_lines_are_broken, the_lowest_rank_shows_progress,
           progress_stays_in_one_row, a_terminal_merges_and_colors_lines, every_line_is_an_object,
           progress_becomes_objects, any_bytes_are_json, a_blocked_console_drops_lines_and_says_so,
           the_number_of_ranks_may_change)
