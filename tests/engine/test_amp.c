/* test_amp.c - Apex's levels: the types of each operation, O0 equal to fp32 bit for bit, gradients close to fp32's,
 * fp32 norms and masters at O2, and the loss scale. */
#include "suite.h"
#include "pieces.h"
#include "runs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORLD = 2, STEPS = 10, WIDTH = 24 };

#define LEVEL(level) "amp={\"enabled\": true, \"opt_level\": \"" level "\"}"

static run_spec spec_of(const char *amp, int stage)
{
    return (
        run_spec){ .world = WORLD, .stage = stage, .steps = STEPS, .precision = "fp32", .prefetch = 1, .set = { amp } };
}

static bool same(const run_result *a, const run_result *b)
{
    return memcmp(a->loss, b->loss, sizeof *a->loss * STEPS) == 0 &&
           memcmp(a->norm, b->norm, sizeof *a->norm * STEPS) == 0;
}

/* ---- the table ---- */

START_TEST(what_runs_in_what)
{
    static const struct {
        const char *amp, *operation;
        cs_dtype takes, gives;
    } cases[] = {
        { LEVEL("O0"), "matrix product", CS_F32, CS_F32 }, { LEVEL("O0"), "optimizer", CS_F32, CS_F32 },
        { LEVEL("O1"), "matrix product", CS_F16, CS_F16 }, { LEVEL("O1"), "norm", CS_F32, CS_F16 },
        { LEVEL("O1"), "embedding", CS_F32, CS_F32 },      { LEVEL("O1"), "softmax", CS_F32, CS_F32 },
        { LEVEL("O1"), "loss", CS_F16, CS_F32 },           { LEVEL("O1"), "residual sum", CS_F32, CS_F32 },
        { LEVEL("O1"), "optimizer", CS_F32, CS_F32 },      { LEVEL("O2"), "embedding", CS_F16, CS_F16 },
        { LEVEL("O2"), "norm", CS_F16, CS_F16 },           { LEVEL("O2"), "norm parameters", CS_F32, CS_F32 },
        { LEVEL("O2"), "optimizer", CS_F32, CS_F32 },      { LEVEL("O3"), "norm parameters", CS_F16, CS_F16 },
        { LEVEL("O3"), "matrix product", CS_F16, CS_F16 }, { LEVEL("O3"), "gradient sum", CS_F16, CS_F16 },
        { LEVEL("O3"), "optimizer", CS_F16, CS_F16 },      { LEVEL("O3"), "loss", CS_F16, CS_F32 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_spec spec = spec_of(cases[i].amp, 0);
        spec.world = 1;
        cs_engine *engine = run_open(&spec, NULL);
        bool found = false;
        ce_precision_row row;
        for (int at = 0; ce_precision_list(&engine->settings->precision, at, &row); at++) {
            if (strcmp(row.operation, cases[i].operation) != 0)
                continue;
            found = true;
            ck_assert_msg(row.takes == cases[i].takes && row.gives == cases[i].gives, "%s %s: takes %d, gives %d",
                          cases[i].amp, row.operation, (int)row.takes, (int)row.gives);
        }
        ck_assert_msg(found, "%s is not in the table", cases[i].operation);
        cs_destroy(engine);
    }
}
END_TEST

/* ---- levels train ---- */

START_TEST(level_o0_has_the_bits_of_fp32)
{
    for (int stage = 0; stage <= 3; stage += 3) {
        run_result plain, level;
        run_spec spec = spec_of(NULL, stage);
        run_train(&spec, &plain);
        spec.set[0] = LEVEL("O0");
        run_train(&spec, &level);
        ck_assert(same(&plain, &level));
    }
}
END_TEST

static void check_level(const char *amp, const char *more, double bound)
{
    run_result wide, first, other;
    run_spec spec = spec_of(NULL, 0);
    spec.set[0] = more;
    run_train(&spec, &wide);
    spec.set[1] = amp;
    for (int stage = 0; stage <= 3; stage++) {
        spec.stage = stage;
        run_train(&spec, stage == 0 ? &first : &other);
        ck_assert_msg(stage == 0 || same(&first, &other), "%s: stage %d and stage 0 differ", amp, stage);
    }
    for (int step = 0; step < STEPS; step++)
        ck_assert_msg(fabs(first.loss[step] - wide.loss[step]) <= bound * wide.loss[step], "%s, step %d: %g, not %g",
                      amp, step + 1, first.loss[step], wide.loss[step]);
    ck_assert(!same(&first, &wide));
    ck_assert_double_lt(first.loss[STEPS - 1], first.loss[0]);
}

START_TEST(o1_trains)
{
    check_level(LEVEL("O1"), "optimizer.params.lr=2e-3", 4e-3);
}
END_TEST

START_TEST(o2_trains)
{
    check_level(LEVEL("O2"), "optimizer.params.lr=2e-3", 4e-3);
}
END_TEST

/* SGD, because AdamW's second moment underflows in fp16. */
START_TEST(o3_trains)
{
    check_level(LEVEL("O3"), "optimizer={\"type\": \"SGD\", \"params\": {\"lr\": 0.1, \"momentum\": 0.9}}", 2e-2);
}
END_TEST

/* ---- gradients after unscaling equal those of fp32 within a bound ---- */

static double *gradients(const char *amp, double *scale, int64_t *count)
{
    run_spec spec = spec_of(amp, 0);
    spec.world = 1;
    cs_engine *engine = run_open(&spec, NULL);
    cs_batch batch = run_batch(engine, &spec, 0);
    double *all = calloc((size_t)cs_parameter_count(engine), sizeof *all);
    ck_assert_ptr_nonnull(all);
    *scale = engine->scaler.scale;
    *count = 0;
    cs_forward(engine, &batch);
    cs_backward(engine);
    for (int i = 0; i < engine->model->count; i++) {
        ce_shard_piece pieces[32];
        int found = pieces_take(engine, i, pieces);
        for (int at = 0; at < found; at++) {
            int64_t length = ce_range_length(pieces[at].range);
            cs_tensor row = cs_vector(pieces[at].gradient, engine->zero.precision.sums, length);
            for (int64_t e = 0; e < length; e++)
                all[(*count)++] = (double)cs_element(row, e) / *scale;
        }
    }
    cs_destroy(engine);
    return all;
}

START_TEST(gradients_are_those_of_fp32)
{
    static const char *const levels[] = { LEVEL("O1"), LEVEL("O2"), LEVEL("O3") };
    int64_t count, other;
    double scale, max = 0, *want = gradients(NULL, &scale, &count);
    ck_assert_double_eq(scale, 1);
    for (int64_t i = 0; i < count; i++)
        max = fmax(max, fabs(want[i]));
    for (size_t level = 0; level < 3; level++) {
        double *is = gradients(levels[level], &scale, &other);
        ck_assert_int_eq(count, other);
        ck_assert_double_eq(scale, level < 2 ? 65536 : 1);
        for (int64_t i = 0; i < count; i++)
            ck_assert_msg(fabs(is[i] - want[i]) <= 4e-3 * max, "%s: element %lld is %g, not %g", levels[level],
                          (long long)i, is[i], want[i]);
        free(is);
    }
    free(want);
}
END_TEST

/* ---- O2: norms compute with their fp32 masters, on every rank ---- */

typedef struct {
    run_spec spec;
    bool wide;
    int64_t checked, narrow; /* elements of norms, and of other parameters, in this rank's part */
    int64_t wrong;
    cs_memory memory[WORLD];
} norm_look;

static int look_at_norms(void *argument)
{
    norm_look *job = argument;
    cs_engine *engine = run_open(&job->spec, NULL);
    for (int step = 0; step < 4; step++)
        run_step(engine, &job->spec);
    for (int i = 0; i < engine->model->count; i++) {
        ce_shard_piece pieces[32];
        int count = pieces_take(engine, i, pieces);
        ce_shard_gather(engine->shards[i]);
        ce_shard_await(engine->shards[i]);
        for (int at = 0; at < count; at++) {
            const cs_param *param = &pieces[at].entry->param;
            const float *master = pieces[at].master;
            bool wide = job->wide && param->norm;
            job->wrong += param->value.dtype != (wide ? CS_F32 : CS_F16);
            float value[WIDTH];
            if (wide)
                ce_stream_fetch(ce_device_stream(engine->device, CE_COMPUTE), value, param->value.data, sizeof value);
            for (int64_t e = 0; wide && e < ce_range_length(pieces[at].range); e++) {
                job->wrong += value[pieces[at].range.from + e] != master[e];
                job->wrong += param->decay; /* norms' parameters are vectors, which do not decay */
                if (cs_rank(engine) == 0)
                    job->checked++;
            }
        }
        ce_shard_release(engine->shards[i]);
    }
    ce_walk_settle(engine);
    job->memory[cs_rank(engine)] = cs_memory_of(engine);
    cs_destroy(engine);
    return 0;
}

START_TEST(o2_keeps_norms_in_fp32)
{
    for (int stage = 0; stage <= 3; stage++) {
        norm_look *on = run_share(sizeof *on), *off = run_share(sizeof *off);
        on->spec = spec_of(LEVEL("O2"), stage);
        on->wide = true;
        off->spec =
            spec_of("amp={\"enabled\": true, \"opt_level\": \"O2\", \"keep_batchnorm_fp32\": \"False\"}", stage);
        run_ranks(WORLD, look_at_norms, on);
        run_ranks(WORLD, look_at_norms, off);
        ck_assert_int_eq(on->wrong, 0);
        ck_assert_int_eq(off->wrong, 0);
        ck_assert_int_gt(on->checked, 0);
        ck_assert_uint_eq(on->memory[1].values, off->memory[1].values + 4 * (3 * 4 + 2) * 24);
        ck_assert_uint_gt(on->memory[1].masters, 0);
        run_unshare(on, sizeof *on);
        run_unshare(off, sizeof *off);
    }
}
END_TEST

START_TEST(o3_with_norms_and_masters_is_o2)
{
    run_result two, three;
    run_spec spec = spec_of("amp={\"enabled\": true, \"opt_level\": \"O2\", \"loss_scale\": 1024}", 2);
    run_train(&spec, &two);
    spec.set[0] = "amp={\"enabled\": true, \"opt_level\": \"O3\", \"loss_scale\": 1024, \"keep_batchnorm_fp32\": true, "
                  "\"master_weights\": true}";
    run_train(&spec, &three);
    ck_assert(same(&two, &three));
}
END_TEST

/* ---- the loss scale ---- */

START_TEST(scales)
{
    static const struct {
        const char *amp;
        bool dynamic;
        double scale;
    } cases[] = {
        { LEVEL("O0"), false, 1 },
        { LEVEL("O1"), true, 65536 },
        { LEVEL("O2"), true, 65536 },
        { LEVEL("O3"), false, 1 },
        { "amp={\"enabled\": true, \"loss_scale\": 128}", false, 128 },
        { "amp={\"enabled\": true, \"opt_level\": \"O0\", \"loss_scale\": 128}", false, 128 },
        { "amp={\"enabled\": true, \"opt_level\": \"O3\", \"loss_scale\": \"dynamic\"}", true, 65536 },
        { "amp={\"enabled\": false, \"opt_level\": \"O3\"}", false, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_spec spec = spec_of(cases[i].amp, 0);
        spec.world = 1;
        cs_engine *engine = run_open(&spec, NULL);
        ck_assert_msg(engine->scaler.dynamic == cases[i].dynamic, "%s", cases[i].amp);
        ck_assert_msg(engine->scaler.scale == cases[i].scale, "%s: %g", cases[i].amp, engine->scaler.scale);
        run_step(engine, &spec);
        ck_assert(isfinite(cs_last_step(engine).loss));
        cs_destroy(engine);
    }
}
END_TEST

/* Apex's scale is halved at every overflow, and doubled after 2,000 steps without one, up to 2^24. */
START_TEST(the_scale_moves_as_apex_says)
{
    run_spec spec = spec_of(LEVEL("O1"), 0);
    spec.world = 1;
    cs_engine *engine = run_open(&spec, NULL);
    ce_scaler_settings settings = engine->settings->scaler;
    ce_scaler scaler = engine->scaler;
    cs_destroy(engine);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(ce_scaler_judge(&scaler, &settings, true, NULL), CS_OK);
    ck_assert_double_eq(scaler.scale, 8192);
    for (int i = 0; i < 2000 * 20 + 1; i++)
        ck_assert_int_eq(ce_scaler_judge(&scaler, &settings, false, NULL), CS_OK);
    ck_assert_double_eq(scaler.scale, 0x1p24);
    for (int i = 0; i < 48; i++)
        ck_assert_int_eq(ce_scaler_judge(&scaler, &settings, true, NULL), CS_OK);
    ck_assert_double_eq(scaler.scale, 0x1p-24);
    ck_assert_int_eq(ce_scaler_judge(&scaler, &settings, true, NULL), CS_UNSUPPORTED);
}
END_TEST

SUITE_MAIN("amp", what_runs_in_what, level_o0_has_the_bits_of_fp32, o1_trains, o2_trains, o3_trains,
           gradients_are_those_of_fp32, o2_keeps_norms_in_fp32, o3_with_norms_and_masters_is_o2, scales,
           the_scale_moves_as_apex_says)
