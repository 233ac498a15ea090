/* test_stages.c - ZeRO stages 0 to 3 give the same training: bit for bit if they add in the same order, otherwise
 * within a bound. */
#include "suite.h"
#include "near.h"
#include "runs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void same_bits(const run_result *a, const run_result *b, int steps, const char *what)
{
    for (int i = 0; i < steps; i++)
        ck_assert_msg(memcmp(&a->loss[i], &b->loss[i], sizeof a->loss[i]) == 0, "%s: loss of step %d: %.17g and %.17g",
                      what, i + 1, a->loss[i], b->loss[i]);
    for (int i = 0; i < steps; i++)
        ck_assert_msg(memcmp(&a->norm[i], &b->norm[i], sizeof a->norm[i]) == 0, "%s: norm of step %d: %.17g and %.17g",
                      what, i + 1, a->norm[i], b->norm[i]);
}

static void learns(const run_result *result, int steps)
{
    ck_assert_double_lt(result->loss[steps - 1], result->loss[0]);
    ck_assert(isfinite(result->loss[steps - 1]));
}

/* Without accumulation and with clipping, every stage has the same losses and norms, with and without recomputation. */
static void all_stages_alike(int world, const char *precision, double dropout)
{
    run_spec spec = { .world = world, .stage = 0, .precision = precision, .dropout = dropout, .prefetch = 1 };
    run_result first, other;
    spec.steps = near_limit(12, 3);
    run_train(&spec, &first);
    learns(&first, spec.steps);
    for (int stage = 0; stage <= 3; stage++)
        for (int unit = 0; unit <= 1; unit++) {
            char what[128];
            spec.stage = stage;
            spec.recompute = unit ? "unit" : "none";
            spec.prefetch = unit + 1;
            run_train(&spec, &other);
            snprintf(what, sizeof what, "%s, world %d, stage %d, recompute %s", precision, world, stage,
                     spec.recompute);
            same_bits(&first, &other, spec.steps, what);
        }
}

START_TEST(fp32_alike)
{
    for (int world = 1; world <= near_limit(4, 2); world *= 2)
        all_stages_alike(world, "fp32", 0);
}
END_TEST

START_TEST(bf16_alike)
{
    for (int world = near_limit(1, 2); world <= near_limit(4, 2); world *= 2)
        all_stages_alike(world, "bf16", 0);
}
END_TEST

START_TEST(fp16_alike)
{
    all_stages_alike(2, "fp16", 0);
}
END_TEST

START_TEST(dropout_alike)
{
    all_stages_alike(2, "fp32", 0.2);
}
END_TEST

START_TEST(odd_worlds_train)
{
    for (int world = 3; world <= near_limit(7, 3); world += 2) {
        run_spec spec = { .world = world, .stage = 0, .steps = 4, .micro = 1, .precision = "fp32", .prefetch = 1 };
        run_result first, other;
        run_train(&spec, &first);
        learns(&first, spec.steps);
        for (int stage = 1; stage <= 3; stage++) {
            char what[64];
            spec.stage = stage;
            run_train(&spec, &other);
            snprintf(what, sizeof what, "world %d stage %d", world, stage);
            same_bits(&first, &other, spec.steps, what);
        }
    }
}
END_TEST

static void close_losses(const run_result *a, const run_result *b, int steps, double bound, const char *what)
{
    for (int i = 0; i < steps; i++)
        ck_assert_msg(fabs(a->loss[i] - b->loss[i]) <= bound * fabs(a->loss[i]), "%s: step %d: %.9g and %.9g", what,
                      i + 1, a->loss[i], b->loss[i]);
}

/* With accumulation, stages 0 and 1 have the same bits, and stages 2 and 3 have the same bits; the two pairs add in
 * different orders. */
static void accumulation(const char *precision, double bound)
{
    run_spec spec = { .world = 2, .micro = 1, .precision = precision, .prefetch = 1 };
    run_result stage[4];
    spec.steps = near_limit(20, 4);
    spec.accumulation = near_limit(4, 2);
    for (spec.stage = 0; spec.stage <= 3; spec.stage++)
        run_train(&spec, &stage[spec.stage]);
    same_bits(&stage[0], &stage[1], spec.steps, "accumulation, stages 0 and 1");
    same_bits(&stage[2], &stage[3], spec.steps, "accumulation, stages 2 and 3");
    close_losses(&stage[0], &stage[2], spec.steps, bound, precision);
    learns(&stage[0], spec.steps);
}

START_TEST(accumulation_fp32)
{
    accumulation("fp32", 1e-6);
}
END_TEST

/* bf16 rounds parameters to 8 bits after every step, so a last-bit difference of a sum sometimes changes a
 * parameter. */
START_TEST(accumulation_bf16)
{
    accumulation("bf16", 2e-3);
}
END_TEST

/* The samples of a step do not depend on the world size: the same 4 samples on 1, 2 and 4 ranks. */
START_TEST(worlds_agree)
{
    run_spec spec = { .world = 1, .stage = 2, .micro = 4, .precision = "fp32", .dropout = 0.1, .prefetch = 1 };
    run_result one, two, four;
    spec.steps = near_limit(10, 3);
    run_train(&spec, &one);
    spec.world = 2;
    spec.micro = 2;
    run_train(&spec, &two);
    spec.world = 4;
    spec.micro = 1;
    run_train(&spec, &four);
    close_losses(&one, &two, spec.steps, 1e-5, "1 and 2 ranks");
    close_losses(&one, &four, spec.steps, 1e-5, "1 and 4 ranks");
}
END_TEST

/* The CPU computes the logits of this vocabulary in chunks of 64 rows: a micro-batch of 144 rows has three chunks, a
 * micro-batch of 48 rows has one. */
START_TEST(chunks_of_logits_alike)
{
    run_spec spec = { .world = 2,
                      .steps = 3,
                      .micro = 12,
                      .precision = "fp32",
                      .recompute = "unit",
                      .prefetch = 1,
                      .set = { "cspeed.model.vocab_size=131072" } };
    run_result first, other;
    if (strcmp(near_device(), "cpu") != 0)
        return;
    run_train(&spec, &first);
    ck_assert_uint_lt(first.memory[0].activations, 144 * 131072 * sizeof(float));
    for (spec.stage = 1; spec.stage <= 3; spec.stage += 2) {
        spec.recompute = spec.stage == 1 ? "unit" : "none";
        run_train(&spec, &other);
        same_bits(&first, &other, spec.steps, "chunks of logits");
    }
    spec.stage = 2;
    spec.micro = 4;
    spec.accumulation = 3;
    run_train(&spec, &other);
    close_losses(&first, &other, spec.steps, 1e-6, "chunks of logits and micro-batches");
    learns(&first, spec.steps);
}
END_TEST

/* Products on tiles, which CPUs without AMX compute by a model of the tiles: stages have the same bits, and the losses
 * are those of the other methods. */
static void tiles_alike(const char *precision, const char *method, double bound)
{
    run_spec spec = { .world = 2, .steps = 4, .micro = 2, .precision = precision, .prefetch = 1 };
    run_result fixed, first, other;
    char products[64];
    snprintf(products, sizeof products, "cspeed.products=%s", method);
    run_train(&spec, &fixed);
    spec.set[0] = products;
    run_train(&spec, &first);
    ck_assert(memcmp(fixed.loss, first.loss, sizeof fixed.loss) != 0); /* it is another method */
    close_losses(&fixed, &first, spec.steps, bound, method);
    spec.stage = 3;
    spec.recompute = "unit";
    run_train(&spec, &other);
    same_bits(&first, &other, spec.steps, method);
}

START_TEST(products_on_tiles_alike)
{
    if (strcmp(near_device(), "cpu") != 0)
        return;
    tiles_alike("bf16", "tiles", 2e-3);
    tiles_alike("fp32", "x6", 1e-6);
    tiles_alike("fp32", "x3", 1e-4);
}
END_TEST

SUITE_MAIN("stages", fp32_alike, bf16_alike, fp16_alike, dropout_alike, odd_worlds_train, accumulation_fp32,
           accumulation_bf16, worlds_agree, chunks_of_logits_alike, products_on_tiles_alike)
