/* test_options.c - options that change a step or a load: the sum instead of the mean, masked targets, parts of a
 * checkpoint that are not loaded, tags that differ between ranks, another precision. */
#include "suite.h"
#include "runs.h"
#include "shell.h"
#include "core/engine.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

enum { WORLD = 2, SAVED_STEPS = 3 };

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-5 * fabs(b);
}

START_TEST(sum_is_world_times_the_mean)
{
    run_result mean, sum;
    for (int world = 2; world <= 3; world++) {
        run_spec spec = { .world = world, .stage = world, .steps = 2, .precision = "fp32", .accumulation = 2 };
        run_train(&spec, &mean);
        spec.more = "\"gradient_allreduce_op\": \"sum\",";
        run_train(&spec, &sum);
        ck_assert(sum.loss[0] == mean.loss[0]);
        ck_assert_msg(near(sum.norm[0], world * mean.norm[0]), "world %d: %g against %g", world, sum.norm[0],
                      mean.norm[0]);
    }
}
END_TEST

/* Trains on the same eight samples in each step, on one rank and on two. The two ranks have different numbers of masked
 * targets; the loss is still the mean over all rows that have a target. */
START_TEST(masked_rows_weigh_alike_wherever_they_are)
{
    run_result alone, dealt, whole;
    run_spec spec = { .world = 1, .steps = 3, .precision = "fp32", .accumulation = 4, .masked = true };
    run_train(&spec, &alone);
    spec.masked = false;
    run_train(&spec, &whole);
    ck_assert(!near(whole.loss[0], alone.loss[0]));
    for (int stage = 0; stage <= 3; stage++) {
        run_spec two = {
            .world = 2, .stage = stage, .steps = 3, .precision = "fp32", .accumulation = 2, .masked = true
        };
        run_train(&two, &dealt);
        ck_assert_msg(dealt.loss[0] == alone.loss[0], "stage %d: %.17g, not %.17g", stage, dealt.loss[0],
                      alone.loss[0]);
        for (int step = 0; step < spec.steps; step++) {
            ck_assert_msg(near(dealt.loss[step], alone.loss[step]), "stage %d, step %d", stage, step);
            ck_assert_msg(near(dealt.norm[step], alone.norm[step]), "stage %d, step %d: %g, not %g", stage, step,
                          dealt.norm[step], alone.norm[step]);
        }
    }
}
END_TEST

/* ---- loads ---- */

typedef struct {
    int64_t step, samples, updates, scheduled;
    double rate; /* learning rate of the next update */
    ce_scaler scaler;
    uint32_t masters, slots;
} numbers;

typedef struct {
    run_spec spec;
    cs_load_options options;
    /* `before`: of the engine that saved; `fresh`, `after`: of the engine that loads, before and after the load */
    numbers fresh[WORLD], before[WORLD], after[WORLD];
} trip;

static numbers numbers_of(cs_engine *engine)
{
    return (numbers){ cs_last_step(engine).step,
                      cs_last_step(engine).samples,
                      engine->updates,
                      engine->scheduled,
                      ce_schedule_rate(&engine->settings->schedule, engine->scheduled),
                      engine->scaler,
                      run_masters(engine),
                      run_slots(engine) };
}

static int save(void *argument)
{
    trip *job = argument;
    cs_engine *engine = run_open(&job->spec, NULL);
    for (int step = 0; step < SAVED_STEPS; step++)
        run_step(engine, &job->spec);
    job->before[cs_rank(engine)] = numbers_of(engine);
    CS_MUST(cs_save_checkpoint(engine, "saved", NULL, NULL));
    cs_destroy(engine);
    return 0;
}

static int load(void *argument)
{
    trip *job = argument;
    cs_engine *engine = run_open(&job->spec, NULL);
    job->fresh[cs_rank(engine)] = numbers_of(engine);
    CS_MUST(cs_load_checkpoint(engine, "saved", NULL, &job->options, NULL));
    job->after[cs_rank(engine)] = numbers_of(engine);
    run_step(engine, &job->spec);
    cs_destroy(engine);
    return 0;
}

/* Saves a run with the schedule WarmupLR, whose learning rate shows the position in the schedule. */
static trip *saved_trip(const char *precision)
{
    trip *job = run_share(sizeof *job);
    shell_enter();
    job->spec =
        (run_spec){ .world = WORLD,
                    .stage = 2,
                    .steps = SAVED_STEPS,
                    .precision = precision,
                    .more = "\"scheduler\": { \"type\": \"WarmupLR\", \"params\": { \"warmup_num_steps\": 40 } }," };
    run_ranks(WORLD, save, job);
    return job;
}

static void end_trip(trip *job)
{
    shell_leave();
    run_unshare(job, sizeof *job);
}

/* The arguments *_taken are true if the load must restore the saved values, and false if the values must be those of a
 * new run. */
static void check_load(trip *job, cs_load_options options, bool numbers_taken, bool moments_taken, bool schedule_taken)
{
    job->options = options;
    run_ranks(WORLD, load, job);
    for (int rank = 0; rank < WORLD; rank++) {
        const numbers *saved = &job->before[rank], *fresh = &job->fresh[rank], *now = &job->after[rank];
        ck_assert_uint_ne(saved->masters, fresh->masters);
        ck_assert_uint_ne(saved->slots, fresh->slots);
        ck_assert(saved->rate != fresh->rate && saved->updates == SAVED_STEPS && fresh->updates == 0);
        ck_assert_uint_eq(now->masters, saved->masters);
        ck_assert_int_eq(now->step, (numbers_taken ? saved : fresh)->step);
        ck_assert_int_eq(now->samples, (numbers_taken ? saved : fresh)->samples);
        ck_assert_uint_eq(now->slots, (moments_taken ? saved : fresh)->slots);
        ck_assert_int_eq(now->updates, (moments_taken ? saved : fresh)->updates);
        ck_assert_int_eq(now->scheduled, (schedule_taken ? saved : fresh)->scheduled);
        ck_assert(now->rate == (schedule_taken ? saved : fresh)->rate);
    }
}

START_TEST(a_load_reads_the_requested_parts)
{
    trip *job = saved_trip("bf16");
    check_load(job, (cs_load_options){ 0 }, true, true, true);
    check_load(job, (cs_load_options){ .module_only = true }, false, false, false);
    check_load(job, (cs_load_options){ .skip_optimizer_states = true }, true, false, true);
    check_load(job, (cs_load_options){ .skip_lr_scheduler_states = true }, true, true, false);
    end_trip(job);
}
END_TEST

/* A bf16 checkpoint has no loss scale to restore; a fp16 checkpoint has one. */
START_TEST(a_loss_scale_comes_from_fp16_alone)
{
    for (int half = 0; half < 2; half++) {
        trip *job = saved_trip(half ? "fp16" : "bf16");
        job->spec.precision = "fp16";
        job->spec.set[0] = "fp16.initial_scale_power=9";
        job->spec.set[1] = "fp16.hysteresis=3";
        run_ranks(WORLD, load, job);
        for (int rank = 0; rank < WORLD; rank++) {
            const ce_scaler *wanted = half ? &job->before[rank].scaler : &job->fresh[rank].scaler;
            const ce_scaler *now = &job->after[rank].scaler;
            ck_assert_msg(now->scale == wanted->scale && now->scale > 1, "a scale of %g, not %g", now->scale,
                          wanted->scale);
            ck_assert_int_eq(now->hysteresis, wanted->hysteresis);
            ck_assert_int_eq(now->iteration, wanted->iteration);
            ck_assert(now->dynamic);
        }
        end_trip(job);
    }
}
END_TEST

/* ---- tags ---- */

typedef struct {
    run_spec spec;
    cs_status status[WORLD];
    char said[WORLD][512];
} tags;

static int save_by_rank(void *argument)
{
    tags *job = argument;
    cs_engine *engine = run_open(&job->spec, NULL);
    int rank = cs_rank(engine);
    run_step(engine, &job->spec);
    job->status[rank] = cs_save_checkpoint(engine, "saved", rank == 0 ? "mine" : "yours", NULL);
    if (job->status[rank] != CS_OK)
        strncat(job->said[rank], cs_error(), sizeof job->said[rank] - 1);
    cs_destroy(engine);
    return 0;
}

START_TEST(tags_that_differ)
{
    tags *job = run_share(sizeof *job);
    shell_enter();
    job->spec = (run_spec){
        .world = WORLD, .stage = 2, .steps = 1, .precision = "fp32", .set = { "checkpoint.tag_validation=Fail" }
    };
    run_ranks(WORLD, save_by_rank, job);
    for (int rank = 0; rank < WORLD; rank++) {
        ck_assert_int_eq(job->status[rank], CS_BAD_CONFIG);
        ck_assert_ptr_nonnull(strstr(job->said[rank], rank == 0 ? "\"mine\"" : "\"yours\""));
    }
    ck_assert_int_ne(access("saved/latest", F_OK), 0);
    ck_assert_int_ne(access("saved/mine", F_OK), 0);
    job->spec.set[0] = "checkpoint.tag_validation=Warn";
    run_ranks(WORLD, save_by_rank, job);
    ck_assert(job->status[0] == CS_OK && job->status[1] == CS_OK);
    ck_assert_int_eq(access("saved/mine", F_OK), 0);
    ck_assert_int_ne(access("saved/yours", F_OK), 0);
    shell_leave();
    run_unshare(job, sizeof *job);
}
END_TEST

SUITE_MAIN("options", sum_is_world_times_the_mean, masked_rows_weigh_alike_wherever_they_are,
           a_load_reads_the_requested_parts, a_loss_scale_comes_from_fp16_alone, tags_that_differ)
