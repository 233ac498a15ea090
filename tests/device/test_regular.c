/* test_regular.c - what training adds to the loss and to the embeddings: label smoothing and z-loss compared with
 * transformers (golden/habits.golden) and with loops in double precision; the noise of NEFTune. */
#include "golden.h"
#include "near.h"
#include "reference.h"
#include "shares.h"
#include "suite.h"

#include "base/rng.h"
#include "cspeed/ops.h"
#include "device/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const cs_tensor absent;
static cs_stream *stream;

/* ---- terms of the loss ---- */

enum { MAX_COLUMNS = 700, ROWS = 12 };

/* Returns the loss of a row, and sets `grad` to its gradient. */
static double expect_row(double *grad, const double *x, int width, int target, double smoothing, double z_loss)
{
    double lse, mean = 0;
    memset(grad, 0, (size_t)width * sizeof *grad);
    if (target < 0)
        return 0;
    double loss = reference_cross_entropy(&lse, x, width, target);
    reference_cross_entropy_grad(grad, 1, x, width, target);
    for (int v = 0; v < width; v++) {
        double chance = exp(x[v] - lse), uniform = chance - 1.0 / width;
        mean += (lse - x[v]) / width;
        grad[v] = (1 - smoothing) * grad[v] + smoothing * uniform + 2 * z_loss * lse * chance;
    }
    return (1 - smoothing) * loss + smoothing * mean + z_loss * lse * lse;
}

/* Computes the losses of all ranks' columns. The logits of `x` become their gradient. */
static cs_tensor lose(cs_tensor x, cs_tensor targets, cs_tensor dloss, int ranks, cs_entropy_terms terms)
{
    int64_t columns = cs_columns(x), rows = cs_rows(x);
    int count = terms.smoothing > 0 ? CS_ENTROPY_FACTS_SMOOTHED : CS_ENTROPY_FACTS;
    cs_tensor facts = near_new(CS_F32, ranks * rows, count), loss = near_new(CS_F32, rows, 1);
    terms.classes = columns;
    for (int rank = 0; rank < ranks; rank++) {
        share at = share_of(columns, rank, ranks);
        cs_tensor part = share_columns(x, at), own = cs_matrix_rows(facts, rank * rows, rows);
        cs_op_entropy_facts(stream, near_at(own), near_at(part), near_at(targets), at.first, at.count);
        near_fetch();
        near_free(part);
    }
    cs_tensor whole = near_copy(x);
    for (int rank = 0; rank < ranks; rank++) {
        share at = share_of(columns, rank, ranks);
        cs_tensor part = share_columns(whole, at);
        cs_op_entropy_finish(stream, near_at(loss), absent, near_at(part), near_at(targets), at.first, at.count,
                             near_at(dloss), near_at(facts), terms);
        near_fetch();
        for (int64_t i = 0; i < cs_count(part); i++)
            if (i % at.room < at.count)
                near_set(x, i / at.room * columns + at.first + i % at.room, near_element(part, i));
        near_free(part);
    }
    SHARE_FREE(facts, whole);
    return loss;
}

static void check_terms(cs_dtype dtype, int ranks, int columns, cs_entropy_terms terms)
{
    static double grad[ROWS * MAX_COLUMNS], want[ROWS];
    cs_tensor x = near_random(dtype, ROWS, columns, 1, 3), targets = near_new(CS_I32, ROWS, 1);
    cs_tensor dloss = near_new(CS_F32, ROWS, 1);
    double *logits = near_doubles(x);
    for (int row = 0; row < ROWS; row++) {
        int target = ((int32_t *)targets.data)[row] = row == 5 ? -1 : row * 53 % columns;
        want[row] = expect_row(grad + row * columns, logits + row * columns, columns, target, (double)terms.smoothing,
                               (double)terms.z_loss);
        near_set(dloss, row, 0.5);
        for (int v = 0; v < columns; v++)
            grad[row * columns + v] *= 0.5;
    }
    cs_tensor loss = lose(x, targets, dloss, ranks, terms);
    ck_assert(near_all("loss", loss, want, 1e-6));
    ck_assert(near_all("gradient", x, grad, 1e-6));
    free(logits);
    SHARE_FREE(x, targets, dloss, loss);
}

static void check_all_terms(cs_stream *given, cs_dtype dtype, int ranks)
{
    static const cs_entropy_terms terms[] = { { 0.1f, 0, 0 }, { 0, 1e-2f, 0 }, { 0.3f, 1e-3f, 0 }, { 0, 0, 0 } };
    stream = given;
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
        check_terms(dtype, ranks, 11, terms[i]);
        check_terms(dtype, ranks, MAX_COLUMNS, terms[i]);
    }
}

START_TEST(terms_are_those_of_loops)
{
    share_for_all(check_all_terms);
}
END_TEST

START_TEST(terms_are_those_of_transformers)
{
    static const char *const names[] = { "smoothed", "z", "both" };
    golden *file = golden_open(CS_SOURCE "/tests/golden/habits.golden");
    cs_tensor logits = golden_tensor(file, "logits"), targets = golden_tensor(file, "targets");
    const float *factors = golden_tensor(file, "factors").data;
    stream = ce_device_stream(near_open(1), CE_COMPUTE);
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s_grad", names[i]);
        cs_tensor x = near_new(CS_F32, cs_rows(logits), cs_columns(logits)),
                  dloss = near_new(CS_F32, cs_rows(logits), 1);
        cs_tensor picked = near_new(CS_I32, cs_rows(logits), 1);
        memcpy(x.data, logits.data, (size_t)cs_count(logits) * sizeof(float));
        memcpy(picked.data, targets.data, (size_t)cs_count(targets) * sizeof(int32_t));
        double active = 0, sum = 0;
        for (int64_t row = 0; row < cs_count(targets); row++)
            active += ((const int32_t *)targets.data)[row] >= 0;
        for (int64_t row = 0; row < cs_count(targets); row++)
            near_set(dloss, row, 1 / active);
        cs_tensor loss =
            lose(x, picked, dloss, 1, (cs_entropy_terms){ i == 1 ? 0 : factors[0], i == 0 ? 0 : factors[1], 0 });
        for (int64_t row = 0; row < cs_count(targets); row++)
            sum += near_element(loss, row) / active;
        ck_assert_double_eq_tol(sum, near_element(golden_tensor(file, names[i]), 0), 1e-6 * sum);
        ck_assert(near_tensors(name, x, golden_tensor(file, name), 1e-6));
        SHARE_FREE(x, dloss, picked, loss);
    }
    near_close();
    golden_close(file);
}
END_TEST

/* ---- noise ---- */

enum { SAMPLES = 3, LENGTH = 10, WIDTH = 24 };

static const uint64_t keys[SAMPLES] = { 11, 12, 13 };

static cs_tensor device_keys(void)
{
    cs_tensor x = near_new(CS_F32, SAMPLES, 2);
    memcpy(x.data, keys, sizeof keys);
    return x;
}

/* The number that is added to an element of a sample. */
static double noise_of(int64_t sample, int64_t element, double size)
{
    ce_rng_block block = ce_rng_philox(ce_rng_mix(keys[sample], 77), (uint64_t)element / 8);
    uint32_t bits = block.word[element % 8 / 2] >> element % 2 * 16 & 0xffff;
    return size * ((bits + 0.5) / 32768 - 1);
}

static void check_noise(cs_stream *given, cs_dtype dtype, int ranks)
{
    double want[SAMPLES * LENGTH * WIDTH], largest = 0;
    cs_tensor held = device_keys(), whole = near_random(dtype, SAMPLES * LENGTH, WIDTH, 1, 1), y = near_copy(whole);
    stream = given;
    cs_dropout draw = { .place = 77, .batch = SAMPLES };
    draw.keys = near_at(held).data;
    cs_op_add_noise(stream, near_at(y), 0.25f, draw);
    near_fetch();
    for (int64_t i = 0; i < cs_count(whole); i++) {
        double noise = noise_of(i / (LENGTH * WIDTH), i % (LENGTH * WIDTH), 0.25);
        want[i] = near_element(whole, i) + noise;
        largest = fmax(largest, fabs(noise));
    }
    ck_assert(near_all("noise", y, want, 1e-6));
    ck_assert(largest > 0.24 && largest < 0.25);
    /* the same rows, as a rank of sequence parallelism has some of one sample */
    int64_t rows = LENGTH / ranks;
    for (int rank = 0; rank < ranks; rank++) {
        cs_tensor part = near_new(dtype, rows, WIDTH);
        size_t bytes = (size_t)(rows * WIDTH) * cs_dtype_bytes(dtype);
        memcpy(part.data, (const char *)whole.data + (size_t)(LENGTH + rank * rows) * WIDTH * cs_dtype_bytes(dtype),
               bytes);
        cs_dropout own = { .place = 77, .batch = 1, .from = rank * rows * WIDTH, .width = WIDTH };
        own.keys = (const uint64_t *)near_at(held).data + 1;
        cs_op_add_noise(stream, near_at(part), 0.25f, own);
        near_fetch();
        ck_assert(memcmp(part.data,
                         (const char *)y.data + (size_t)(LENGTH + rank * rows) * WIDTH * cs_dtype_bytes(dtype),
                         bytes) == 0);
        near_free(part);
    }
    SHARE_FREE(held, whole, y);
}

START_TEST(noise_is_that_of_its_place)
{
    share_for_all(check_noise);
}
END_TEST

SUITE_MAIN("regular", terms_are_those_of_loops, terms_are_those_of_transformers, noise_is_that_of_its_place)
