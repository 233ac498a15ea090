/* test_reduction.c - gradient reduction over ranks: mean or sum, division before or after the reduction, clipping, and
 * weighting by the number of target rows. */
#include "suite.h"
#include "pieces.h"
#include "runs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 8 };

static run_spec spec_of(int world, int stage)
{
    return (run_spec){ .world = world, .stage = stage, .steps = STEPS, .precision = "fp32", .prefetch = 1 };
}

static void close_to(const run_result *a, const run_result *b, double times, double bound, const char *what)
{
    for (int i = 0; i < STEPS; i++) {
        ck_assert_msg(fabs(a->loss[i] - b->loss[i]) <= bound * a->loss[i], "%s, step %d: loss %.9g and %.9g", what,
                      i + 1, a->loss[i], b->loss[i]);
        ck_assert_msg(fabs(times * a->norm[i] - b->norm[i]) <= bound * b->norm[i], "%s, step %d: norm %.9g and %.9g",
                      what, i + 1, times * a->norm[i], b->norm[i]);
    }
}

/* ---- division ---- */

START_TEST(dividing_before_or_after_is_the_same_in_fp32)
{
    static const struct {
        int world, stage;
        const char *key;
    } cases[] = { { 2, 0, "prescale_gradients=true" },
                  { 2, 1, "gradient_predivide_factor=3" },
                  { 2, 2, "gradient_predivide_factor=0.3" },
                  { 2, 3, "prescale_gradients=true" },
                  { 3, 2, "prescale_gradients=true" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_result after, before;
        run_spec spec = spec_of(cases[i].world, cases[i].stage);
        spec.accumulation = 2;
        spec.micro = 1;
        run_train(&spec, &after);
        spec.set[0] = cases[i].key;
        run_train(&spec, &before);
        close_to(&after, &before, 1, 1e-5, cases[i].key);
    }
}
END_TEST

START_TEST(a_sum_is_world_times_the_mean)
{
    for (int stage = 0; stage <= 3; stage += 3) {
        run_result mean, sum;
        run_spec spec = spec_of(2, stage);
        spec.set[0] = "gradient_clipping=0";
        spec.set[1] = "optimizer={\"type\": \"SGD\", \"params\": {\"lr\": 0.02}}";
        run_train(&spec, &mean);
        /* The sum over two ranks is twice the mean, so half the learning rate gives the same updates. */
        spec.set[1] = "optimizer={\"type\": \"SGD\", \"params\": {\"lr\": 0.01}}";
        spec.set[2] = "gradient_allreduce_op=SUM";
        run_train(&spec, &sum);
        close_to(&mean, &sum, 2, 1e-6, "sum");
    }
}
END_TEST

/* Sums in fp16 must stay below 65504; dividing before the reduction ensures that. */
START_TEST(dividing_first_keeps_fp16_in_range)
{
    static const struct {
        const char *key;
        bool skips;
    } cases[] = { { NULL, false },
                  { "prescale_gradients=true", false },
                  { "gradient_predivide_factor=2", false },
                  { "gradient_predivide_factor=1e-7", true } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_result result;
        run_spec spec = spec_of(2, 2);
        spec.precision = "fp16";
        spec.set[0] = "fp16.loss_scale=64";
        spec.set[1] = "communication_data_type=fp16";
        spec.set[2] = cases[i].key;
        run_train(&spec, &result);
        for (int step = 0; step < STEPS; step++)
            ck_assert_msg(isinf(result.norm[step]) == cases[i].skips, "case %zu, step %d: norm %g", i, step + 1,
                          result.norm[step]);
    }
}
END_TEST

/* ---- clipping ---- */

typedef struct {
    run_spec spec;
    double moved[4], norm; /* `moved`: sum of squared changes in each rank's part */
} move;

static double part_of(cs_engine *engine, float *values, bool apart)
{
    double squares = 0;
    int64_t place = 0;
    for (int i = 0; i < engine->model->count; i++) {
        ce_shard_piece pieces[32];
        int count = pieces_take(engine, i, pieces);
        for (int at = 0; at < count; at++) {
            const float *master = pieces[at].master;
            for (int64_t e = 0; e < ce_range_length(pieces[at].range); e++, place++) {
                double difference = apart ? (double)master[e] - values[place] : 0;
                squares += difference * difference;
                values[place] = master[e];
            }
        }
    }
    return squares;
}

static int move_once(void *argument)
{
    move *job = argument;
    cs_engine *engine = run_open(&job->spec, NULL);
    float *values = calloc((size_t)cs_parameter_count(engine), sizeof *values);
    part_of(engine, values, false);
    run_step(engine, &job->spec);
    job->moved[cs_rank(engine)] = part_of(engine, values, true);
    job->norm = cs_last_step(engine).grad_norm;
    free(values);
    cs_destroy(engine);
    return 0;
}

/* Plain SGD at learning rate 1 changes parameters by exactly the gradient. */
START_TEST(an_update_is_no_longer_than_the_clip)
{
    static const struct {
        const char *clip;
        double max;
    } cases[] = { { "gradient_clipping=0", INFINITY },
                  { "gradient_clipping=0.25", 0.25 },
                  { "gradient_clipping=1e9", 1e9 },
                  { "gradient_clipping=\"auto\"", 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int stage = 0; stage <= 3; stage += 3) {
            move *job = run_share(sizeof *job);
            job->spec = spec_of(2, stage);
            job->spec.set[0] = cases[i].clip;
            job->spec.set[1] = "optimizer={\"type\": \"SGD\", \"params\": {\"lr\": 1}}";
            run_ranks(2, move_once, job);
            double length = sqrt(job->moved[0] + job->moved[1]), want = fmin(job->norm, cases[i].max);
            ck_assert_double_gt(job->norm, 1.5);
            ck_assert_msg(fabs(length - want) <= 1e-5 * want, "%s, stage %d: %g, not %g", cases[i].clip, stage, length,
                          want);
            run_unshare(job, sizeof *job);
        }
}
END_TEST

/* ---- weights ---- */

/* Ranks have different numbers of targets: every token has the same weight, whichever rank it is on. */
START_TEST(losses_weigh_tokens_on_any_world)
{
    run_result one, two, four;
    run_spec spec = spec_of(1, 2);
    spec.masked = true;
    spec.micro = 4;
    run_train(&spec, &one);
    spec.world = 2;
    spec.micro = 2;
    run_train(&spec, &two);
    spec.world = 4;
    spec.micro = 1;
    run_train(&spec, &four);
    close_to(&one, &two, 1, 1e-5, "two ranks");
    close_to(&one, &four, 1, 1e-5, "four ranks");
    spec.set[0] = "communication_data_type=bf16";
    run_train(&spec, &two);
    close_to(&four, &two, 1, 2e-2, "bf16 between ranks");
}
END_TEST

/* ---- buckets ---- */

/* The model's units have about 2952, 7272, 7272, 7272 and 48 elements. The four values of `sizes` give: one bucket for
 * each unit; buckets of at most two units; a bucket of three units and one of two; one bucket for all units. */
START_TEST(buckets_change_no_bit)
{
    static const char *const sizes[] = { "zero_optimization.reduce_bucket_size=1",
                                         "zero_optimization.reduce_bucket_size=11000",
                                         "zero_optimization.reduce_bucket_size=16000",
                                         "zero_optimization.reduce_bucket_size=5e8" };
    static const struct {
        int world, stage;
        const char *precision, *key, *groups;
    } cases[] = { { 2, 0, "fp32", "gradient_predivide_factor=3", NULL },
                  { 3, 0, "bf16", "communication_data_type=bf16", NULL },
                  { 2, 0, "bf16", "data_types.grad_accum_dtype=bf16", NULL },
                  { 4, 3, "bf16", "communication_data_type=bf16", "zero_optimization.mics_shard_size=2" },
                  { 2, 1, "fp32", "prescale_gradients=true", NULL } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_result units, buckets;
        run_spec spec = { .world = cases[i].world,
                          .stage = cases[i].stage,
                          .steps = 3,
                          .accumulation = 2,
                          .precision = cases[i].precision,
                          .prefetch = 1,
                          .set = { cases[i].key, "zero_optimization.reduce_bucket_size=0", cases[i].groups } };
        run_train(&spec, &units);
        for (size_t at = 0; at < sizeof sizes / sizeof *sizes; at++) {
            spec.set[1] = sizes[at];
            run_train(&spec, &buckets);
            ck_assert_msg(memcmp(units.loss, buckets.loss, sizeof *units.loss * 3) == 0 &&
                              memcmp(units.norm, buckets.norm, sizeof *units.norm * 3) == 0,
                          "%s, %s", cases[i].key, sizes[at]);
            ck_assert_uint_eq(buckets.memory[0].sent, units.memory[0].sent);
            ck_assert_uint_eq(buckets.at_end[0].heap, buckets.at_open[0].heap);
        }
    }
}
END_TEST

SUITE_MAIN("reduction", dividing_before_or_after_is_the_same_in_fp32, a_sum_is_world_times_the_mean,
           dividing_first_keeps_fp16_in_range, an_update_is_no_longer_than_the_clip, losses_weigh_tokens_on_any_world,
           buckets_change_no_bit)
