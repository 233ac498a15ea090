/* test_own_schedule.c - learning rates that the program sets with cs_set_schedule, in place of the configuration's:
 * they are used, reported, and removed again. */
#include "core/engine.h"
#include "runs.h"
#include "suite.h"

#include <stdlib.h>

enum { STEPS = 5 };

static const char warmup[] = "\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 4, "
                             "\"warmup_min_lr\": 1e-4, \"warmup_max_lr\": 1e-2}},";

static double as_warmup(int64_t step, void *settings)
{
    return ce_schedule_rate(settings, step);
}

static double halving(int64_t step, void *first)
{
    return *(double *)first / (double)(1 << step);
}

/* A schedule that the program sets gives the same training, bit for bit, as the same schedule in the configuration. */
START_TEST(a_program_may_say_the_rates)
{
    uint32_t masters[2];
    for (int own = 0; own < 2; own++) {
        run_spec spec = { .world = 1, .stage = 2, .steps = STEPS, .precision = "fp32", .more = warmup };
        cs_engine *engine = run_open(&spec, NULL);
        ce_schedule_settings copy = engine->settings->schedule;
        if (own) {
            engine->config->settings.schedule = (ce_schedule_settings){ .base_rate = 1, .last_batch_iteration = -1 };
            cs_set_schedule(engine, as_warmup, &copy);
        }
        for (int step = 0; step < STEPS; step++) {
            run_step(engine, &spec);
            ck_assert(cs_last_step(engine).learning_rate == ce_schedule_rate(&copy, step));
        }
        masters[own] = run_masters(engine);
        cs_destroy(engine);
    }
    ck_assert_uint_eq(masters[0], masters[1]);
}
END_TEST

START_TEST(it_counts_applied_steps_and_can_be_given_up)
{
    double first = 0.5;
    run_spec spec = { .world = 1, .steps = STEPS, .precision = "fp32", .accumulation = 2, .more = warmup };
    cs_engine *engine = run_open(&spec, NULL);
    cs_set_schedule(engine, halving, &first);
    for (int step = 0; step < 3; step++) {
        run_step(engine, &spec);
        ck_assert(cs_last_step(engine).learning_rate == 0.5 / (double)(1 << step));
    }
    cs_set_schedule(engine, NULL, NULL);
    run_step(engine, &spec);
    ck_assert(cs_last_step(engine).learning_rate == ce_schedule_rate(&engine->settings->schedule, 3));
    cs_destroy(engine);
}
END_TEST

SUITE_MAIN("own_schedule", a_program_may_say_the_rates, it_counts_applied_steps_and_can_be_given_up)
