/* test_schedule.c - compares learning rates with DeepSpeed's lr_schedules.py, PyTorch and transformers, and tests how the section
 * "scheduler" of the configuration is read. */
#include "schedule/schedule.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { UPDATES = 14 };

static ce_json *open_text(const char *text)
{
    ce_json *doc;
    ck_assert_int_eq(ce_json_parse(&doc, text, strlen(text), "file"), CS_OK);
    return doc;
}

static cs_status read_text(const char *scheduler, double base, int64_t steps, ce_schedule_settings *settings)
{
    char text[1024];
    snprintf(text, sizeof text, "{\"scheduler\": %s}", scheduler);
    ce_json *doc = open_text(text);
    json_t *section = json_object_get(ce_json_root(doc), "scheduler");
    ce_schedule_read(doc, json_is_object(section) ? section : NULL, base, steps, settings);
    cs_status status = ce_json_verdict(doc);
    ce_json_close(doc);
    return status;
}

/* Rates of updates 1, 2, ... from DeepSpeed 0.19.6. */
static const struct {
    const char *scheduler;
    double base;
    int count;
    double rates[UPDATES];
} golden[] = {
    { "{\"type\": \"WarmupLR\", \"params\": {\"warmup_min_lr\": 0, \"warmup_max_lr\": 1e-3, \"warmup_num_steps\": 4}}",
      1,
      6,
      { 0, 0, 5e-4, 7.9248125e-4, 1e-3, 1e-3 } },
    { "{\"type\": \"WarmupLR\", \"params\": {\"warmup_max_lr\": 1e-3, \"warmup_num_steps\": 4, \"warmup_type\": "
      "\"linear\"}}",
      1,
      6,
      { 0, 0, 2.5e-4, 5e-4, 7.5e-4, 1e-3 } },
    { "{\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 1}}", 0.01, 4, { 0, 0, 0.01, 0.01 } },
    { "{\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 1, \"warmup_max_lr\": \"auto\", \"warmup_min_lr\": "
      "\"auto\"}}",
      0.01,
      4,
      { 0, 0, 0.01, 0.01 } },
    { "{\"type\": \"WarmupDecayLR\", \"params\": {\"warmup_min_lr\": 1e-4, \"warmup_max_lr\": 1e-3, "
      "\"warmup_num_steps\": 4, "
      "\"total_num_steps\": 10, \"warmup_type\": \"linear\"}}",
      1,
      13,
      { 1e-4, 1e-4, 3.25e-4, 5.5e-4, 7.75e-4, 1e-3, 8.5e-4, 7e-4, 5.5e-4, 4e-4, 2.5e-4, 1e-4, 1e-4 } },
    { "{\"type\": \"WarmupDecayLR\", \"params\": {\"warmup_num_steps\": 4, \"total_num_steps\": 2}}",
      1,
      7,
      { 0, 0, 5e-4, 7.9248125e-4, 1e-3, 0, 0 } },
    { "{\"type\": \"WarmupCosineLR\", \"params\": {\"warmup_num_steps\": 4, \"total_num_steps\": 10, "
      "\"warmup_min_ratio\": 0.1, "
      "\"cos_min_ratio\": 0.01, \"warmup_type\": \"linear\"}}",
      0.01,
      12,
      { 0, .001, .00325, .0055, .00775, .00933682575, .007525, .00505, .002575, .000763174251, .0001, .0001 } },
    { "{\"type\": \"WarmupCosineLR\", \"params\": {\"warmup_num_steps\": 4, \"total_num_steps\": 3}}",
      0.01,
      7,
      { 0, 0, .005, .0079248125, .01, 1e-6, 1e-6 } },
    { "{\"type\": \"LRRangeTest\", \"params\": {\"lr_range_test_min_lr\": 1e-4, \"lr_range_test_step_size\": 2, "
      "\"lr_range_test_step_rate\": 5}}",
      1,
      6,
      { 1e-4, 3.5e-4, 6e-4, 8.5e-4, 1.1e-3, 1.35e-3 } },
    { "{\"type\": \"LRRangeTest\", \"params\": {\"lr_range_test_min_lr\": 1e-4, \"lr_range_test_step_size\": 2, "
      "\"lr_range_test_step_rate\": 5, \"lr_range_test_staircase\": true}}",
      1,
      6,
      { 1e-4, 1e-4, 6e-4, 6e-4, 1.1e-3, 1.1e-3 } },
    { "{\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 0.1, \"cycle_max_lr\": [0.5], \"cycle_first_step_size\": "
      "4, "
      "\"cycle_second_step_size\": 6, \"cycle_first_stair_count\": 2, \"cycle_momentum\": false}}",
      1,
      11,
      { .1, .1, .3, .3, .5, .3, .3, .3, .1, .1, .1 } },
    { "{\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 0.1, \"cycle_max_lr\": 0.5, \"cycle_first_step_size\": "
      "4, "
      "\"decay_lr_rate\": 0.5}}",
      1,
      11,
      { .1, .2, .3, .4, .5, .4, .3, .2, .1, .1, .1 } }, /* without decay_step_size the rate does not decay */
    { "{\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 0, \"cycle_max_lr\": 1, \"cycle_first_step_size\": 2, "
      "\"cycle_second_step_size\": 0}}",
      1,
      4,
      { 0, .5, 0, 0 } }, /* the cycle's falling half has no steps, so the peak is never reached */
    { "{\"type\": \"LinearLR\", \"params\": {}}", 0.3, 7, { .1, .14, .18, .22, .26, .3, .3 } },
    { "{\"type\": \"LinearLR\", \"params\": {\"start_factor\": 1, \"end_factor\": 0, \"total_iters\": 4}}",
      0.2,
      6,
      { .2, .15, .1, .05, 0, 0 } },
    { "null", 0.25, 3, { 0.25, 0.25, 0.25 } },
};

static const char cycle[] = "{\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 0.1, \"cycle_max_lr\": 0.5, "
                            "\"cycle_first_step_size\": 4, \"decay_step_size\": 2, \"decay_lr_rate\": 0.5, "
                            "\"decay_mom_rate\": 0.1}}";

START_TEST(test_golden)
{
    for (size_t g = 0; g < sizeof golden / sizeof *golden; g++) {
        ce_schedule_settings s;
        ck_assert_int_eq(read_text(golden[g].scheduler, golden[g].base, 0, &s), CS_OK);
        for (int k = 0; k < golden[g].count; k++) {
            double rate = ce_schedule_rate(&s, k), expected = golden[g].rates[k];
            ck_assert_msg(fabs(rate - expected) <= 2e-8 * fabs(expected) + 1e-18, "%s, update %d: %.10g, not %.10g",
                          golden[g].scheduler, k, rate, expected);
        }
    }
}
END_TEST

START_TEST(test_momentum)
{
    static const double rates[] = { .1, .2, .3, .4, .5, .4, .3, .2, .1, .08, .1 / 1.5, .1 / 1.75, .05, .1 / 2.25 };
    static const double beta1s[] = { .8, .875, .85, .825, .8, .825, .85, .875, .9, .945, .99, .999, .999, .999 };
    ce_schedule_settings s;
    double beta1 = 0, beta2 = 0;
    ck_assert_int_eq(read_text(cycle, 1, 0, &s), CS_OK);
    /* In DeepSpeed the last three values of beta1 are 1.035, 1.08 and 1.125; in cspeed they are at most 0.999. */
    for (int k = 0; k < UPDATES; k++) {
        ck_assert(ce_schedule_momentum(&s, k, &beta1, &beta2));
        ck_assert_msg(fabs(beta1 - beta1s[k]) < 1e-12, "update %d: %.12g", k, beta1);
        ck_assert(beta2 == 0.99);
        ck_assert_msg(fabs(ce_schedule_rate(&s, k) - rates[k]) < 1e-12, "update %d", k);
    }
    ce_json *doc = open_text("{}");
    ce_schedule_leave_momentum(doc, &s);
    ck_assert_int_eq(ce_json_note_count(doc), 1);
    ck_assert(!ce_schedule_momentum(&s, 3, &beta1, &beta2));
    ce_json_close(doc);
    ck_assert_int_eq(read_text("{\"type\": \"WarmupLR\"}", 1, 0, &s), CS_OK);
    ck_assert(!ce_schedule_momentum(&s, 3, &beta1, &beta2));
}
END_TEST

static void compare(const char *scheduler, char *numbers, bool momentum)
{
    char *end;
    ce_schedule_settings s;
    double base = momentum ? 1 : strtod(numbers, &numbers), beta1, beta2;
    ck_assert_msg(read_text(scheduler, base, 0, &s) == CS_OK, "%s", cs_error());
    for (int64_t k = momentum;; k++, numbers = end) {
        double expected = strtod(numbers, &end), got = ce_schedule_rate(&s, k);
        if (end == numbers)
            return;
        if (momentum) {
            ck_assert(ce_schedule_momentum(&s, k, &beta1, &beta2));
            got = beta1;
        }
        ck_assert_msg(fabs(got - expected) <= 1e-12 * (fabs(expected) + 1e-3), "%s, update %d: %.15g, not %.15g",
                      scheduler, (int)k, got, expected);
    }
}

START_TEST(test_against_torch)
{
    char scheduler[512], rates[8192], momenta[8192];
    int cases = 0;
    FILE *file = fopen(CS_TESTS "/golden/schedule.golden", "r");
    ck_assert_ptr_nonnull(file);
    while (fgets(scheduler, sizeof scheduler, file)) {
        ck_assert(fgets(rates, sizeof rates, file) && fgets(momenta, sizeof momenta, file));
        compare(scheduler, rates, false);
        if (*momenta != '\n')
            compare(scheduler, momenta, true);
        cases++;
    }
    fclose(file);
    ck_assert_int_eq(cases, 38);
}
END_TEST

START_TEST(test_shape)
{
    static const char *const all[] = {
        "{\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 30}}",
        "{\"type\": \"WarmupDecayLR\", \"params\": {\"warmup_num_steps\": 30, \"total_num_steps\": 90}}",
        "{\"type\": \"WarmupCosineLR\", \"params\": {\"warmup_num_steps\": 30, \"total_num_steps\": 90}}",
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        ce_schedule_settings s;
        ck_assert_int_eq(read_text(all[i], 1e-3, 0, &s), CS_OK);
        for (int64_t k = 1; k < 200; k++) {
            ck_assert(ce_schedule_rate(&s, k) >= 0);
            ck_assert(ce_schedule_rate(&s, k) <= 1e-3 * (1 + 1e-12));
            ck_assert_msg(k < 32 || fabs(ce_schedule_rate(&s, k + 1) - ce_schedule_rate(&s, k)) < 4e-5,
                          "%s jumps at %d", all[i], (int)k);
        }
    }
}
END_TEST

START_TEST(test_start_midway)
{
    ce_schedule_settings s, midway;
    ck_assert_int_eq(read_text("{\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 50}}", 0.1, 0, &s), CS_OK);
    ck_assert_int_eq(
        read_text("{\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 50, \"last_batch_iteration\": 9}}", 0.1,
                  0, &midway),
        CS_OK);
    ck_assert(ce_schedule_rate(&midway, 0) == 0.1);
    for (int64_t k = 1; k < 60; k++)
        ck_assert(ce_schedule_rate(&midway, k) == ce_schedule_rate(&s, k + 10));
}
END_TEST

START_TEST(test_auto)
{
    ce_schedule_settings s;
    const char *text = "{\"type\": \"WarmupDecayLR\", \"params\": {\"warmup_num_steps\": 4, \"total_num_steps\": "
                       "\"auto\", \"warmup_max_lr\": \"auto\"}}";
    ck_assert_int_eq(read_text(text, 0.5, 700, &s), CS_OK);
    ck_assert(s.total_num_steps == 700 && s.total_is_auto && s.warmup_max_lr == 0.5);
    /* The number of epochs is given, so the number of steps is not known yet. */
    ck_assert_int_eq(read_text(text, 0.5, 0, &s), CS_OK);
    ck_assert(s.total_num_steps == 0 && s.total_is_auto);
    ck_assert_int_eq(read_text("{\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": \"auto\"}}", 0.5, 0, &s),
                     CS_OK);
    ck_assert(s.warmup_num_steps == 0 && ce_schedule_rate(&s, 1) == 0 && ce_schedule_rate(&s, 3) == 0.5);
    ck_assert_int_eq(read_text(text, 0.5, 0, &s), CS_OK);
    for (int64_t k = 0; k < 10; k++)
        ck_assert(ce_schedule_rate(&s, k) >= 0 && ce_schedule_rate(&s, k) <= 0.5);
}
END_TEST

/* warmup_ratio is a share of all updates, also of a schedule without an end. */
START_TEST(test_ratio)
{
    static const char *const types[] = { "WarmupLR", "WarmupDecayLR", "WarmupCosineLR" };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char text[256];
        ce_schedule_settings ratio, steps;
        snprintf(text, sizeof text,
                 "{\"type\": \"%s\", \"params\": {%s\"warmup_ratio\": 0.07, \"warmup_num_steps\": \"auto\"}}", types[i],
                 i ? "\"total_num_steps\": \"auto\", " : "");
        ck_assert_msg(read_text(text, 0.1, 0, &ratio) == CS_OK, "%s", cs_error());
        ck_assert(ratio.total_is_auto);
        ck_assert_msg(read_text(text, 0.1, 100, &ratio) == CS_OK, "%s", cs_error());
        snprintf(text, sizeof text, "{\"type\": \"%s\", \"params\": {%s\"warmup_num_steps\": 8}}", types[i],
                 i ? "\"total_num_steps\": 100, " : "");
        ck_assert_int_eq(read_text(text, 0.1, 0, &steps), CS_OK);
        for (int64_t k = 0; k < 100; k++) /* 8: the next whole number of 100 * 0.07 = 7.000000000000001 */
            ck_assert(ce_schedule_rate(&ratio, k) == ce_schedule_rate(&steps, k));
    }
}
END_TEST

START_TEST(test_refused)
{
    static const struct {
        const char *scheduler, *sentence;
    } bad[] = {
        { "{\"type\": \"OneCycle\"}", "OneCycle needs \"cycle_min_lr\"" },
        { "{\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 0}}", "OneCycle needs \"cycle_max_lr\"" },
        { "{\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": [0, 1]}}", "a number is needed, not [0, 1]" },
        { "{\"type\": \"OneCycle\", \"params\": {\"cycle_first_step_size\": 0}}", "at least 1 is needed, not 0" },
        { "{\"type\": \"LRRangeTest\", \"params\": {\"lr_range_test_step_size\": 0}}", "at least 1 is needed, not 0" },
        { "{\"type\": \"CosineAnnealingWarmRestarts\"}", "CosineAnnealingWarmRestarts needs \"T_0\"" },
        { "{\"type\": \"warmup_stable_decay\"}", "warmup_stable_decay needs \"num_decay_steps\"" },
        { "{\"type\": \"cosine_with_min_lr\"}", "needs one of \"min_lr\" and \"min_lr_rate\"" },
        { "{\"type\": \"cosine_with_min_lr\", \"params\": {\"min_lr\": 0, \"min_lr_rate\": 0}}",
          "needs one of \"min_lr\" and \"min_lr_rate\"" },
        { "{\"type\": \"polynomial\", \"params\": {\"lr_end\": 1}}", "1 is not below optimizer.params.lr, 1" },
        { "{\"type\": \"linear\", \"params\": {\"warmup_ratio\": 0.1, \"warmup_num_steps\": 3}}",
          "warmup_num_steps is given too" },
        { "{\"type\": \"linear\", \"params\": {\"warmup_ratio\": 3}}", "at most 1 is possible, not 3" },
        { "{\"type\": \"greedy\"}", "not supported: Hugging Face's schedule greedy, because" },
        { "{\"type\": \"StepLR\"}", "StepLR needs \"step_size\"" },
        { "{\"type\": \"CosineAnnealingLR\"}", "CosineAnnealingLR needs \"T_max\"" },
        { "{\"type\": \"ExponentialLR\"}", "ExponentialLR needs \"gamma\"" },
        { "{\"type\": \"OneCycleLR\"}", "not supported: PyTorch's schedule OneCycleLR, because" },
        { "{\"type\": \"WarmupCosine\"}", "no schedule is named \"WarmupCosine\"" },
        { "{\"params\": {}}", "\"type\" is missing" },
        { "{\"type\": \"\"}", "no schedule is named \"\"" },
        { "{\"type\": \"WarmupDecayLR\", \"params\": {}}", "needs \"total_num_steps\"" },
        { "{\"type\": \"WarmupCosineLR\"}", "needs \"total_num_steps\"" },
        { "{\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": -1}}", "at least 0 is needed, not -1" },
        { "{\"type\": \"LRRangeTest\", \"params\": {\"lr_range_test_step_rate\": \"auto\"}}",
          "\"auto\" cannot be resolved" },
        { "{\"type\": \"WarmupLR\", \"params\": {\"warmup_type\": \"cubic\"}}", "one of log|linear is needed" },
        { "{\"type\": \"WarmupLR\", \"params\": {\"warmup_num_step\": 3}}",
          "the nearest known one is \"warmup_num_steps\"" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ce_schedule_settings s;
        ck_assert_int_eq(read_text(bad[i].scheduler, 1, 10, &s), CS_BAD_CONFIG);
        ck_assert_msg(strstr(cs_error(), bad[i].sentence) != NULL, "%s: %s", bad[i].scheduler, cs_error());
    }
}
END_TEST

/* DeepSpeed's WarmupDecayLR does not take the optimizer's rate, unless warmup_max_lr is "auto". */
START_TEST(test_rate_of_decay)
{
    static const struct {
        const char *max;
        int notes;
    } files[] = { { "", 1 }, { ", \"warmup_max_lr\": 2e-3", 0 }, { ", \"warmup_max_lr\": \"auto\"", 0 } };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char text[256];
        ce_schedule_settings settings;
        snprintf(text, sizeof text,
                 "{\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"total_num_steps\": 2000%s}}}",
                 files[i].max);
        ce_json *doc = open_text(text);
        ce_schedule_read(doc, json_object_get(ce_json_root(doc), "scheduler"), 4e-3, 0, &settings);
        ck_assert_int_eq(ce_json_verdict(doc), CS_OK);
        int notes = 0;
        for (int note = 0; note < ce_json_note_count(doc); note++)
            notes += strstr(ce_json_note_text(doc, note), "DeepSpeed's default, 0.001, and not to optimizer.params.lr, "
                                                          "0.004") != NULL;
        ck_assert_int_eq(notes, files[i].notes);
        ce_json_close(doc);
    }
}
END_TEST

SUITE_MAIN("schedule", test_golden, test_momentum, test_against_torch, test_shape, test_start_midway, test_auto,
           test_ratio, test_refused, test_rate_of_decay)
