/* test_report.c - log lines of a training, in the formats that tools for DeepSpeed's logs expect. */
#include "suite.h"
#include "lines.h"
#include "shell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOGGED                                                                                                         \
    "^\\[[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8},[0-9]{3}\\] \\[INFO\\] \\[report.c:[0-9]+:[a-z_]+\\] \\[Rank 0\\] "
#define MS "[0-9]+\\.[0-9]{2}"
#define GB "[0-9]+\\.[0-9]{2} GB"

START_TEST(nothing_is_printed_by_default)
{
    run_spec spec = { .world = 1, .steps = 3, .precision = "fp32" };
    shell_enter();
    char *lines = lines_of(&spec);
    ck_assert_str_eq(lines, "");
    free(lines);
    shell_leave();
}
END_TEST

START_TEST(steps_per_print)
{
    run_spec spec = { .world = 2, .stage = 1, .steps = 5, .precision = "fp32", .more = "\"steps_per_print\": 2," };
    shell_enter();
    char *lines = lines_of(&spec);
    ck_assert_int_eq(lines_count(lines, LOGGED "step=[0-9]+, skipped=0, lr=\\[0\\.002(, 0\\.002)*\\], "
                                               "mom=\\[\\[0\\.9, 0\\.95\\](, \\[0\\.9, 0\\.95\\])*\\]$"),
                     3);
    ck_assert_int_eq(lines_count(lines, "\\] step=(0|2|4), "), 3);
    ck_assert_int_eq(lines_count(lines, LOGGED "epoch=0/micro_step=4/global_step=4, "
                                               "RunningAvgSamplesPerSec=[0-9.e+]+, CurrSamplesPerSec=[0-9.e+]+, "
                                               "MemAllocated=[0-9.]+GB, MaxMemAllocated=[0-9.]+GB$"),
                     1);
    ck_assert_int_eq(lines_count(lines, "."), 4);
    ck_assert(lines_number(lines, "CurrSamplesPerSec=") > 0);
    ck_assert(lines_number(lines, "RunningAvgSamplesPerSec=") > 0);
    free(lines);
    spec.set[0] = "timers.throughput.enabled=false";
    lines = lines_of(&spec);
    ck_assert_int_eq(lines_count(lines, "."), 3);
    free(lines);
    spec.set[0] = "steps_per_print=Infinity";
    lines = lines_of(&spec);
    ck_assert_str_eq(lines, "");
    free(lines);
    shell_leave();
}
END_TEST

START_TEST(overflow)
{
    run_spec spec = {
        .world = 2, .stage = 2, .steps = 2, .precision = "fp16", .set = { "fp16.initial_scale_power=40" }
    };
    shell_enter();
    char *lines = lines_of(&spec);
    ck_assert_int_eq(lines_count(lines, "\\[INFO\\] \\[step.c:[0-9]+:[a-z_]+\\] \\[Rank 0\\] \\[deepspeed\\] "
                                        "OVERFLOW! Rank 0 Skipping step\\. Attempted loss scale: 1099511627776, "
                                        "(but hysteresis is 2\\. Reducing hysteresis to 1|reducing to 549755813888)$"),
                     2);
    free(lines);
    shell_leave();
}
END_TEST

START_TEST(momentum_of_an_optimizer)
{
    static const char *const cases[][2] = {
        { "{\"type\": \"SGD\", \"params\": {\"lr\": 0.1, \"momentum\": 0.8}}",
          "lr=\\[0\\.1(, 0\\.1)*\\], mom=\\[0\\.8(, 0\\.8)*\\]$" },
        { "{\"type\": \"SGD\", \"params\": {\"lr\": 5e-5}}", "lr=\\[5e-05(, 5e-05)*\\], mom=\\[0\\.0(, 0\\.0)*\\]$" },
    };
    shell_enter();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char assignment[256];
        run_spec spec = {
            .world = 1, .steps = 1, .precision = "fp32", .more = "\"steps_per_print\": 1,", .set = { assignment }
        };
        snprintf(assignment, sizeof assignment, "optimizer=%s", cases[i][0]);
        char *lines = lines_of(&spec);
        ck_assert_msg(lines_count(lines, cases[i][1]) == 2, "%s: %s", cases[i][0], lines);
        free(lines);
    }
    shell_leave();
}
END_TEST

/* There is one line for each micro-batch and one for each step, and each stage has its own names of the optimizer's
 * phases. */
START_TEST(wall_clock_breakdown)
{
    static const char *const optimizer[] = { "^none$",
                                             "^time \\(ms\\) \\| optimizer_allgather: " MS
                                             " \\| optimizer_gradients: " MS " \\| optimizer_step: " MS "$",
                                             "^time \\(ms\\) \\| optimizer_allgather: " MS
                                             " \\| optimizer_gradients: " MS " \\| optimizer_step: " MS "$",
                                             "^time \\(ms\\) \\| optimizer_step: " MS "$" };
    shell_enter();
    for (int stage = 0; stage <= 3; stage++) {
        run_spec spec = { .world = 2,
                          .stage = stage,
                          .steps = 2,
                          .accumulation = 2,
                          .precision = "fp32",
                          .more = "\"wall_clock_breakdown\": true," };
        char *lines = lines_of(&spec);
        ck_assert_int_eq(lines_count(lines, "^time \\(ms\\) \\| fwd_microstep: " MS " \\| bwd_microstep: " MS
                                            " \\| bwd_inner_microstep: " MS " \\| bwd_allreduce_microstep: " MS
                                            " \\| step_microstep: " MS "$"),
                         4);
        ck_assert_int_eq(lines_count(lines, "^time \\(ms\\) \\| fwd: " MS " \\| bwd: " MS " \\| bwd_inner: " MS
                                            " \\| bwd_allreduce: " MS " \\| step: " MS "$"),
                         2);
        ck_assert_int_eq(lines_count(lines, optimizer[stage]), stage ? 2 : 0);
        ck_assert_int_eq(lines_count(lines, "."), stage ? 8 : 6);
        ck_assert(lines_number(lines, "| fwd: ") > 0);
        free(lines);
    }
    shell_leave();
}
END_TEST

START_TEST(memory_breakdown)
{
    run_spec spec = { .world = 1, .steps = 2, .precision = "fp32", .more = "\"memory_breakdown\": true," };
    shell_enter();
    char *lines = lines_of(&spec);
    ck_assert_int_eq(lines_count(lines, "^Engine (before|after) (forward|backward|step)$"), 12);
    ck_assert_int_eq(lines_count(lines, "^MA " GB " +Max_MA " GB " +CA " GB " +Max_CA " GB " $"), 12);
    ck_assert_int_eq(lines_count(lines, "^CPU Virtual Memory:  used = " GB ", percent = [0-9.]+%$"), 12);
    ck_assert(lines_number(lines, "percent = ") > 0);
    ck_assert(lines_number(lines, "Max_CA ") > 0); /* the resident set of a process is not empty */
    free(lines);
    shell_leave();
}
END_TEST

START_TEST(dump_state)
{
    run_spec spec = { .world = 2, .stage = 3, .steps = 1, .precision = "fp32", .more = "\"dump_state\": true," };
    shell_enter();
    char *lines = lines_of(&spec);
    ck_assert_int_eq(lines_count(lines, "^  world_size \\.{19} 2$"), 1);
    ck_assert_int_eq(lines_count(lines, "^  zero_optimization_stage \\.{6} 3$"), 1);
    ck_assert_int_eq(lines_count(lines, "^  comm_backend \\.{17} shm$"), 1);
    ck_assert_int_eq(lines_count(lines, "\"train_batch_size\": 4"), 1); /* the resolved configuration is printed */
    free(lines);
    shell_leave();
}
END_TEST

SUITE_MAIN("report", nothing_is_printed_by_default, steps_per_print, overflow, momentum_of_an_optimizer,
           wall_clock_breakdown, memory_breakdown, dump_state)
