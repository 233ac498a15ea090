/* test_curriculum.c - curriculum learning: sequence length as a function of the step, and its effect on training. */
#include "suite.h"
#include "runs.h"
#include "data/difficulty.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* DeepSpeed's formula (CurriculumScheduler), computed by hand for these steps. The first step has the number 1. */
START_TEST(schedules)
{
    static const ce_difficulty linear = { CE_DIFFICULTY_ROOT, 8, 1024, 100, 8, 1, 0, { 0 }, { 0 } },
                               root = { CE_DIFFICULTY_ROOT, 64, 1000, 400, 24, 2, 0, { 0 }, { 0 } },
                               flat = { CE_DIFFICULTY_ROOT, 10, 10, 5, 8, 1, 0, { 0 }, { 0 } },
                               stairs = { CE_DIFFICULTY_STAIRCASE, 0, 0, 0, 0, 0, 3, { 128, 16, 512 }, { 5, 10 } };
    static const struct {
        const ce_difficulty *difficulty;
        int64_t step, value;
    } cases[] = {
        { &linear, 1, 16 },
        { &linear, 2, 24 },
        { &linear, 50, 512 },
        { &linear, 99, 1008 },
        { &linear, 100, 1024 },
        { &linear, 101, 1024 },
        { &linear, (int64_t)1 << 60, 1024 },
        { &root, 1, 96 },
        { &root, 100, 528 },
        { &root, 399, 984 },
        { &root, 400, 984 },
        { &root, 406, 984 },
        { &root, 407, 1000 },
        { &root, 100000, 1000 },
        { &flat, 1, 10 },
        { &stairs, 1, 128 },
        { &stairs, 5, 128 },
        { &stairs, 6, 16 },
        { &stairs, 10, 16 },
        { &stairs, 11, 512 },
        { &stairs, 1000000, 512 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t value = ce_difficulty_at(cases[i].difficulty, cases[i].step);
        ck_assert_msg(value == cases[i].value, "case %zu, step %lld: %lld, not %lld", i, (long long)cases[i].step,
                      (long long)value, (long long)cases[i].value);
    }
    const ce_difficulty *all[] = { &linear, &root, &flat, &stairs };
    for (size_t i = 0; i < 4; i++)
        for (int64_t step = 1; step < 500; step++)
            ck_assert(ce_difficulty_may_be(all[i], ce_difficulty_at(all[i], step)));
    ck_assert(!ce_difficulty_may_be(&linear, 12) && !ce_difficulty_may_be(&linear, 1032) &&
              !ce_difficulty_may_be(&stairs, 64));
}
END_TEST

#define COURSE(min, max, schedule)                                                                                     \
    "\"curriculum_learning\": {\"enabled\": true, \"curriculum_type\": \"seqlen\", \"min_difficulty\": " #min          \
    ", \"max_difficulty\": " #max ", " schedule "},"
#define LINEAR(total, stride)                                                                                          \
    "\"schedule_type\": \"fixed_linear\", \"schedule_config\": {\"total_curriculum_step\": " #total                    \
    ", \"difficulty_step\": " #stride "}"
#define SAMPLED(metric)                                                                                                \
    "\"data_efficiency\": {\"enabled\": true, \"data_sampling\": {\"enabled\": true, \"curriculum_learning\": "        \
    "{\"enabled\": true, \"curriculum_metrics\": {" metric "}}}},"

/* Checks the number of tokens of each step of a training on one rank with 2 samples in each step. */
static int check_tokens(const char *more, int accumulation, const int *lengths, int steps)
{
    run_spec spec = { .world = 1, .steps = steps, .accumulation = accumulation, .precision = "fp32", .more = more };
    cs_engine *engine = run_open(&spec, NULL);
    int64_t tokens = 0;
    int wrong = 0;
    for (int step = 0; step < steps; step++) {
        run_step(engine, &spec);
        wrong += cs_last_step(engine).tokens - tokens != 2 * accumulation * lengths[step];
        wrong += !isfinite(cs_last_step(engine).loss);
        tokens = cs_last_step(engine).tokens;
    }
    cs_destroy(engine);
    return wrong;
}

START_TEST(samples_grow)
{
    static const int linear[] = { 5, 7, 8, 10, 12, 12 }, stairs[] = { 3, 3, 11, 11, 12, 12 };
    static const char *const discrete =
        "\"curriculum_learning\": {\"enabled\": true, \"schedule_type\": \"fixed_discrete\", \"schedule_config\": "
        "{\"difficulty\": [3, 11, 12], \"max_step\": [2, 4]}},";
    ck_assert_int_eq(check_tokens(COURSE(4, 12, LINEAR(5, 1)), 1, linear, 6), 0);
    ck_assert_int_eq(check_tokens(COURSE(4, 12, LINEAR(5, 1)), 3, linear, 6), 0);
    ck_assert_int_eq(check_tokens(SAMPLED("\"seqlen_truncate\": {\"min_difficulty\": 4, \"max_difficulty\": 12, "
                                          "\"difficulty_type\": \"value\", " LINEAR(5, 1) "}"),
                                  1, linear, 6),
                     0);
    ck_assert_int_eq(check_tokens(discrete, 1, stairs, 6), 0);
}
END_TEST

/* Losses are bitwise equal at any stage, with recomputation or without; a curriculum that always has the full length
 * changes nothing. */
START_TEST(losses)
{
    run_spec spec = {
        .world = 2, .stage = 0, .steps = 8, .precision = "fp32", .dropout = 0.1, .more = COURSE(4, 12, LINEAR(5, 1))
    };
    run_result first, other, plain, whole;
    run_train(&spec, &first);
    spec.stage = 3;
    spec.recompute = "unit";
    run_train(&spec, &other);
    for (int step = 0; step < spec.steps; step++)
        ck_assert(first.loss[step] == other.loss[step] && first.norm[step] == other.norm[step]);
    spec.more = COURSE(12, 12, LINEAR(5, 1));
    run_train(&spec, &whole);
    spec.more = NULL;
    run_train(&spec, &plain);
    for (int step = 0; step < spec.steps; step++)
        ck_assert(plain.loss[step] == whole.loss[step]);
    ck_assert(plain.loss[0] != first.loss[0]);
}
END_TEST

START_TEST(faults)
{
    static const char *const cases[][2] = {
        { COURSE(4, 13, LINEAR(5, 1)), "samples of 13 tokens, but cspeed.data.seq_len is 12" },
        { COURSE(4, 12, LINEAR(5, 8)), "difficulty_step 8 is above min_difficulty 4" },
        { COURSE(12, 4, LINEAR(5, 1)), "min_difficulty and max_difficulty are needed" },
        { COURSE(4, 12, LINEAR(null, 1)), "total_curriculum_step and difficulty_step are needed" },
        { COURSE(4, 12,
                 "\"schedule_type\": \"fixed_root\", \"schedule_config\": {\"total_curriculum_step\": 5, "
                 "\"difficulty_step\": 1}"),
          "root_degree are needed" },
        { COURSE(4, 12, "\"schedule_type\": \"custom\""), "not supported: schedule_type custom" },
        { COURSE(4, 12,
                 "\"schedule_type\": \"fixed_discrete\", \"schedule_config\": {\"difficulty\": [4, 8], "
                 "\"max_step\": [2, 4]}"),
          "one length more than max_step has steps is needed: 2 and 2 are given" },
        { COURSE(4, 12,
                 "\"schedule_type\": \"fixed_discrete\", \"schedule_config\": {\"difficulty\": [4, 8, 9], "
                 "\"max_step\": [4, 2]}"),
          "rising whole numbers" },
        { "\"curriculum_learning\": {\"enabled\": true, \"curriculum_type\": \"vocabularyrarity\"},",
          "not supported: curriculum_learning.curriculum_type, because" },
        { SAMPLED("\"vocabularyrarity\": {}"), "unknown key" },
        { SAMPLED("\"seqlen_truncate\": {\"clustering_type\": \"schedule_based\"}"), "not supported: data_efficiency" },
        { "\"data_efficiency\": {\"data_sampling\": {\"dynamic_batching\": {\"enabled\": true}}},",
          "not supported: data_efficiency.data_sampling.dynamic_batching" },
        { "\"data_efficiency\": {\"data_routing\": {\"random_ltd\": {\"enabled\": true}}},",
          "not supported: data_efficiency.data_routing.random_ltd" },
        { "\"progressive_layer_drop\": {\"enabled\": true},", "not supported: progressive_layer_drop" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[4096];
        cs_config *config;
        run_spec spec = { .world = 1, .steps = 1, .precision = "fp32", .more = cases[i][0] };
        run_write_config(&spec, path, sizeof path);
        ck_assert_int_eq(cs_config_open(&config, path), CS_OK);
        remove(path);
        ck_assert_msg(cs_config_finish(config) == CS_BAD_CONFIG, "%s was taken", cases[i][0]);
        ck_assert_msg(strstr(cs_error(), cases[i][1]) != NULL, "%s: %s", cases[i][0], cs_error());
        cs_config_close(config);
    }
}
END_TEST

SUITE_MAIN("curriculum", schedules, samples_grow, losses, faults)
