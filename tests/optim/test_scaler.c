/* test_scaler.c - dynamic loss scaling compared with traces of DeepSpeed and with a second implementation of
 * DeepSpeed's rule, in 10,000 patterns of overflows and in 10,000 steps of a training on two ranks. */
#include "suite.h"
#include "runs.h"
#include "core/engine.h"
#include "cspeed/layer.h"
#include "optim/scaler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const ce_scaler_settings small = {
    .initial_scale_power = 8, .loss_scale_window = 2, .hysteresis = 2, .min_loss_scale = 1
};

/* Judges one step for each character of `flags`, where '1' is an overflow. After step i the scale must be scales[i]. */
static void run(const char *flags, const double *scales, ce_scaler_settings settings)
{
    ce_scaler scaler;
    ce_scaler_open(&scaler, &settings, true);
    for (int i = 0; flags[i]; i++) {
        ck_assert_int_eq(ce_scaler_judge(&scaler, &settings, flags[i] == '1', NULL), CS_OK);
        ck_assert_msg(scaler.scale == scales[i], "%s, step %d: %g, not %g", flags, i, scaler.scale, scales[i]);
    }
}

START_TEST(test_growth)
{
    run("00000", (double[]){ 256, 256, 512, 512, 1024 }, small);
}
END_TEST

START_TEST(test_hysteresis)
{
    run("11100001011", (double[]){ 256, 128, 64, 64, 64, 128, 128, 128, 128, 64, 32 }, small);
    run("10101", (double[]){ 256, 256, 128, 128, 64 }, small);
}
END_TEST

START_TEST(test_consecutive)
{
    ce_scaler_settings settings = small;
    settings.consecutive_hysteresis = true;
    run("10101", (double[]){ 256, 256, 256, 256, 256 }, settings);
}
END_TEST

START_TEST(test_minimum)
{
    ce_scaler_settings settings = small;
    ce_scaler scaler;
    settings.hysteresis = 1;
    settings.initial_scale_power = 2;
    run("11", (double[]){ 2, 1 }, settings);
    ce_scaler_open(&scaler, &settings, true);
    ck_assert_int_eq(ce_scaler_judge(&scaler, &settings, true, NULL), CS_OK);
    ck_assert_int_eq(ce_scaler_judge(&scaler, &settings, true, NULL), CS_OK);
    ck_assert_int_eq(ce_scaler_judge(&scaler, &settings, true, NULL), CS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(cs_error(), "smallest loss scale, 1"));
}
END_TEST

START_TEST(test_fractional_minimum)
{
    ce_scaler_settings settings = small;
    settings.hysteresis = 1;
    settings.initial_scale_power = 0;
    settings.min_loss_scale = 0.3;
    run("11", (double[]){ 0.5, 0.3 }, settings);
}
END_TEST

/* With hysteresis 0, DeepSpeed never lowers the scale; cspeed lowers the scale at every overflow. */
START_TEST(test_no_hysteresis)
{
    ce_scaler_settings settings = small;
    settings.hysteresis = 0;
    run("11", (double[]){ 128, 64 }, settings);
}
END_TEST

START_TEST(test_static)
{
    ce_scaler_settings settings = small;
    const char *said;
    ce_scaler scaler;
    settings.loss_scale = 1024;
    run("0110000", (double[]){ 1024, 1024, 1024, 1024, 1024, 1024, 1024 }, settings);
    ce_scaler_open(&scaler, &settings, false); /* false: fp32 or bf16 */
    ck_assert(scaler.scale == 1 && !scaler.dynamic);
    ck_assert_int_eq(ce_scaler_judge(&scaler, &settings, true, &said), CS_OK);
    ck_assert(scaler.scale == 1);
}
END_TEST

START_TEST(test_said)
{
    const char *said;
    ce_scaler scaler;
    ce_scaler_open(&scaler, &small, true);
    ck_assert_int_eq(ce_scaler_judge(&scaler, &small, true, &said), CS_OK);
    ck_assert_str_eq(said, "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 256, but hysteresis is "
                           "2. Reducing hysteresis to 1");
    ck_assert_int_eq(ce_scaler_judge(&scaler, &small, true, &said), CS_OK);
    ck_assert_str_eq(said, "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 256, reducing to 128");
    ck_assert_int_eq(ce_scaler_judge(&scaler, &small, false, &said), CS_OK);
    ck_assert_str_eq(said, "");
    scaler.scale = 0x1p40; /* a scale with many digits */
    ck_assert_int_eq(ce_scaler_judge(&scaler, &small, true, &said), CS_OK);
    ck_assert_ptr_nonnull(strstr(said, "scale: 1099511627776, "));
    ce_scaler_open(&scaler, &small, false); /* bf16 has no scale, so the message has none */
    ck_assert_int_eq(ce_scaler_judge(&scaler, &small, true, &said), CS_OK);
    ck_assert_str_eq(said, "[deepspeed] OVERFLOW! Rank 0 Skipping step.");
}
END_TEST

START_TEST(test_stays_finite)
{
    ce_scaler_settings settings = small;
    settings.initial_scale_power = 125;
    settings.loss_scale_window = 1;
    run("0000", (double[]){ 0x1p125, 0x1p126, 0x1p126, 0x1p126 }, settings);
}
END_TEST

/* ---- a second implementation of the rule ----
 *
 * It counts the steps without overflow since the last overflow or the beginning. The scale doubles after 1 + `window`
 * such steps, and then after each further `window` of them. */

typedef struct {
    int64_t window, patience;
    bool refills; /* the setting consecutive_hysteresis */
    double min;
    double scale;
    /* left: 1 if the next overflow halves the scale, 2 if the second overflow from now on halves it, and so on. clean:
     * number of steps without overflow since the last overflow. */
    int64_t left, clean;
    int64_t applied, skipped;
} rule;

static rule rule_of(const ce_scaler_settings *settings)
{
    return (rule){ .window = settings->loss_scale_window,
                   .patience = settings->hysteresis,
                   .refills = settings->consecutive_hysteresis,
                   .min = settings->min_loss_scale,
                   .scale = pow(2, (double)settings->initial_scale_power),
                   .left = settings->hysteresis };
}

/* Applies the rule to one step. Returns false if an overflow at the lowest scale ends the run. */
static bool rule_step(rule *r, bool overflow)
{
    if (overflow) {
        r->skipped++;
        r->clean = 0;
        if (r->left > 1) {
            r->left--;
            return true;
        }
        if (r->scale <= r->min)
            return false;
        r->scale = r->scale / 2 > r->min ? r->scale / 2 : r->min;
        return true;
    }
    r->applied++;
    r->clean++;
    bool doubles = r->clean > 1 && (r->clean - 1) % r->window == 0;
    if (doubles || r->refills)
        r->left = r->patience;
    if (doubles)
        r->scale *= 2;
    return true;
}

static uint64_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

START_TEST(test_ten_thousand_patterns)
{
    uint64_t state = 7;
    int ends = 0, doublings = 0;
    for (int pattern = 0; pattern < 10000; pattern++) {
        ce_scaler_settings settings = { .initial_scale_power = (int64_t)draw(&state) % 24 - 2,
                                        .loss_scale_window = 1 + (int64_t)draw(&state) % 7,
                                        .hysteresis = 1 + (int64_t)draw(&state) % 4,
                                        .consecutive_hysteresis = draw(&state) % 2 == 0,
                                        .min_loss_scale = draw(&state) % 2 ? 0.25 : 0.1875 };
        uint64_t density = 1 + draw(&state) % 90;
        rule model = rule_of(&settings);
        ce_scaler scaler;
        ce_scaler_open(&scaler, &settings, true);
        for (int step = 0; step < 60; step++) {
            bool overflow = draw(&state) % 100 < density, goes_on = rule_step(&model, overflow);
            double before = scaler.scale;
            ck_assert_int_eq(ce_scaler_judge(&scaler, &settings, overflow, NULL), goes_on ? CS_OK : CS_UNSUPPORTED);
            ends += !goes_on;
            if (!goes_on)
                break;
            ck_assert_msg(scaler.scale == model.scale, "pattern %d, step %d: %g, not %g", pattern, step, scaler.scale,
                          model.scale);
            ck_assert_int_eq(scaler.hysteresis, model.left);
            doublings += scaler.scale > before;
        }
    }
    ck_assert_int_gt(ends, 1000);
    ck_assert_int_gt(doublings, 1000);
}
END_TEST

/* ---- the same rule in a training: one linear unit, whose inputs overflow on one rank in steps drawn at random ---- */

enum { WORLD = 2, STEPS = 10000, INPUTS = 4 };

static void declare(cs_unit *unit, const void *sizes)
{
    (void)sizes;
    cs_linear_declare(cs_unit_self(unit, sizeof(cs_linear)), unit, "linear", INPUTS, 1, (cs_init){ CS_NORMAL, 0.1f },
                      CS_IN_OUT, CS_BIAS);
}

static void forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    cs_tensor narrow = cs_pass_make(pass, cs_pass_dtype(pass), cs_rows(x), cs_columns(x));
    cs_op_cast(cs_pass_stream(pass), narrow, x);
    cs_tensor guess = cs_linear_forward(cs_unit_self(unit, sizeof(cs_linear)), pass, narrow);
    cs_op_squared_error(cs_pass_stream(pass), y, guess, cs_pass_targets(pass));
    cs_pass_keep(pass, guess);
}

static void backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    (void)dx;
    cs_tensor guess = cs_pass_take(pass);
    cs_tensor dguess = cs_pass_like(pass, guess);
    cs_op_squared_error_grad(cs_pass_stream(pass), dguess, dy, guess, cs_pass_targets(pass));
    cs_linear_backward_weights(cs_unit_self(unit, sizeof(cs_linear)), pass, dguess);
}

static const cs_kind line = { "line", declare, forward, backward, NULL };

typedef struct {
    double scale, rate;
    bool skipped;
} trace;

typedef struct {
    run_spec spec;
    trace of[WORLD][STEPS], model[STEPS];
} script;

static int train(void *argument)
{
    script *job = argument;
    cs_model *own;
    cs_engine *engine;
    CS_MUST(cs_model_new(&own, 1));
    cs_model_floats(own, INPUTS, 1);
    cs_model_add(own, &line, "", NULL);
    engine = run_open(&job->spec, own);
    int rank = cs_rank(engine);
    rule model = rule_of(&engine->settings->scaler);
    uint64_t state = 99;
    for (int step = 0; step < STEPS; step++) {
        float inputs[2 * INPUTS], targets[2];
        bool overflow = draw(&state) % 100 < 20 + (uint64_t)(step / 1000) * 5;
        /* Makes no overflow while the scale is at most twice the minimum, because an overflow at the minimum ends the
         * run. A scale above 2^8 overflows in any case. */
        if (model.scale <= 2 * model.min || model.scale > 0x1p8)
            overflow = model.scale > 0x1p8;
        bool mine = overflow && (int)(draw(&state) % WORLD) == rank;
        for (int i = 0; i < 2 * INPUTS; i++)
            inputs[i] = mine ? 1e6f : (float)((step + i * 7 + rank) % 11) / 11;
        targets[0] = targets[1] = 0.5f;
        cs_batch batch = { .inputs = cs_matrix(inputs, CS_F32, 2, INPUTS),
                           .targets = cs_matrix(targets, CS_F32, 2, 1) };
        cs_metrics before = cs_last_step(engine);
        double rate = ce_schedule_rate(&engine->settings->schedule, model.applied);
        job->model[step] = (trace){ model.scale, rate, overflow };
        cs_forward(engine, &batch);
        cs_backward(engine);
        cs_step(engine);
        cs_metrics after = cs_last_step(engine);
        job->of[rank][step] = (trace){ after.loss_scale, after.learning_rate, after.skipped > before.skipped };
        if (!rule_step(&model, overflow))
            return 1;
        if (!overflow)
            draw(&state);
    }
    cs_destroy(engine);
    return 0;
}

START_TEST(test_ten_thousand_steps)
{
    script *job = run_share(sizeof *job);
    job->spec = (run_spec){
        .world = WORLD,
        .stage = 2,
        .steps = STEPS,
        .precision = "fp16",
        .prefetch = 1,
        .more = "\"scheduler\": { \"type\": \"WarmupDecayLR\", \"params\": { \"total_num_steps\": 10000, "
                "\"warmup_num_steps\": 100, \"warmup_max_lr\": 1e-4 } },",
        .set = { "fp16.initial_scale_power=6", "fp16.loss_scale_window=3", "fp16.min_loss_scale=0.5" },
    };
    run_ranks(WORLD, train, job);
    int skips = 0, moves = 0;
    for (int step = 0; step < STEPS; step++) {
        const trace *want = &job->model[step];
        for (int rank = 0; rank < WORLD; rank++) {
            const trace *is = &job->of[rank][step];
            ck_assert_msg(is->scale == want->scale, "rank %d, step %d: scale %g, not %g", rank, step, is->scale,
                          want->scale);
            ck_assert_msg(is->skipped == want->skipped, "rank %d, step %d: skipped %d", rank, step, is->skipped);
            ck_assert_msg(is->rate == want->rate, "rank %d, step %d: rate %g, not %g", rank, step, is->rate,
                          want->rate);
        }
        skips += want->skipped;
        moves += step > 0 && want->scale != want[-1].scale;
    }
    ck_assert_int_gt(skips, 1000);
    ck_assert_int_gt(moves, 1000);
    run_unshare(job, sizeof *job);
}
END_TEST

SUITE_MAIN("scaler", test_growth, test_hysteresis, test_consecutive, test_minimum, test_fractional_minimum,
           test_no_hysteresis, test_static, test_said, test_stays_finite, test_ten_thousand_patterns,
           test_ten_thousand_steps)
