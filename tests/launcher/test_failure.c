/* test_failure.c - the failure report of a job, and result.json. */
#include "suite.h"

#include "fake.h"
#include "front/failure.h"
#include "shell.h"

#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MILLISECOND INT64_C(1000000)

/* Values of a wait status: the signal, or EXIT times the exit code. */
enum { SEGV = 11, KILL = 9, TERM = 15, EXIT = 256 };

static fake job;
static char *text;

static void check_has(const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "\"%s\" is not in:\n%s", part, text);
}

static void check_lacks(const char *part)
{
    ck_assert_msg(strstr(text, part) == NULL, "\"%s\" is in:\n%s", part, text);
}

static const char *last_line(void)
{
    size_t length = strlen(text);
    ck_assert_uint_gt(length, 0);
    ck_assert_int_eq(text[length - 1], '\n');
    const char *at = text + length - 1;
    while (at > text && at[-1] != '\n')
        at--;
    return at;
}

/* Makes a fake job in which rank `first` fails with the status; the others are stopped half a second later. */
static cl_front *broken(int first, int status)
{
    cl_front *front = fake_front(&job);
    for (int rank = 0; rank < FAKE_RANKS; rank++) {
        fake_beat(front, rank, 7, rank == first ? CE_BEAT_NONE : CE_BEAT_REDUCE_SCATTER, 0, front->began);
        fake_end(front, rank, rank == first ? status : TERM, rank != first, rank == first ? 0 : 500 * MILLISECOND);
    }
    front->first = first;
    front->stopped = front->began + 100 * MILLISECOND;
    return front;
}

START_TEST(a_rank_that_died)
{
    char tail[] = "line one\nline two";
    cl_front *front = broken(3, SEGV);
    front->workers[3].tail = tail;
    strcpy(front->run_dir, "/nowhere/run");
    text = cl_failure_text(front);
    check_has("================================ job ab12cd34 FAILED (exit 139) after 00:00:0");
    check_has("\nfirst failure   rank 3 (w1, local 1, slot 1, pid 1003) at ");
    check_has("\ncause           SIGSEGV (signal 11), not sent by cspeed\n");
    check_has("\nlast progress   rank 3: step 7\n                ranks 0-2: step 7, waiting in reduce_scatter\n");
    free(text);
    front->workers[3].end.beat.phase = CE_BEAT_FORWARD;
    front->workers[3].end.beat.unit = 2;
    strcpy(front->workers[3].end.beat.name, "model.layers.0");
    text = cl_failure_text(front);
    check_has("\nlast progress   rank 3: step 7, forward of unit 1 (model.layers.0)\n                ranks 0-2: ");
    check_has("\nstderr tail\n  | line one\n  | line two\nfull log        w1:/nowhere/run/attempt_0/3.err");
    check_has("\nalso failed     none\n");
    check_has("\nended by cspeed 3 ranks, 0 of them by SIGKILL, within 0.4 s\n");
    check_has("\nnot ended       nothing\n");
    check_has("\nhint            a fault in native code");
    ck_assert_ptr_nonnull(strstr(last_line(), "cspeed: job ab12cd34 failed: rank 3 (w1, local 1, slot 1, pid 1003) was "
                                              "killed by SIGSEGV; exit code 139 after 00:00:0"));
    free(text);
}
END_TEST

/* Programs that do not use cspeed send no progress records, and the report then omits progress. */
START_TEST(missing_records_are_not_reported)
{
    cl_front *front = broken(3, SEGV);
    for (int rank = 0; rank < front->worker_count; rank++) {
        front->workers[rank].beat_at = 0;
        front->workers[rank].beat = (cl_link_beat){ .step = -1, .age = -1 };
        front->workers[rank].end.beat = (cl_link_beat){ .step = -1, .age = -1 };
    }
    text = cl_failure_text(front);
    check_has("\nfirst failure   rank 3");
    ck_assert_msg(!strstr(text, "last progress") && !strstr(text, "not known"), "%s", text);
    free(text);
    front->first = -1;
    front->first_node = 0;
    front->code = 75;
    strcpy(front->why, "node 0 (w0) was lost");
    text = cl_failure_text(front);
    check_has("\nfirst failure   node 0 (w0) was lost\n");
    ck_assert_msg(!strstr(text, "last progress") && !strstr(text, "not known"), "%s", text);
    free(text);
}
END_TEST

START_TEST(causes_and_hints)
{
    static const struct {
        int status;
        int64_t oom_from, oom_to;
        char tail[64];
        const char *says[3];
    } cases[] = {
        { KILL,
          3,
          4,
          "",
          { "SIGKILL", "processes because memory ran out (oom_kill 3 -> 4)", "the host's memory ran out" } },
        { KILL, 3, 3, "", { "SIGKILL", "not sent by cspeed\n", "something outside the job killed it" } },
        { KILL, -1, -1, "", { "SIGKILL", "not sent by cspeed\n", "`dmesg`" } },
        /* memory ran out on the host, but the kernel killed other processes */
        { SEGV, 3, 4, "", { "SIGSEGV", "not sent by cspeed\n", "native code" } },
        { SEGV | 128, -1, -1, "", { "SIGSEGV", "; core dumped\n", "gdb" } },
        { 7 * EXIT, -1, -1, "x: CUDA out of memory", { "exit code 7\n", "GPU's memory", "micro-batch" } },
        { 1 * EXIT, -1, -1, "NCCL WARN timeout", { "exit code 1: a failure\n", "NCCL_DEBUG=INFO", "" } },
        { 1 * EXIT, -1, -1, "bind: Address already in use", { "exit code 1", "--master_port", "" } },
        { 75 * EXIT, -1, -1, "", { "another rank was lost", "ranks lost each other", "" } },
        { 139 * EXIT, -1, -1, "", { "exit code 139, as a shell reports SIGSEGV", "", "" } },
        { 127 * EXIT, -1, -1, "", { "a program was not found", "the program does not exist", "" } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char tail[64];
        cl_front *front = broken(0, cases[i].status);
        front->workers[0].tail = strcpy(tail, cases[i].tail);
        front->workers[0].end.oom_from = cases[i].oom_from;
        front->workers[0].end.oom_to = cases[i].oom_to;
        text = cl_failure_text(front);
        for (int j = 0; j < 3; j++)
            check_has(cases[i].says[j]);
        check_has(*tail ? "  | " : "(rank 0 wrote nothing to stderr)");
        free(text);
    }
}
END_TEST

START_TEST(other_failed_ranks_are_listed)
{
    cl_front *front = broken(0, SEGV);
    fake_end(front, 1, SEGV, false, 150 * MILLISECOND);
    fake_end(front, 2, 75 * EXIT, false, 100 * MILLISECOND);
    fake_end(front, 3, 5 * EXIT, false, 900 * MILLISECOND);
    text = cl_failure_text(front);
    check_has("also failed     rank 1 (139, at the same time), rank 2 (75, secondary: it lost a peer), rank 3 (5)\n");
    check_has("ended by cspeed 0 ranks, 0 of them by SIGKILL\n");
    free(text);
}
END_TEST

/* Reports the end of a rank as its agent does, `after` milliseconds after the start. */
static void tell_end(cl_front *front, int rank, int status, int after, const char *tail)
{
    char bytes[sizeof(cl_link_end) + 64];
    int64_t now = front->began + 10000 * MILLISECOND;
    cl_link_end end = { .status = status, .age = now - front->began - after * MILLISECOND };
    memcpy(bytes, &end, sizeof end);
    memcpy(bytes + sizeof end, tail, strlen(tail));
    cl_message message = { .kind = CL_LINK_ENDED, .bytes = bytes, .length = sizeof end + strlen(tail) };
    cl_workers_take(front, rank, &message, now);
}

/* The report names the same rank in every order in which the agents report the four ends. */
START_TEST(the_first_failure_is_the_one_with_a_reason)
{
    static const struct {
        int first;
        int status[FAKE_RANKS], after[FAKE_RANKS];
        const char *tail[FAKE_RANKS];
    } rows[] = {
        { 2, { EXIT, EXIT, EXIT, EXIT }, { 0, 10, 20, 30 }, { "", "", "no memory", "" } },
        { 0, { EXIT, EXIT, EXIT, EXIT }, { 0, 10, 20, 30 }, { "", "", "", "" } },
        { 0, { EXIT, EXIT, EXIT, EXIT }, { 0, 10, 500, 30 }, { "", "", "too late", "" } },
        { 3, { 75 * EXIT, 75 * EXIT, 75 * EXIT, EXIT }, { 0, 10, 20, 300 }, { "lost", "lost", "lost", "" } },
        { 1, { 75 * EXIT, 75 * EXIT, 75 * EXIT, 75 * EXIT }, { 0, 10, 20, 30 }, { "", "lost", "", "lost" } },
        { 2, { EXIT, EXIT, SEGV, EXIT }, { 30, 20, 10, 0 }, { "", "said", "", "" } },
        { 1, { 78 * EXIT, 78 * EXIT, 3 * EXIT, 78 * EXIT }, { 40, 30, 0, 20 }, { "", "wrong", "", "" } },
        { 0, { 78 * EXIT, 78 * EXIT, 3 * EXIT, 78 * EXIT }, { 40, 30, 0, 20 }, { "wrong", "", "", "wrong" } },
        { 3, { 3 * EXIT, 3 * EXIT, 3 * EXIT, 3 * EXIT }, { 30, 20, 10, 0 }, { "d", "c", "b", "a" } },
    };
    for (size_t row = 0; row < sizeof rows / sizeof *rows; row++)
        for (int order = 0; order < 256; order++) {
            int ranks[] = { order & 3, order >> 2 & 3, order >> 4 & 3, order >> 6 & 3 };
            if ((1 << ranks[0] | 1 << ranks[1] | 1 << ranks[2] | 1 << ranks[3]) != 15)
                continue; /* a rank occurs twice in `ranks` */
            cl_front *front = fake_front(&job);
            front->phase = CL_RUNNING;
            for (int i = 0; i < FAKE_RANKS; i++)
                tell_end(front, ranks[i], rows[row].status[ranks[i]], rows[row].after[ranks[i]],
                         rows[row].tail[ranks[i]]);
            ck_assert_msg(front->first == rows[row].first, "row %zu, ranks %d %d %d %d: rank %d", row, ranks[0],
                          ranks[1], ranks[2], ranks[3], front->first);
            for (int i = 0; i < FAKE_RANKS; i++)
                free(front->workers[i].tail);
        }
}
END_TEST

START_TEST(what_needed_force_and_what_is_left)
{
    cl_front *front = broken(0, SEGV);
    fake_end(front, 2, KILL, true, 30000 * MILLISECOND);
    job.nodes[0].left_count = 2;
    strcpy(job.nodes[0].left, "77 78");
    job.nodes[1].state = CL_NODE_LOST;
    text = cl_failure_text(front);
    check_has("ended by cspeed 3 ranks, 1 of them by SIGKILL, within 29.9 s\n");
    check_has("not ended       processes that do not end on w0: 77 78; unknown for w1\n");
    free(text);
}
END_TEST

START_TEST(many_lost_nodes_are_one_short_line)
{
    enum { NODES = 1000 };
    cl_front *front = broken(0, SEGV);
    cl_node *all = calloc(NODES, sizeof *all);
    for (int i = 2; i < NODES; i++) {
        all[i].state = CL_NODE_LOST;
        snprintf(all[i].host, sizeof all[i].host, "w%d", i);
    }
    front->nodes = all;
    front->node_total = NODES;
    text = cl_failure_text(front);
    check_has("not ended       unknown for 998 nodes (w2, w3, w4, w5, w6, w7, w8, w9, w10, w11 and 988 more)\n");
    free(text);
    free(all);
}
END_TEST

START_TEST(no_rank_is_to_blame)
{
    static const struct {
        int code, first_node, signal, explained;
        bool timed_out, stalled, block;
        const char *why, *last;
    } cases[] = {
        { 75, 1, 0, 0, false, false, true, "node 1 (w1) was lost: the network is cut",
          "failed: node 1 (w1) was lost: the network is cut; exit code 75" },
        { 0, -1, SIGTERM, 0, false, false, false, "", "failed: ended by SIGTERM; exit code 143 after 00:00:0" },
        { 0, -1, 0, 0, true, false, false, "", "failed: the time of --timeout was over; exit code 124" },
        { 0, -1, 0, 0, false, true, false, "",
          "failed: no rank made progress for --stall_timeout, and --stall_action is kill; exit code 125" },
        { 68, -1, 0, 0, false, false, false, "w1: connection refused", "failed: w1: connection refused; exit code 68" },
        { 0, -1, 0, 78, false, false, false, "",
          "exited with code 78 (the configuration is wrong, or asks for what is not supported); exit code 78" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cl_front *front = cases[i].explained ? broken(0, cases[i].explained * EXIT) : broken(-1, 0);
        front->code = cases[i].code;
        front->first_node = cases[i].first_node;
        front->signal = cases[i].signal;
        front->timed_out = cases[i].timed_out;
        front->stalled = cases[i].stalled;
        strcpy(front->why, cases[i].why);
        text = cl_failure_text(front);
        ck_assert_msg((strstr(text, "FAILED") != NULL) == cases[i].block, "case %zu: %s", i, text);
        ck_assert_msg(strncmp(last_line(), "cspeed: job ab12cd34 failed: ", 29) == 0, "case %zu: %s", i, text);
        ck_assert_msg(strstr(last_line(), cases[i].last) != NULL, "case %zu: %s", i, text);
        free(text);
    }
}
END_TEST

/* The report mentions a checkpoint that ranks have saved, in this attempt or an earlier one, unless resuming would not
 * help. */
START_TEST(the_checkpoint_to_resume_from_is_named)
{
    static const struct {
        int64_t beat, end, before;
        int status;
        const char *words; /* NULL: the report does not mention a checkpoint */
    } cases[] = {
        { 0, 0, 0, SEGV, NULL },
        { 21, 0, 0, SEGV, "step 20\n" },
        { 21, 41, 11, KILL, "step 40\n" },
        { 0, 0, 11, EXIT, "step 10\n" },
        { 1, 0, 0, EXIT, "step 0\n" },
        { 21, 21, 0, 78 * EXIT, NULL },
        { 21, 21, 0, 75 * EXIT, "step 20\n" },
    };
    char *again[] = { "train", "--config", "c.json", NULL }, *over[] = { "train", "--fresh", NULL };
    char *back[] = { "train", "--tag", "best", NULL }, *load[] = { "train", "--tag", "best", "--load", "a", NULL };
    char *other[] = { "train", "--tags", "best", NULL };
    char *loader[] = { "train", "--tag", "best", "--loader", "a", NULL };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cl_front *front = broken(1, cases[i].status);
        front->workers[2].beat.kept = cases[i].beat;
        front->workers[0].end.beat.kept = cases[i].end;
        front->kept_before = cases[i].before;
        job.options.program = again;
        text = cl_failure_text(front);
        check_has("cspeed: job ab12cd34 failed: ");
        if (cases[i].words)
            ck_assert_msg(strncmp(last_line(), "cspeed: the same command continues from the checkpoint of ", 56) == 0 &&
                              strstr(last_line(), cases[i].words),
                          "case %zu: %s", i, text);
        else
            check_lacks("the same command");
        free(text);
        char **const programs[] = { over, back, loader, load, other };
        for (int turn = 0; turn < 5; turn++) {
            job.options.program = programs[turn];
            text = cl_failure_text(front);
            ck_assert_int_eq(strstr(text, "the same command") != NULL, turn >= 3 && cases[i].words);
            free(text);
        }
    }
}
END_TEST

START_TEST(a_lost_node_is_blamed_before_a_rank_that_lost_it)
{
    cl_front *front = broken(0, 75 * EXIT);
    front->code = 75;
    front->first_node = 1;
    strcpy(front->why, "node 1 (w1) was lost: silent");
    text = cl_failure_text(front);
    check_has("first failure   node 1 (w1) was lost: silent\n");
    check_has("also failed     rank 0 (75, secondary: it lost a peer)\n");
    free(text);
}
END_TEST

START_TEST(a_good_end_says_nothing)
{
    cl_front *front = fake_front(&job);
    for (int rank = 0; rank < FAKE_RANKS; rank++)
        fake_end(front, rank, 0, false, 0);
    text = cl_failure_text(front);
    ck_assert_str_eq(text, "");
    free(text);
    job.options.verbose = true;
    text = cl_failure_text(front);
    check_has("cspeed: job ab12cd34 ended after 00:00:0");
    check_lacks("failed");
    free(text);
}
END_TEST

/* ---- files ---- */

START_TEST(a_remote_tail_is_kept_here)
{
    shell_enter();
    char tail[] = "its last words\n", path[64];
    cl_front *front = broken(3, SEGV);
    front->attempt = 2;
    front->workers[3].tail = tail;
    ck_assert_ptr_nonnull(getcwd(front->run_dir, sizeof front->run_dir));
    text = cl_failure_text(front);
    check_has("/attempt_2/3.err  (these lines: ");
    free(text);
    text = shell_read("failed/attempt_2.3.err", NULL);
    ck_assert_str_eq(text, "its last words\n");
    free(text);
    /* For a rank on this machine, the report names the log file and does not copy its last lines. */
    front->first = 0;
    snprintf(path, sizeof path, "%s", "its last words\n");
    front->workers[0].tail = path;
    text = cl_failure_text(front);
    check_lacks("these lines");
    free(text);
    shell_leave();
}
END_TEST

static json_t *read_result(cl_front *front)
{
    ck_assert_ptr_nonnull(getcwd(front->run_dir, sizeof front->run_dir));
    cl_result_write(front);
    json_t *result = json_load_file("result.json", 0, NULL);
    ck_assert_ptr_nonnull(result);
    return result;
}

static const char *word(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "(none)";
}

static int number(const json_t *object, const char *key)
{
    ck_assert_msg(json_is_integer(json_object_get(object, key)), "no number %s", key);
    return (int)json_integer_value(json_object_get(object, key));
}

START_TEST(results)
{
    shell_enter();
    cl_front *front = broken(3, KILL);
    front->workers[3].end.oom_from = 0;
    front->workers[3].end.oom_to = 1;
    front->attempt = 1;
    json_t *worker = read_result(front);
    ck_assert_str_eq(word(worker, "job"), "ab12cd34");
    ck_assert_str_eq(word(worker, "kind"), "worker");
    ck_assert_str_eq(word(worker, "host"), "w1");
    ck_assert_str_eq(word(worker, "signal"), "SIGKILL");
    ck_assert_int_eq(number(worker, "code"), 137);
    ck_assert_int_eq(number(worker, "rank"), 3);
    ck_assert_int_eq(number(worker, "pid"), 1003);
    ck_assert_int_eq(number(worker, "attempts"), 2);
    ck_assert_int_eq(number(worker, "world_size"), 4);
    ck_assert_int_eq(number(worker, "last_step"), 7);
    ck_assert(json_is_true(json_object_get(worker, "oom")));
    ck_assert_ptr_nonnull(strstr(word(worker, "log"), "/attempt_1/3.err"));
    ck_assert_uint_eq(strlen(word(worker, "started")), 20);
    json_decref(worker);
    front = fake_front(&job);
    front->code = 68;
    front->first_node = 1;
    strcpy(front->why, "w1: \"refused\"");
    json_t *launcher = read_result(front);
    ck_assert_str_eq(word(launcher, "kind"), "launcher");
    ck_assert_str_eq(word(launcher, "host"), "w1");
    ck_assert_str_eq(word(launcher, "why"), "w1: \"refused\"");
    ck_assert_int_eq(number(launcher, "code"), 68);
    ck_assert(json_is_null(json_object_get(launcher, "rank")));
    ck_assert(json_is_null(json_object_get(launcher, "last_step")));
    json_decref(launcher);
    front = fake_front(&job);
    json_t *good = read_result(front);
    ck_assert_int_eq(number(good, "code"), 0);
    ck_assert(json_is_null(json_object_get(good, "kind")));
    json_decref(good);
    shell_leave();
}
END_TEST

START_TEST(states)
{
    cl_front *front = fake_front(&job);
    front->phase = CL_RUNNING;
    fake_beat(front, 1, 5, CE_BEAT_ALL_GATHER, 0, ce_clock_now());
    fake_end(front, 2, 0, false, 0);
    text = cl_result_state(front);
    json_t *state = json_loads(text, 0, NULL), *ranks = json_object_get(state, "ranks");
    ck_assert_msg(state != NULL, "%s", text);
    ck_assert_str_eq(word(state, "state"), "running");
    ck_assert_int_eq(number(state, "step"), 5);
    ck_assert_uint_eq(json_array_size(ranks), FAKE_RANKS);
    ck_assert_str_eq(word(json_array_get(ranks, 1), "position"), "step 5, waiting in all_gather");
    ck_assert_str_eq(word(json_array_get(ranks, 3), "position"), "not known");
    ck_assert_str_eq(word(json_array_get(ranks, 1), "collective"), "all_gather");
    ck_assert_int_eq(number(json_array_get(ranks, 1), "step"), 5);
    ck_assert_str_eq(word(json_array_get(ranks, 2), "state"), "ended");
    ck_assert_str_eq(word(json_array_get(ranks, 3), "host"), "w1");
    ck_assert_int_eq(number(json_array_get(ranks, 3), "local_rank"), 1);
    ck_assert_ptr_null(json_object_get(json_array_get(ranks, 3), "step"));
    json_decref(state);
    free(text);
    front->workers = NULL; /* agents are still joining: there are no ranks yet */
    front->worker_count = 0;
    text = cl_result_state(front);
    state = json_loads(text, 0, NULL);
    ck_assert_uint_eq(json_array_size(json_object_get(state, "ranks")), 0);
    json_decref(state);
    free(text);
}
END_TEST

SUITE_MAIN("failure", a_rank_that_died, missing_records_are_not_reported, causes_and_hints,
           other_failed_ranks_are_listed, the_first_failure_is_the_one_with_a_reason,
           what_needed_force_and_what_is_left, many_lost_nodes_are_one_short_line, no_rank_is_to_blame,
           the_checkpoint_to_resume_from_is_named, a_lost_node_is_blamed_before_a_rank_that_lost_it,
           a_good_end_says_nothing, a_remote_tail_is_kept_here, results, states)
