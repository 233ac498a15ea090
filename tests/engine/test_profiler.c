/* test_profiler.c - flops_profiler: the format of the profile, and the counts in the profile, compared with counts from
 * the sizes of a tiny GPT-2. */
#include "suite.h"
#include "lines.h"
#include "shell.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The model of runs.c: 3 blocks of width 24, 2 samples of 12 tokens, a vocabulary of 61. */
enum { BLOCKS = 3, WIDTH = 24, ROWS = 24, POSITIONS = 16 };

static double thousands(double value)
{
    return round(value / 10) / 100;
}

START_TEST(shape_and_counts)
{
    static const char *const labels[] = {
        "world size:",
        "data parallel size:",
        "model parallel size:",
        "batch size per GPU:",
        "params per GPU:",
        "params of model = params per GPU \\* mp_size:",
        "fwd MACs per GPU:",
        "fwd flops per GPU:",
        "fwd flops of model = fwd flops per GPU \\* mp_size:",
        "fwd latency:",
        "fwd FLOPS per GPU = fwd flops per GPU / fwd latency:",
        "bwd latency:",
        "bwd FLOPS per GPU = 2\\.5 \\* fwd flops per GPU / bwd latency:",
        "fwd\\+bwd FLOPS per GPU = 3\\.5 \\* fwd flops per GPU / \\(fwd\\+bwd latency\\):",
        "step latency:",
        "iter latency:",
        "FLOPS per GPU = 3\\.5 \\* fwd flops per GPU / iter latency:",
        "samples/second:",
    };
    double block = 12.0 * WIDTH * WIDTH + 13.0 * WIDTH, head = 2.0 * WIDTH;
    double all = BLOCKS * block + head + (RUN_VOCABULARY + POSITIONS) * (double)WIDTH;
    char pattern[160];
    run_spec spec = { .world = 2,
                      .stage = 3,
                      .steps = 3,
                      .precision = "fp32",
                      .recompute = "unit",
                      .more =
                          "\"flops_profiler\": {\"enabled\": true, \"recompute_fwd_factor\": 0.5, \"top_modules\": 3, "
                          "\"output_file\": \"profile.txt\"}," };
    shell_enter();
    free(lines_of(&spec));
    char *profile = shell_read("profile.txt", NULL);
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        snprintf(pattern, sizeof pattern, "^%s  +[0-9.]+", labels[i]);
        ck_assert_msg(lines_count(profile, pattern) == 1, "%s: %s", labels[i], profile);
    }
    ck_assert_int_eq(lines_count(profile, "^Profile Summary at step 1:$"), 1);
    ck_assert(fabs(lines_number(profile, "\nparams per GPU: ") - thousands(all)) < 1e-9);
    snprintf(pattern, sizeof pattern, "'gpt2 block': '%g K'", thousands(BLOCKS * block));
    ck_assert_msg(lines_count(profile, pattern) == 1, "%s: %s", pattern, profile);
    snprintf(pattern, sizeof pattern, "'head': '%g KMACs'", thousands((double)ROWS * WIDTH * RUN_VOCABULARY));
    ck_assert_msg(lines_count(profile, pattern) == 1, "%s: %s", pattern, profile);
    ck_assert_int_eq(lines_count(profile, "^  \\(transformer\\.h\\.[0-2]\\): gpt2 block\\($"), BLOCKS);
    ck_assert_int_eq(lines_count(profile, "^    \\(attn\\.c_attn\\): 1\\.8 K, "), BLOCKS);
    ck_assert_int_eq(lines_count(profile, "100\\.00% Params, .* 100\\.00% MACs, .* 100\\.00% latency, "), 1);
    ck_assert(lines_number(profile, "fwd latency: ") > 0);
    free(profile);
    shell_leave();
}
END_TEST

START_TEST(depth_and_details_can_be_limited)
{
    run_spec spec = { .world = 1,
                      .steps = 2,
                      .precision = "fp32",
                      .more = "\"flops_profiler\": {\"enabled\": true, \"profile_step\": 0, \"module_depth\": 0, "
                              "\"detailed\": false},",
                      .set = { "wall_clock_breakdown=false" } };
    shell_enter();
    char *lines = lines_of(&spec);
    ck_assert_int_eq(lines_count(lines, "DeepSpeed Flops Profiler"), 1);
    ck_assert_int_eq(lines_count(lines, "^Profile Summary at step 0:$"), 1);
    ck_assert_int_eq(lines_count(lines, "^depth "), 1);
    ck_assert_int_eq(lines_count(lines, "Detailed Profile"), 0);
    ck_assert_int_eq(lines_count(lines, "^time \\(ms\\) \\| fwd: "), 2); /* the profiler sets wall_clock_breakdown */
    free(lines);
    shell_leave();
}
END_TEST

START_TEST(a_bad_file_is_no_end)
{
    run_spec spec = { .world = 1,
                      .steps = 2,
                      .precision = "fp32",
                      .more = "\"flops_profiler\": {\"enabled\": true, \"output_file\": \"no/such/folder\"}," };
    shell_enter();
    char *lines = lines_of(&spec);
    ck_assert_int_eq(lines_count(lines, "DeepSpeed Flops Profiler"), 1);
    free(lines);
    shell_leave();
}
END_TEST

SUITE_MAIN("profiler", shape_and_counts, depth_and_details_can_be_limited, a_bad_file_is_no_end)
