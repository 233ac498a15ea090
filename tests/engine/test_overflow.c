/* test_overflow.c - steps that overflow: every rank skips them, state and schedule do not change, the loss scale
 * follows the rule of the scaler, and training continues. */
#include "suite.h"
#include "pieces.h"
#include "runs.h"

#include <math.h>
#include <stdio.h>

enum { STEPS = 48, WORLD = 2, POISONED = 2 };

/* What one rank observes after one step. */
typedef struct {
    double loss, norm, scale, rate;
    double wanted_scale, wanted_rate; /* expected scale and rate, computed outside the engine */
    bool skipped, moved;              /* `moved`: at least one bit of this rank's masters or slots changed */
    int64_t total_skipped;
} seen;

typedef struct {
    run_spec spec;
    bool poison; /* a master of the last rank is infinite during step POISONED */
    seen of[WORLD][STEPS];
} run;

/* On the last rank, sets one element of the masters to `value`: the first element of this rank's part of the first
 * block. Returns the earlier value of the element; on other ranks changes nothing and returns 0. All ranks must call
 * the function. */
static float poke(cs_engine *engine, float value)
{
    ce_shard_piece pieces[32];
    int count = pieces_take(engine, 1, pieces);
    float before = 0;
    if (count > 0 && cs_rank(engine) == cs_world_size(engine) - 1) {
        float *master = pieces[0].master;
        before = *master;
        *master = value;
    }
    pieces_put(engine, 1, pieces, count);
    return before;
}

static seen look(cs_engine *engine, const run_spec *spec, ce_scaler *beside)
{
    const ce_settings *settings = engine->settings;
    cs_metrics before = cs_last_step(engine), after;
    uint32_t masters = run_masters(engine), slots = run_slots(engine);
    double scale = beside->scale;
    run_step(engine, spec);
    after = cs_last_step(engine);
    bool skipped = after.skipped > before.skipped;
    if (ce_scaler_judge(beside, &settings->scaler, skipped, NULL) != CS_OK)
        cs_must(CS_UNSUPPORTED, "the scaler beside the run");
    return (seen){
        .loss = after.loss,
        .norm = after.grad_norm,
        .scale = after.loss_scale,
        .rate = after.learning_rate,
        .wanted_scale = scale,
        .wanted_rate = ce_schedule_rate(&settings->schedule, before.step - before.skipped),
        .skipped = skipped,
        .moved = masters != run_masters(engine) || slots != run_slots(engine),
        .total_skipped = after.skipped,
    };
}

static int train(void *argument)
{
    run *job = argument;
    cs_engine *engine = run_open(&job->spec, NULL);
    ce_scaler beside;
    ce_scaler_open(&beside, &engine->settings->scaler, engine->settings->precision.values == CS_F16);
    for (int step = 0; step < job->spec.steps; step++) {
        bool now = job->poison && step == POISONED;
        float before = now ? poke(engine, INFINITY) : 0;
        job->of[cs_rank(engine)][step] = look(engine, &job->spec, &beside);
        if (now)
            poke(engine, before);
    }
    cs_destroy(engine);
    return 0;
}

static run *train_all(int stage, const char *precision, int steps, bool poison, const char *set)
{
    run *job = run_share(sizeof *job);
    job->poison = poison;
    job->spec = (run_spec){
        .world = WORLD,
        .stage = stage,
        .steps = steps,
        .precision = precision,
        .prefetch = 1,
        .more =
            "\"scheduler\": { \"type\": \"WarmupLR\", \"params\": { \"warmup_max_lr\": 2e-3, \"warmup_num_steps\": 40,"
            "  \"warmup_type\": \"linear\" } },",
        .set = { set, set ? "fp16.loss_scale_window=4" : NULL },
    };
    run_ranks(WORLD, train, job);
    return job;
}

/* Checks what must hold for every step of every run. */
static void check_step(const run *job, int step)
{
    for (int rank = 0; rank < WORLD; rank++) {
        const seen *it = &job->of[rank][step], *first = &job->of[0][step];
        ck_assert_msg(it->skipped == first->skipped, "step %d: rank %d and rank 0 differ", step, rank);
        ck_assert_int_eq(it->total_skipped, first->total_skipped);
        ck_assert_msg(it->moved == !it->skipped, "step %d, rank %d: skipped %d, moved %d", step, rank, it->skipped,
                      it->moved);
        ck_assert_msg(it->skipped == isinf(it->norm), "step %d: a norm of %g, skipped %d", step, it->norm, it->skipped);
        ck_assert_msg(it->scale == it->wanted_scale, "step %d: scale %g, not %g", step, it->scale, it->wanted_scale);
        ck_assert_msg(it->rate == it->wanted_rate, "step %d: rate %g, not %g", step, it->rate, it->wanted_rate);
        if (step > 0 && it[-1].skipped)
            ck_assert(it->rate == it[-1].rate);
        else if (step > 0 && step - it[-1].total_skipped >= 2) /* the first two updates may have the same rate */
            ck_assert(it->rate > it[-1].rate);
    }
}

static void check_fp16(int stage)
{
    run *job = train_all(stage, "fp16", STEPS, false, "fp16.initial_scale_power=40");
    const seen *it = job->of[0];
    bool rose = false;
    for (int step = 0; step < STEPS; step++) {
        check_step(job, step);
        ck_assert(isfinite(it[step].loss));
        rose |= step > 0 && it[step].scale == 2 * it[step - 1].scale;
    }
    ck_assert(it[0].skipped && it[1].skipped && it[2].skipped);
    /* With hysteresis 2 the first overflow does not change the scale. */
    ck_assert(it[0].scale == 0x1p40 && it[1].scale == 0x1p40);
    ck_assert(it[2].scale == 0x1p39 && it[3].scale == 0x1p38);
    ck_assert(rose);
    ck_assert_int_lt(it[STEPS - 1].total_skipped, STEPS - 10);
    ck_assert_double_lt(it[STEPS - 1].loss, it[0].loss);
    run_unshare(job, sizeof *job);
}

START_TEST(fp16_finds_its_scale_at_stage_0)
{
    check_fp16(0);
}
END_TEST

START_TEST(fp16_finds_its_scale_at_stage_2)
{
    check_fp16(2);
}
END_TEST

START_TEST(fp16_finds_its_scale_at_stage_3)
{
    check_fp16(3);
}
END_TEST

/* One value on one rank is infinite for one step: all ranks skip that step, and only that step. */
START_TEST(bf16_skips_what_is_not_finite)
{
    for (int stage = 0; stage <= 3; stage++) {
        run *job = train_all(stage, "bf16", 6, true, NULL);
        for (int step = 0; step < job->spec.steps; step++) {
            check_step(job, step);
            ck_assert_int_eq(job->of[0][step].skipped, step == POISONED);
            ck_assert(isfinite(job->of[0][step].loss) == (step != POISONED));
        }
        run_unshare(job, sizeof *job);
    }
}
END_TEST

START_TEST(bf16_skips_nothing_unless_asked_to)
{
    run *job = train_all(2, "bf16", 4, true, "bf16.check_grad_overflow=false");
    for (int rank = 0; rank < WORLD; rank++) {
        ck_assert_int_eq(job->of[rank][3].total_skipped, 0);
        ck_assert(job->of[rank][POISONED].moved);
        ck_assert(!isfinite(job->of[rank][3].loss));
    }
    run_unshare(job, sizeof *job);
}
END_TEST

/* ---- accumulation ---- */

/* Returns the exponent of the largest static loss scale, a power of two, with which the first step does not
 * overflow. */
static int largest_scale(int accumulation)
{
    int max = 0;
    for (int power = 8; power < 40; power++) {
        char set[64];
        run_spec spec = { .world = 1,
                          .stage = 0,
                          .steps = 1,
                          .micro = 2,
                          .accumulation = accumulation,
                          .precision = "fp16",
                          .prefetch = 1,
                          .set = { set } };
        snprintf(set, sizeof set, "fp16.loss_scale=%.0f", ldexp(1, power));
        cs_engine *engine = run_open(&spec, NULL);
        run_step(engine, &spec);
        bool fits = cs_last_step(engine).skipped == 0;
        cs_destroy(engine);
        if (!fits)
            break;
        max = power;
    }
    return max;
}

/* DeepSpeed divides the loss by gradient_accumulation_steps before backward. A scale that does not overflow in
 * DeepSpeed must not overflow in cspeed. So more micro-batches must not reduce the largest scale that does not
 * overflow. */
START_TEST(accumulation_takes_nothing_of_the_scale)
{
    int alone = largest_scale(1);
    ck_assert_int_gt(alone, 8);
    for (int accumulation = 2; accumulation <= 16; accumulation *= 2)
        ck_assert_int_ge(largest_scale(accumulation), alone);
}
END_TEST

SUITE_MAIN("overflow", fp16_finds_its_scale_at_stage_0, fp16_finds_its_scale_at_stage_2,
           fp16_finds_its_scale_at_stage_3, bf16_skips_what_is_not_finite, bf16_skips_nothing_unless_asked_to,
           accumulation_takes_nothing_of_the_scale)
