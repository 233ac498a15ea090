/* test_output.c - the output of ranks: prefixes, merging, progress lines, JSON, and a console that is blocked. */
#include "suite.h"

#include "show/output.h"

#include "base/json.h"
#include "base/status.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define MILLISECOND INT64_C(1000000)
#define SECOND INT64_C(1000000000)

enum { TEXT_BYTES = 1 << 20, RANKS = 4, STEPS = 16 };

/* ---- a plan, a console ---- */

static cl_options options;
static int slots[RANKS] = { 0, 1, 2, 3 };
static cl_host hosts[2] = { { .name = "w0", .slots = slots }, { .name = "w1", .slots = slots } };
static cl_plan_node nodes[2] = { { .host = &hosts[0] }, { .host = &hosts[1] } };
static cl_plan plan = { .options = &options, .nodes = nodes };
static cl_output output;
static int kept[2], reader; /* kept: the outputs of this program itself; reader: receives the bytes of the consoles */
static char text[TEXT_BYTES];
static int64_t now;

/* Makes a plan of `count` ranks on one node, or of two nodes with two ranks each. */
static void make_plan(int node_count, int count)
{
    plan.node_count = node_count;
    plan.rank_count = count;
    hosts[0].slot_count = count / node_count;
    hosts[1].slot_count = count / node_count;
    nodes[1].first_rank = hosts[0].slot_count;
}

static void keep_outputs(void)
{
    fflush(NULL);
    kept[0] = dup(1);
    kept[1] = dup(2);
}

static void restore_outputs(void)
{
    dup2(kept[0], 1);
    dup2(kept[1], 2);
    close(kept[0]);
    close(kept[1]);
}

/* Opens the consoles while stdout and stderr are a pipe, or a terminal. Returns the result of cl_output_open. */
static int open_output(bool terminal)
{
    int ends[2];
    if (terminal) {
        struct winsize size = { .ws_row = 24, .ws_col = 40 };
        ends[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
        ck_assert_int_eq(grantpt(ends[0]) | unlockpt(ends[0]), 0);
        ends[1] = open(ptsname(ends[0]), O_RDWR | O_NOCTTY | O_CLOEXEC);
        struct termios raw;
        tcgetattr(ends[1], &raw);
        cfmakeraw(&raw); /* raw mode: '\n' is not changed */
        tcsetattr(ends[1], TCSANOW, &raw);
        ioctl(ends[1], TIOCSWINSZ, &size);
        setenv("TERM", "xterm", 1);
    } else {
        ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    }
    reader = ends[0];
    fcntl(reader, F_SETFL, O_NONBLOCK);
    keep_outputs();
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    now = SECOND;
    int code = cl_output_open(&output, &plan, now);
    restore_outputs(); /* the consoles have duplicated the descriptors */
    close(ends[1]);
    return code;
}

/* Returns what has been shown since the last call. */
static const char *shown(void)
{
    size_t length = 0;
    ssize_t part;
    for (int i = 0; i < 2; i++) {
        cl_output_serve(&output, now);
        while ((part = read(reader, text + length, TEXT_BYTES - 1 - length)) > 0)
            length += (size_t)part;
    }
    text[length] = '\0';
    return text;
}

static const char *close_output(void)
{
    cl_output_finish(&output);
    shown();
    cl_output_close(&output);
    close(reader);
    return text;
}

static void feed(int rank, int which, const char *bytes)
{
    cl_output_feed(&output, rank, which, bytes, strlen(bytes), now);
}

static void reset(void)
{
    memset(&options, 0, sizeof options);
    unsetenv("NO_COLOR");
    make_plan(1, RANKS);
}

/* ---- prefixes and which ranks are shown ---- */

typedef struct {
    const char *console, *prefix;
    bool no_prefix;
    int node_count;
    const char *expected;
} view;

START_TEST(prefixes)
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
        reset();
        make_plan(views[i].node_count, RANKS);
        options.console = views[i].console;
        options.prefix = views[i].prefix;
        options.no_prefix = views[i].no_prefix;
        ck_assert_int_eq(open_output(false), 0);
        for (int rank = 0; rank < 3; rank++)
            feed(rank, 0, "a\n");
        feed(3, 1, "e\n");
        const char *got = close_output();
        ck_assert_msg(strcmp(got, views[i].expected) == 0, "case %zu: %s", i, got);
    }
}
END_TEST

START_TEST(faults_of_flags)
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
        reset();
        options.console = faults[i].console;
        options.prefix = faults[i].prefix;
        int code = open_output(false);
        close_output();
        ck_assert_msg(code == 64, "case %zu: %d", i, code);
        ck_assert_msg(strstr(cs_error(), faults[i].says) != NULL, "case %zu: %s", i, cs_error());
    }
}
END_TEST

START_TEST(timestamps)
{
    reset();
    options.timestamps = true;
    ck_assert_int_eq(open_output(false), 0);
    feed(1, 0, "x\n");
    int hour, minute, second, part, end = 0;
    ck_assert_int_eq(sscanf(close_output(), "%2d:%2d:%2d.%3d 1| x\n%n", &hour, &minute, &second, &part, &end), 4);
    ck_assert_int_gt(end, 0);
}
END_TEST

/* ---- lines and states ---- */

START_TEST(odd_lines)
{
    static const struct {
        const char *bytes, *expected;
    } cases[] = {
        { "no end", "no end\n" },
        { "\n\na\n", "\n\na\n" },
        { "a\r\nb\r\n", "a\nb\n" },
        { "10%\r20%\r30%\ndone\n", "30%\ndone\n" },
        { "\r10%\r20%\n", "20%\n" },
        { "x\ry\r", "y\n" },
        { "\033[31mred\033[0m\n", "\033[31mred\033[0m\n" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t cut = 0; cut <= strlen(cases[i].bytes); cut++) {
            reset();
            ck_assert_int_eq(open_output(false), 0);
            cl_output_feed(&output, 0, 0, cases[i].bytes, cut, now);
            feed(0, 0, cases[i].bytes + cut);
            const char *got = close_output();
            ck_assert_msg(strcmp(got, cases[i].expected) == 0, "case %zu cut at %zu: %s", i, cut, got);
        }
}
END_TEST

START_TEST(unfinished_text_is_shown_and_broken)
{
    reset();
    ck_assert_int_eq(open_output(false), 0);
    feed(0, 0, "waiting");
    ck_assert_str_eq(shown(), "");
    ck_assert_int_le(cl_output_due(&output), now + SECOND / 5);
    now += SECOND / 4;
    ck_assert_str_eq(shown(), "waiting");
    feed(1, 0, "other\n");
    ck_assert_str_eq(shown(), "\\\n1| other\n");
    feed(0, 0, " done\n");
    ck_assert_str_eq(close_output(), " done\n");
}
END_TEST

/* If other ranks print all the time, an unfinished line is not broken; but it does not wait forever. */
START_TEST(unfinished_text_waits_for_a_pause)
{
    reset();
    ck_assert_int_eq(open_output(false), 0);
    feed(0, 0, "half ");
    for (int i = 0; i < 30; i++) {
        now += SECOND / 10;
        feed(1, 0, "busy\n");
        ck_assert_str_eq(shown(), "1| busy\n");
    }
    feed(0, 0, "whole\nnext");
    ck_assert_str_eq(shown(), "half whole\n");
    int shown_at = 0;
    for (int i = 1; i < 100 && !shown_at; i++) {
        now += SECOND / 10;
        feed(1, 0, "busy\n");
        shown_at = strstr(shown(), "next") ? i : 0;
    }
    ck_assert_int_ge(shown_at, 50);
    ck_assert_int_le(shown_at, 52);
    close_output();
}
END_TEST

START_TEST(long_lines_are_broken)
{
    reset();
    options.prefix = "> ";
    ck_assert_int_eq(open_output(false), 0);
    char *line = malloc(100001);
    memset(line, 'x', 100000);
    line[100000] = '\n';
    cl_output_feed(&output, 0, 0, line, 100001, now);
    free(line);
    const char *got = close_output(), *broken = strstr(got, "\\\n> ");
    ck_assert_int_eq(broken - got, 2 + (64 << 10));
    ck_assert_uint_eq(strlen(got), 100001 + 4 + 2);
}
END_TEST

/* ---- merging lines ---- */

typedef struct {
    int rank;
    const char *bytes;
    int milliseconds; /* time before it */
} said;

START_TEST(collapsing_keeps_order_and_all)
{
    static const struct {
        said steps[STEPS];
        const char *expected;
    } cases[] = {
        /* all ranks print the same line: it is shown at once */
        { { { 0, "a\n", 0 }, { 1, "a\n", 0 }, { 2, "a\n", 0 }, { 3, "a\n", 0 } }, "[0-3]| a  (x4 identical)\n" },
        /* several lines, rank after rank */
        { { { 0, "a\nb\n", 0 }, { 3, "a\nb\n", 0 } }, "[0,3]| a  (x2 identical)\n[0,3]| b  (x2 identical)\n" },
        /* a rank that repeats a line does not count as another rank */
        { { { 0, "a\na\n", 0 }, { 1, "a\n", 0 } }, "[0-1]| a  (x2 identical)\na\n" },
        /* joining the earlier line would change the order of rank 1's lines */
        { { { 0, "a\n", 0 }, { 1, "b\n", 0 }, { 1, "a\n", 0 } }, "a\n1| b\n1| a\n" },
        { { { 0, "a\nb\n", 0 }, { 1, "b\na\n", 0 } }, "a\n[0-1]| b  (x2 identical)\n1| a\n" },
        /* comes too late */
        { { { 0, "a\n", 0 }, { 1, "a\n", 150 } }, "a\n1| a\n" },
        { { { 0, "a\n", 0 }, { 1, "a\n", 50 }, { 2, "a\n", 90 } }, "[0-1]| a  (x2 identical)\n2| a\n" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reset();
        options.console = "dedup";
        ck_assert_int_eq(open_output(false), 0);
        char all[4096] = "";
        for (const said *step = cases[i].steps; step->bytes; step++) {
            now += step->milliseconds * MILLISECOND;
            strcat(all, shown());
            feed(step->rank, 0, step->bytes);
        }
        strcat(all, close_output());
        ck_assert_msg(strcmp(all, cases[i].expected) == 0, "case %zu: %s", i, all);
    }
}
END_TEST

START_TEST(collapsing_does_not_delay)
{
    reset();
    options.console = "dedup";
    ck_assert_int_eq(open_output(false), 0);
    feed(0, 0, "a\n");
    ck_assert_str_eq(shown(), "");
    ck_assert_int_le(cl_output_due(&output), now + 100 * MILLISECOND);
    now = cl_output_due(&output);
    ck_assert_str_eq(shown(), "a\n");
    feed(1, 0, "b\n");
    cl_output_say(&output, "cspeed: a word"); /* comes after what was printed before it */
    ck_assert_str_eq(shown(), "1| b\ncspeed: a word\n");
    close_output();
}
END_TEST

START_TEST(many_lines_may_wait)
{
    reset();
    options.console = "dedup";
    ck_assert_int_eq(open_output(false), 0);
    char line[32], wanted[64];
    for (int rank = 0; rank < 2; rank++)
        for (int i = 0; i < 1000; i++) {
            snprintf(line, sizeof line, "line %d\n", i);
            feed(rank, 0, line);
        }
    const char *at = close_output();
    /* more lines than can wait: the oldest are shown, and lines are no longer merged */
    for (int i = 0; i < 2000; i++) {
        snprintf(wanted, sizeof wanted, "%sline %d\n", i < 1000 ? "" : "1| ", i % 1000);
        ck_assert_msg(strncmp(at, wanted, strlen(wanted)) == 0, "line %d: %.40s", i, at);
        at += strlen(wanted);
    }
    ck_assert_str_eq(at, "");
}
END_TEST

/* Random lines of few words: the lines of every rank are shown in its order, each as often as it was printed. */
START_TEST(collapsing_loses_nothing)
{
    enum { LINES = 3000 };
    static char sent[RANKS][LINES], got[RANKS][LINES + 1];
    int sent_count[RANKS] = { 0 }, got_count[RANKS] = { 0 };
    unsigned seed = 1;
    reset();
    options.console = "dedup";
    ck_assert_int_eq(open_output(false), 0);
    for (int i = 0; i < LINES; i++) {
        int rank = (int)((seed = seed * 1664525 + 1013904223) >> 16) % RANKS;
        char line[3] = { (char)('a' + (seed >> 20) % 3), '\n', '\0' };
        now += (seed >> 24) % 8 * MILLISECOND;
        sent[rank][sent_count[rank]++] = line[0];
        feed(rank, 0, line);
        if (i % 100 == 99 || i == LINES - 1) {
            if (i == LINES - 1)
                cl_output_finish(&output);
            for (char *rest = strdup(shown()), *all = rest, *at; (at = strsep(&rest, "\n")) || (free(all), 0);) {
                int ranks[2 * RANKS], count = 0, used = 0;
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
    close_output();
    for (int rank = 0; rank < RANKS; rank++) {
        ck_assert_int_eq(got_count[rank], sent_count[rank]);
        ck_assert_int_eq(memcmp(got[rank], sent[rank], (size_t)got_count[rank]), 0);
    }
}
END_TEST

/* ---- a terminal ---- */

START_TEST(progress_of_the_lowest_rank)
{
    reset();
    setenv("NO_COLOR", "1", 1);
    ck_assert_int_eq(open_output(true), 0);
    feed(2, 0, "\r10%");
    ck_assert_str_eq(shown(), "\r2| 10%\033[K");
    feed(1, 0, "\r11%"); /* a lower rank replaces the state */
    ck_assert_str_eq(shown(), "\r1| 11%\033[K");
    feed(2, 0, "\r20%"); /* the state of a higher rank is not shown */
    ck_assert_str_eq(shown(), "");
    feed(3, 0, "a line\n");
    now += 100 * MILLISECOND;
    shown();
    ck_assert_str_eq(text, "\r\033[K3| a line\n\r1| 11%\033[K"); /* the line is printed above the state */
    feed(1, 0, "\r100%\n");
    now += 100 * MILLISECOND;
    shown();
    ck_assert_msg(strstr(text, "1| 100%\n") && !strstr(text, "11%"), "%s", text);
    feed(2, 0, "\r30%"); /* no other rank shows a state now */
    ck_assert_str_eq(shown(), "\r2| 30%\033[K");
    close_output();
}
END_TEST

/* The state is cut to the 40 columns of the terminal, whatever the prefix and the color, so that it stays one row. */
START_TEST(progress_stays_in_one_row)
{
    static const char wide[] = "\rstep 1  loss 2.0  lr 1.0e-03  ETA 0:12345\033[K";
    reset();
    setenv("NO_COLOR", "1", 1);
    ck_assert_int_eq(open_output(true), 0);
    feed(2, 0, "\rstep 1\033[K");
    ck_assert_str_eq(shown(), "\r2| step 1\033[K"); /* the rank's own end of the row is not repeated */
    feed(2, 0, wide);
    ck_assert_str_eq(shown(), "\r2| step 1  loss 2.0  lr 1.0e-03  ETA 0:\033[K");
    feed(2, 0, "\r\033[31mstep 1  loss 2.0  lr 1.0e-03  ETA 0:12345\033[0m\033[K");
    ck_assert_str_eq(shown(), "\r2| \033[31mstep 1  loss 2.0  lr 1.0e-03  ETA 0:\033[0m\033[K");
    close_output();
}
END_TEST

START_TEST(terminals_collapse_and_color)
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
        reset();
        options.color = cases[i].color;
        if (cases[i].none)
            setenv("NO_COLOR", cases[i].none, 1);
        ck_assert_int_eq(open_output(true), 0);
        feed(1, 0, "x\n");
        for (int rank = 0; rank < RANKS; rank++)
            feed(rank, 0, "same\n");
        cl_output_say(&output, "cspeed: job a runs\ncspeed: job a failed: y\n");
        const char *got = close_output();
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
        { "\xc3", "\\xc3" },                                       /* truncated */
        { "\xc0\xaf \xe0\x80\xaf", "\\xc0\\xaf \\xe0\\x80\\xaf" }, /* overlong */
        { "\xed\xa0\x80", "\\xed\\xa0\\x80" },                     /* a surrogate */
        { "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" },            /* above U+10FFFF */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reset();
        options.log_json = true;
        make_plan(2, RANKS);
        ck_assert_int_eq(open_output(false), 0);
        feed(3, 1, cases[i].line);
        now += SECOND; /* no line is left open */
        ck_assert_str_eq(shown(), "");
        feed(3, 1, "\n");
        const char *got = close_output();
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

START_TEST(any_bytes_are_json)
{
    reset();
    options.log_json = true;
    ck_assert_int_eq(open_output(false), 0);
    char line[257];
    unsigned seed = 7;
    size_t count = 0;
    for (int i = 0; i < 100; i++) {
        for (int j = 0; j < 256; j++)
            do
                line[j] = (char)((seed = seed * 1664525 + 1013904223) >> 24);
            while (line[j] == '\n' || line[j] == '\r');
        line[256] = '\n';
        cl_output_feed(&output, 0, 0, line, 257, now);
        char *rest = strdup(shown()), *all = rest, *at;
        while ((at = strsep(&rest, "\n"))) {
            json_t *object = *at ? json_loads(at, JSON_ALLOW_NUL, NULL) : NULL;
            ck_assert_msg(!*at || object, "%s", at);
            count += object != NULL;
            json_decref(object);
        }
        free(all);
    }
    ck_assert_uint_eq(count, 100);
    cl_output_say(&output, "cspeed: \"x\"");
    json_t *object = json_loads(close_output(), 0, NULL);
    ck_assert_str_eq(json_string_value(json_object_get(object, "stream")), "launcher");
    ck_assert_str_eq(json_string_value(json_object_get(object, "text")), "cspeed: \"x\"");
    ck_assert(json_is_null(json_object_get(object, "rank")));
    json_decref(object);
}
END_TEST

/* ---- a blocked console ---- */

START_TEST(a_console_that_stands_still)
{
    enum { BYTES = 64 << 10 };
    static char block[BYTES];
    for (int i = 0; i < BYTES; i++)
        block[i] = i % 64 == 63 ? '\n' : 'x';
    reset();
    ck_assert_int_eq(open_output(false), 0);
    output.log_dir = "/logs/here";
    int before = 0;
    for (; cl_output_has_room(&output) && before < 1000; before++) {
        cl_output_feed(&output, 0, 0, block, BYTES, now);
        cl_output_serve(&output, now);
    }
    ck_assert_int_lt(before, 1000); /* the agents receive no more credit */
    ck_assert(cl_output_waits(&output));
    for (int i = 0; i < 100; i++) /* bytes that agents have sent already are still kept */
        cl_output_feed(&output, 0, 0, block, BYTES, now);
    now += 4 * SECOND;
    cl_output_serve(&output, now);
    ck_assert(!cl_output_has_room(&output));
    now += 2 * SECOND;
    cl_output_serve(&output, now);
    ck_assert(cl_output_has_room(&output)); /* the console counts as blocked: the ranks continue */
    for (int i = 0; i < 500; i++)
        cl_output_feed(&output, 0, 0, block, BYTES, now);
    size_t kept_bytes = 0;
    for (int i = 0; i < 1000 && cl_output_waits(&output); i++)
        kept_bytes += strlen(shown());
    ck_assert_uint_eq(kept_bytes, (size_t)(before + 100) * BYTES);
    feed(0, 0, "again\n");
    const char *got = close_output();
    long lines;
    ck_assert_int_eq(sscanf(got, "cspeed: %ld lines dropped", &lines), 1);
    /* each line was shown or counted */
    ck_assert_uint_eq((size_t)lines * 64 + kept_bytes, (size_t)(before + 600) * BYTES);
    ck_assert_ptr_nonnull(strstr(got, "all are in /logs/here\nagain\n"));
}
END_TEST

START_TEST(ranks_may_change)
{
    reset();
    options.console = "dedup";
    ck_assert_int_eq(open_output(false), 0);
    feed(3, 0, "a\nunfinished");
    make_plan(2, 2);
    ck_assert_int_eq(cl_output_rank(&output), 0);
    feed(1, 0, "b\n");
    ck_assert_str_eq(close_output(), "3| a\n3| unfinished\nw1:1| b\n");
}
END_TEST

SUITE_MAIN("output", prefixes, faults_of_flags, timestamps, odd_lines, unfinished_text_is_shown_and_broken,
           unfinished_text_waits_for_a_pause, long_lines_are_broken, collapsing_keeps_order_and_all,
           collapsing_does_not_delay, many_lines_may_wait, collapsing_loses_nothing, progress_of_the_lowest_rank,
           progress_stays_in_one_row, terminals_collapse_and_color, every_line_is_an_object, any_bytes_are_json,
           a_console_that_stands_still, ranks_may_change)
