/* test_device.c - devices: opening, memory and its counts, the order of streams, threads, and the dry device. */
#include "near.h"
#include "suite.h"

#include "device/cpu/cpu.h"
#include "device/device.h"
#include "cspeed/ops.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static cs_device *open_device(const char *kind, int threads)
{
    cs_device *device;
    CS_MUST(ce_device_open(&device, &(ce_device_settings){ .kind = kind, .threads = threads, .local_ranks = 1 }));
    return device;
}

START_TEST(kinds_are_found_or_refused)
{
    cs_device *device = open_device("auto", 1);
    ck_assert_str_eq(ce_device_kind(device), "cpu");
    ck_assert_int_eq(ce_device_threads(device), 1);
    ck_assert(strncmp(ce_device_describe(device), "cpu: 1 thread, ", 15) == 0);
    ce_device_close(device);
    ce_device_close(NULL);
    static const char *const refused[] = { "cuda", "tpu", "" };
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(ce_device_open(&device, &(ce_device_settings){ .kind = refused[i] }), CS_NO_DEVICE);
        ck_assert_ptr_null(device);
        ck_assert_ptr_nonnull(strstr(cs_error(), refused[i]));
    }
}
END_TEST

/* The number of threads is the setting, else OMP_NUM_THREADS, else this rank's share of the cores. */
START_TEST(threads_follow_settings_variable_and_cores)
{
    const char *before = getenv("OMP_NUM_THREADS");
    char *kept = before ? strdup(before) : NULL;
    setenv("OMP_NUM_THREADS", "3", 1);
    cs_device *device = open_device("cpu", 0);
    ck_assert_int_eq(ce_device_threads(device), 3);
    ce_device_close(device);
    device = open_device("cpu", 2);
    ck_assert_int_eq(ce_device_threads(device), 2);
    ce_device_close(device);
    unsetenv("OMP_NUM_THREADS");
    cpu_set_t cores, after;
    ck_assert_int_eq(sched_getaffinity(0, sizeof cores, &cores), 0);
    device = open_device("cpu", 0);
    ck_assert_int_eq(ce_device_threads(device), CPU_COUNT(&cores));
    ce_device_close(device);
    CS_MUST(ce_device_open(&device, &(ce_device_settings){ .kind = "cpu", .local_ranks = 1000 }));
    ck_assert_int_eq(ce_device_threads(device), 1);
    ce_device_close(device);
    ck_assert_int_eq(sched_getaffinity(0, sizeof after, &after), 0);
    ck_assert(CPU_EQUAL(&cores, &after)); /* the caller, which was pinned meanwhile, has its old cores again */
    if (kept)
        setenv("OMP_NUM_THREADS", kept, 1);
    free(kept);
}
END_TEST

static bool all_zero(const char *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (memory[i])
            return false;
    return true;
}

START_TEST(memory_is_zeroed_aligned_and_counted)
{
    static const size_t sizes[] = { 0, 1, 63, 4096, 2 << 20, (5 << 20) + 1 };
    cs_device *device = open_device("cpu", 1);
    void *memory[6];
    size_t sum = 0;
    for (int i = 0; i < 6; i++) {
        memory[i] = ce_device_alloc(device, sizes[i]);
        sum += sizes[i];
        ck_assert_uint_eq((uintptr_t)memory[i] % 64, 0);
        ck_assert_uint_eq(ce_device_allocated(device), sum);
        ck_assert(all_zero(memory[i], sizes[i]));
        memset(memory[i], 1, sizes[i]);
    }
    for (int i = 0; i < 5; i++) { /* ce_device_close frees the last of the six allocations */
        ce_device_free(device, memory[i]);
        sum -= sizes[i];
        ck_assert_uint_eq(ce_device_allocated(device), sum);
    }
    ce_device_free(device, NULL);
    ce_device_close(device);
}
END_TEST

/* Runs matrix products, norm and attention on 16-bit tensors; these operations need workspace. */
static void some_step(cs_device *device, const cs_tensor *x)
{
    cs_stream *stream = ce_device_stream(device, CE_COMPUTE);
    cs_tensor absent = { 0 };
    cs_op_matmul(stream, x[0], x[1], x[2], absent, CS_OUT_IN);
    cs_op_norm(stream, x[0], x[3], x[1], cs_vector(x[2].data, CS_BF16, 96), cs_vector(x[2].data, CS_BF16, 96), 1e-5f);
    cs_op_attention(stream, x[4], x[5], x[1], (cs_heads){ .queries = 4, .keys = 4 }, (cs_dropout){ 0 });
}

START_TEST(workspace_settles_after_one_step)
{
    cs_device *device = open_device("cpu", 2);
    cs_tensor x[6] = { near_new(CS_BF16, 70, 96), near_new(CS_BF16, 70, 96), near_new(CS_BF16, 96, 96),
                       near_new(CS_F32, 70, 2),   near_new(CS_BF16, 70, 32), near_new(CS_F32, 4, 70) };
    ck_assert_uint_eq(ce_device_workspace(device), 0);
    some_step(device, x);
    size_t settled = ce_device_workspace(device);
    ck_assert_uint_gt(settled, 0);
    ck_assert_uint_eq(ce_device_allocated(device), settled);
    for (int step = 0; step < 3; step++)
        some_step(device, x);
    ck_assert_uint_eq(ce_device_workspace(device), settled);
    ck_assert_uint_eq(ce_device_allocated(device), settled);
    cs_device *dry = open_device("dry", 1);
    for (int step = 0; step < 4; step++)
        some_step(dry, x);
    /* the dry device has counted as many floating-point operations as the CPU */
    ck_assert(ce_device_flops(device) == ce_device_flops(dry));
    ck_assert(ce_device_flops(device) == 4 * (2.0 * 70 * 96 * 96 + 2.0 * 70 * 71 * 32));
    for (int i = 0; i < 6; i++)
        near_free(x[i]);
    ce_device_close(dry);
    ce_device_close(device);
}
END_TEST

static void must_not_run(void *argument)
{
    (void)argument;
    ck_abort_msg("a dry device ran a call");
}

START_TEST(dry_plans_what_no_machine_holds)
{
    cs_device *device = open_device("dry", 8);
    ck_assert_str_eq(ce_device_kind(device), "dry");
    ck_assert_int_eq(ce_device_threads(device), 8);
    size_t large = (size_t)1 << 36;
    char *memory = ce_device_alloc(device, large), *more = ce_device_alloc(device, large);
    ck_assert(memory + large <= more || more + large <= memory);
    ck_assert_uint_eq(ce_device_allocated(device), 2 * large);
    ce_device_free(device, memory);
    cs_stream *comm = ce_device_stream(device, CE_COMM);
    ce_stream_call(comm, must_not_run, NULL);
    ce_stream_wait(ce_device_stream(device, CE_COMPUTE), ce_stream_record(comm));
    ce_stream_sync(comm);
    cs_op_fill(comm, cs_vector(more, CS_F32, (int64_t)large / 4), 1);
    ck_assert(ce_device_roof(device, CS_F32) == 0);
    ce_device_close(device);
}
END_TEST

/* ---- streams ---- */

typedef struct {
    int *log, *count, value;
} note;

static void write_note(void *argument)
{
    note *one = argument;
    one->log[(*one->count)++] = one->value;
}

static void check_order(int threads)
{
    enum { CALLS = 500 }; /* more calls than a stream's queue holds */
    cs_device *device = open_device("cpu", threads);
    cs_stream *comm = ce_device_stream(device, CE_COMM), *compute = ce_device_stream(device, CE_COMPUTE);
    int *log = calloc(CALLS, sizeof *log), count = 0;
    note *notes = calloc(CALLS, sizeof *notes);
    ce_event half = { 0 };
    for (int i = 0; i < CALLS; i++) {
        notes[i] = (note){ log, &count, i };
        ce_stream_call(comm, write_note, &notes[i]);
        if (i == CALLS / 2)
            half = ce_stream_record(comm);
    }
    ce_stream_wait(compute, half);
    for (int i = 0; i <= CALLS / 2; i++)
        ck_assert_int_eq(log[i], i);
    ce_stream_wait(comm, half);
    ce_stream_wait(comm, ce_stream_record(compute));
    ce_stream_sync(comm);
    ce_stream_sync(compute);
    ck_assert_int_eq(count, CALLS);
    for (int i = 0; i < CALLS; i++)
        ck_assert_int_eq(log[i], i);
    ce_device_close(device);
    free(log);
    free(notes);
}

START_TEST(streams_keep_their_order)
{
    check_order(1);
    check_order(3);
}
END_TEST

START_TEST(calls_given_are_done_before_closing)
{
    enum { CALLS = 40 };
    int log[CALLS], count = 0;
    note notes[CALLS];
    cs_device *device = open_device("cpu", 1);
    for (int i = 0; i < CALLS; i++) {
        notes[i] = (note){ log, &count, i };
        ce_stream_call(ce_device_stream(device, CE_COMM), write_note, &notes[i]);
    }
    ce_device_close(device);
    ck_assert_int_eq(count, CALLS);
}
END_TEST

/* ---- threads ---- */

typedef struct {
    cs_device *device;
    _Atomic int seen[100];
} task_counts;

static void count_index(void *argument, int index, int thread)
{
    (void)thread;
    atomic_fetch_add(&((task_counts *)argument)->seen[index], 1);
}

static void count_nested(void *argument, int index, int thread)
{
    task_counts *all = argument;
    count_index(all, index, thread);
    ce_team_run(ce_cpu_of(all->device)->team, 10, count_index, all);
}

static void check_counts(task_counts *all, int tasks, int times)
{
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(all->seen[i], i < tasks ? times : 0);
    memset(all->seen, 0, sizeof all->seen);
}

static void run_from_comm(void *argument)
{
    task_counts *all = argument;
    for (int i = 0; i < 50; i++)
        ce_team_run(ce_cpu_of(all->device)->team, 100, count_index, all);
}

START_TEST(parallel_runs_each_index_once)
{
    for (int threads = 1; threads <= 4; threads++) { /* more threads than most test machines have cores */
        task_counts all = { .device = open_device("cpu", threads) };
        ce_team_run(ce_cpu_of(all.device)->team, 0, count_index, &all);
        check_counts(&all, 0, 0);
        for (int round = 0; round < 200; round++)
            ce_team_run(ce_cpu_of(all.device)->team, round % 100 + 1, count_index, &all);
        for (int i = 0; i < 100; i++)
            ck_assert_int_eq(all.seen[i], 2 * (100 - i));
        memset(all.seen, 0, sizeof all.seen);
        usleep(2000); /* long enough that the threads sleep */
        ce_team_run(ce_cpu_of(all.device)->team, 100, count_index, &all);
        check_counts(&all, 100, 1);
        ce_team_run(ce_cpu_of(all.device)->team, 10, count_nested, &all);
        check_counts(&all, 10, 11);
        ce_stream_call(ce_device_stream(all.device, CE_COMM), run_from_comm, &all);
        run_from_comm(&all); /* if there is a worker thread, this call and the queued one run at the same time */
        ce_stream_sync(ce_device_stream(all.device, CE_COMM));
        check_counts(&all, 100, 100);
        ce_device_close(all.device);
    }
}
END_TEST

START_TEST(the_roof_is_measured_once)
{
    cs_device *device = open_device("cpu", 1);
    double roof = ce_device_roof(device, CS_F32);
    ck_assert(roof > 1e6);
    ck_assert(ce_device_roof(device, CS_F32) == roof);
    /* a rate below the roof leaves the roof unchanged */
    ck_assert(ce_device_raise_roof(device, CS_F32, roof / 2) == roof);
    ck_assert(ce_device_raise_roof(device, CS_F32, roof * 2) == roof * 2);
    ck_assert(ce_device_roof(device, CS_F32) == roof * 2);
    ck_assert(ce_device_roof(device, CS_BF16) > 1e6);
    ck_assert(ce_device_flops(device) == 0);
    ck_assert_uint_eq(ce_device_allocated(device), ce_device_workspace(device));
    ce_device_close(device);
}
END_TEST

SUITE_MAIN("device", kinds_are_found_or_refused, threads_follow_settings_variable_and_cores,
           memory_is_zeroed_aligned_and_counted, workspace_settles_after_one_step, dry_plans_what_no_machine_holds,
           streams_keep_their_order, calls_given_are_done_before_closing, parallel_runs_each_index_once,
           the_roof_is_measured_once)
