/* test_graph.c - CUDA graphs of the device, on the emulator: capture and replay, the order of a graph and the work
 * outside of the graph, and fatal errors. */
#include "near.h"
#include "suite.h"

#include "base/must.h"
#include "cspeed/ops.h"
#include "device/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 100, KEPT = 32 };

static cs_device *device;
static cs_stream *compute, *comm;
/* Vectors in device memory. `one`: ones; `sum`: the number of additions so far; `all`: the sum of all values that `sum`
 * has had. */
static cs_tensor one, sum, all;

/* Checks a number of launches, if the module counts launches. */
static void expect_count(uint64_t got, uint64_t want)
{
    if (near_counts())
        ck_assert_uint_eq(got, want);
}

static cs_tensor new_row(float value)
{
    cs_tensor row = cs_vector(ce_device_alloc(device, COUNT * sizeof(float)), CS_F32, COUNT);
    cs_op_fill(compute, row, value);
    return row;
}

static bool open_emulated(const char *test)
{
    if (!near_emulated(test))
        return false;
    /* with this order of execution, a missing edge in the graph gives a wrong result */
    setenv("CSPEED_EMULATOR_ORDER", "reverse", 1);
    CS_MUST(ce_device_open(&device, &(ce_device_settings){ .kind = "cuda" }));
    compute = ce_device_stream(device, CE_COMPUTE);
    comm = ce_device_stream(device, CE_COMM);
    one = new_row(1);
    sum = new_row(0);
    all = new_row(0);
    ce_stream_sync(compute);
    return true;
}

static float fetch(cs_tensor row)
{
    float values[COUNT];
    ce_stream_sync(comm);
    ce_stream_fetch(compute, values, row.data, sizeof values);
    ck_assert(values[0] == values[COUNT - 1]);
    return values[0];
}

/* Adds `one` to `sum` in the compute stream, and then `sum` to `all` in the comm stream. The compute stream waits for
 * the second addition. Returns an event after the second addition. */
static ce_event count_up(void)
{
    cs_op_add(compute, sum, sum, one);
    ce_stream_follow(comm, compute);
    ce_state_add(comm, all, sum);
    ce_event added = ce_stream_record(comm);
    ce_stream_wait(compute, added);
    return added;
}

static ce_event count_in_graph(uint64_t key)
{
    ce_device_graph_begin(device, key);
    ce_event added = count_up();
    ce_device_graph_end(device);
    return added;
}

START_TEST(the_third_time_is_one_launch)
{
    if (!open_emulated("a graph"))
        return;
    for (int time = 1; time <= 6; time++) {
        near_launches before = near_launched();
        count_in_graph(7);
        near_launches own = near_since(before);
        expect_count(own.kernels, time == 1 ? 2 : 0);
        expect_count(own.graphs, time == 1 ? 0 : 1);
    }
    ck_assert(fetch(sum) == 6 && fetch(all) == 21);
    ce_device_close(device);
}
END_TEST

/* Copies `all` to `pinned` through the stream, waits for the stream, and returns the last element. */
static float see(cs_stream *stream, float *pinned)
{
    ce_stream_copy(stream, pinned, all.data, COUNT * sizeof *pinned);
    ce_stream_sync(stream);
    return pinned[COUNT - 1];
}

/* In both streams, operations that are queued before the graph run before the graph, and operations that are queued
 * after the graph run after the graph. */
START_TEST(a_graph_is_ordered_in_both_streams)
{
    if (!open_emulated("a graph's place"))
        return;
    float *pinned = ce_device_alloc_pinned(device, COUNT * sizeof *pinned);
    for (int time = 1; time <= 5; time++) {
        cs_op_fill(compute, sum, (float)time);
        ce_state_convert(comm, all, one, (float)(10 * time));
        ce_event inside = count_in_graph(7);
        ce_stream_wait(compute, inside);
        ck_assert(see(time % 2 ? compute : comm, pinned) == (float)(10 * time + time + 1));
        ck_assert(see(time % 2 ? comm : compute, pinned) == (float)(10 * time + time + 1));
    }
    ce_device_free(device, pinned);
    ce_device_close(device);
}
END_TEST

/* The host waits for an event that was recorded inside a graph. After this wait all work of the graph must be complete,
 * also the work after the event. */
START_TEST(an_event_inside_waits_for_the_end_of_the_graph)
{
    if (!open_emulated("events of a graph"))
        return;
    float *pinned = ce_device_alloc_pinned(device, COUNT * sizeof *pinned);
    for (int time = 1; time <= 5; time++) {
        ce_device_graph_begin(device, 9);
        cs_op_add(compute, sum, sum, one);
        ce_event early = ce_stream_record(compute);
        ce_stream_copy(compute, pinned, sum.data, COUNT * sizeof *pinned);
        ce_event late = ce_stream_record(compute);
        ce_stream_wait(comm, late);
        ce_device_graph_end(device);
        ce_event_wait(time % 2 ? early : late);
        if (time > 1) /* the first round uses no graph, so `early` completes before the copy */
            ck_assert(pinned[COUNT / 2] == (float)time);
        ce_stream_sync(compute);
    }
    ce_device_free(device, pinned);
    ce_device_close(device);
}
END_TEST

START_TEST(too_many_keys_run_without_graphs)
{
    if (!open_emulated("many graphs"))
        return;
    near_launches before = near_launched();
    for (int round = 0; round < 3; round++)
        for (uint64_t key = 0; key <= KEPT; key++)
            count_in_graph(key);
    expect_count(near_since(before).graphs, 0);
    for (int time = 0; time < 2; time++)
        count_in_graph(KEPT);
    expect_count(near_since(before).graphs, 2);
    ck_assert(fetch(sum) == 3 * (KEPT + 1) + 2);
    ce_device_close(device);
}
END_TEST

/* If the workspace grows, its address changes. A graph must not use the old address. */
START_TEST(a_graph_is_captured_again_when_workspace_grows)
{
    enum { ROWS = 512, WIDE = 64 };
    if (!open_emulated("workspace of a graph"))
        return;
    cs_tensor x = cs_matrix(ce_device_alloc(device, ROWS * WIDE * 4), CS_F32, ROWS, WIDE);
    cs_tensor dw = cs_matrix(ce_device_alloc(device, WIDE * WIDE * 4), CS_F32, WIDE, WIDE);
    cs_tensor bias = cs_vector(ce_device_alloc(device, WIDE * 4), CS_F32, WIDE);
    cs_tensor some = x, few = cs_vector(bias.data, CS_F32, 8), corner = cs_matrix(dw.data, CS_F32, 8, 8);
    cs_op_fill(compute, x, 1);
    some.shape[0] = 128;
    some.shape[1] = 8;
    for (int time = 1; time <= 6; time++) {
        near_launches then = near_launched();
        ce_device_graph_begin(device, 5);
        cs_op_matmul_grad_weight(compute, corner, few, some, some, CS_IN_OUT);
        ce_device_graph_end(device);
        expect_count(near_since(then).graphs, time > 1);
        if (time == 3) {
            ce_stream_sync(comm);
            size_t before = ce_device_workspace(device);
            cs_op_matmul_grad_weight(compute, dw, bias, x, x, CS_IN_OUT);
            ck_assert_uint_gt(ce_device_workspace(device), before);
            cs_op_fill(compute, few, 3 * 128);
        }
    }
    float got[8];
    ce_stream_fetch(compute, got, few.data, sizeof got);
    ck_assert(got[0] == 6 * 128 && got[7] == 6 * 128);
    ce_device_close(device);
}
END_TEST

/* ---- fatal errors ---- */

/* Each case of `faults` runs two of the following functions inside a graph: `usual` in the first rounds, and `last` in
 * the last round. The last round must end with the fatal error. */
static void add_another(void)
{
    cs_op_add(compute, all, all, one);
}

static void fill_otherwise(void)
{
    cs_op_fill(compute, sum, 2);
}

static void do_nothing(void)
{
}

static void wait_inside(void)
{
    ce_stream_sync(compute);
}

static void wait_for_event(void)
{
    ce_event_wait(ce_stream_record(compute));
}

static const struct {
    void (*usual)(void), (*last)(void);
    int rounds; /* rounds before the fault */
    const char *says;
} faults[] = {
    { fill_otherwise, add_another, 2, "changes from step to step," },
    { fill_otherwise, do_nothing, 2, "changes from step to step," },
    { do_nothing, fill_otherwise, 3, "changes from step to step," },
    { do_nothing, wait_inside, 1, "waiting for the device during" },
    { do_nothing, wait_inside, 3, "waiting for the device during" },
    { do_nothing, wait_for_event, 2, "waiting for the device during" },
};

static void commit(size_t fault)
{
    for (int round = 0; round <= faults[fault].rounds; round++) {
        ce_device_graph_begin(device, 3);
        count_up();
        (round < faults[fault].rounds ? faults[fault].usual : faults[fault].last)();
        ce_device_graph_end(device);
    }
}

/* Runs a case of `faults` in a child process. Returns what the child wrote to stderr, or "" if the child ended with
 * exit code 0. */
static const char *fatal_message(size_t fault)
{
    static char said[4096];
    int ends[2], status;
    size_t size = 0;
    ssize_t more;
    ck_assert_int_eq(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
        dup2(ends[1], STDERR_FILENO);
        open_emulated("a graph's faults");
        commit(fault);
        _exit(0);
    }
    close(ends[1]);
    while (size < sizeof said - 1 && (more = read(ends[0], said + size, sizeof said - 1 - size)) > 0)
        size += (size_t)more;
    said[size] = 0;
    close(ends[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status) ? said : "";
}

START_TEST(unsupported_calls_are_fatal)
{
    if (!near_emulated("a graph's faults"))
        return;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        const char *said = fatal_message(i);
        ck_assert_msg(strstr(said, faults[i].says) && strstr(said, "cspeed.cuda_graphs"), "fault %zu: \"%s\"", i, said);
    }
}
END_TEST

SUITE_MAIN_APART("graph", the_third_time_is_one_launch, a_graph_is_ordered_in_both_streams,
                 an_event_inside_waits_for_the_end_of_the_graph, too_many_keys_run_without_graphs,
                 a_graph_is_captured_again_when_workspace_grows, unsupported_calls_are_fatal)
