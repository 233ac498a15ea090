/* test_dora.c - cs_op_dora_norms, cs_op_dora and cs_op_dora_grad compared with plain loops in double precision. */
#include "near.h"
#include "suite.h"

#include "cspeed/ops.h"

#include <math.h>
#include <stdlib.h>

static const struct {
    int64_t rows, inputs, outputs, rank, wide, first;
    bool bias;
} sizes[] = { { 1, 1, 1, 1, 1, 0, false },       { 1, 1, 70, 1, 70, 0, false },
              { 5, 7, 3, 2, 11, 8, true },       { 33, 300, 70, 4, 100, 30, false },
              { 9, 40, 1500, 3, 1501, 1, true }, { 300, 136, 264, 16, 536, 264, false },
              { 0, 24, 16, 4, 16, 0, true },     { 2, 72, 40, 209, 56, 8, false } };
enum { SIZES = sizeof sizes / sizeof *sizes };
static const float scale = 0.75f;

typedef struct {
    cs_tensor weight, a, b, magnitude, bias, y, z, dy, dmagnitude, norms;
} tensors;

static tensors make(cs_dtype of_weight, cs_dtype dtype, int i, cs_layout layout)
{
    int64_t inputs = sizes[i].inputs, outputs = sizes[i].outputs, rows = sizes[i].rows, wide = sizes[i].wide;
    tensors made = { .weight = layout == CS_IN_OUT ? near_random(of_weight, inputs, outputs, 1, 1)
                                                   : near_random(of_weight, outputs, inputs, 1, 1),
                     .a = near_random(dtype, sizes[i].rank, inputs, 2, 1),
                     .b = near_random(dtype, outputs, sizes[i].rank, 3, 1),
                     .magnitude = near_random(CS_F32, outputs, 1, 4, 1),
                     .bias = sizes[i].bias ? near_random(dtype, outputs, 1, 5, 1) : (cs_tensor){ 0 },
                     .y = near_random(dtype, rows, wide, 6, 1),
                     .z = near_random(dtype, rows, outputs, 7, 1),
                     .dy = near_random(dtype, rows, wide, 8, 1),
                     .dmagnitude = near_random(CS_F32, outputs, 1, 9, 1),
                     .norms = near_new(CS_F32, outputs, 1) };
    return made;
}

static void drop(tensors *t)
{
    cs_tensor all[] = { t->weight, t->a, t->b, t->magnitude, t->y, t->z, t->dy, t->dmagnitude, t->norms };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        near_free(all[i]);
    if (t->bias.data)
        near_free(t->bias);
}

static int64_t weight_at(int i, cs_layout layout, int64_t output, int64_t input)
{
    return layout == CS_IN_OUT ? input * sizes[i].outputs + output : output * sizes[i].inputs + input;
}

/* Returns an element of scale B A. */
static double change_of(const tensors *t, int i, int64_t output, int64_t input)
{
    double sum = 0;
    for (int64_t r = 0; r < sizes[i].rank; r++)
        sum += near_element(t->b, output * sizes[i].rank + r) * near_element(t->a, r * sizes[i].inputs + input);
    return (double)scale * sum;
}

static double norm_of(const tensors *t, int i, cs_layout layout, int64_t output)
{
    double sum = 0;
    for (int64_t k = 0; k < sizes[i].inputs; k++) {
        double w = near_element(t->weight, weight_at(i, layout, output, k)) + change_of(t, i, output, k);
        sum += w * w;
    }
    return sqrt(sum);
}

/* The expected results, computed from the values before the operations run. If `fresh` is true, the old values of the
 * magnitude's gradient are ignored. */
typedef struct {
    double *norms, *y, *z, *dy, *dmagnitude;
} results;

static results expect(const tensors *t, int i, cs_layout layout, bool fresh)
{
    results want = { near_doubles(t->norms), near_doubles(t->y), near_doubles(t->z), near_doubles(t->dy),
                     near_doubles(t->dmagnitude) };
    int64_t outputs = sizes[i].outputs, wide = sizes[i].wide;
    for (int64_t c = 0; c < outputs; c++) {
        double norm = want.norms[c] = norm_of(t, i, layout, c), gain = near_element(t->magnitude, c) / norm;
        double bias = t->bias.data ? near_element(t->bias, c) : 0, sum = 0;
        for (int64_t r = 0; r < sizes[i].rows; r++) {
            int64_t narrow = r * outputs + c, at = r * wide + sizes[i].first + c;
            want.z[narrow] = want.y[at] - bias + (double)scale * want.z[narrow];
            want.y[at] = bias + gain * want.z[narrow];
            sum += want.dy[at] * want.z[narrow];
            want.dy[at] *= gain;
        }
        want.dmagnitude[c] = (fresh ? 0 : want.dmagnitude[c]) + sum / norm;
    }
    return want;
}

static cs_dora dora_of(const tensors *t, int i, cs_layout layout)
{
    return (cs_dora){ .weight = near_at(t->weight),
                      .layout = layout,
                      .a = near_at(t->a),
                      .b = near_at(t->b),
                      .magnitude = near_at(t->magnitude),
                      .bias = near_at(t->bias),
                      .scale = scale,
                      .first = sizes[i].first };
}

static void check_formula(cs_stream *stream, cs_dtype dtype, int i, cs_layout layout)
{
    bool fresh = i % 2;
    double bound = dtype == CS_F32 ? 2e-5 : 3e-2; /* backward multiplies by z, which was rounded */
    tensors t = make(dtype, dtype, i, layout);
    results want = expect(&t, i, layout, fresh);
    cs_dora dora = dora_of(&t, i, layout);
    cs_tensor norms = near_at(t.norms), z = near_at(t.z), dmagnitude = near_at(t.dmagnitude);
    dmagnitude.overwrite = fresh;
    cs_op_dora_norms(stream, norms, &dora);
    cs_op_dora(stream, near_at(t.y), z, norms, &dora);
    cs_op_dora_grad(stream, near_at(t.dy), dmagnitude, z, norms, &dora);
    near_fetch();
    ck_assert(near_all("norms", t.norms, want.norms, 1e-5));
    ck_assert(near_all("y", t.y, want.y, 1e-5));
    ck_assert(near_all("z", t.z, want.z, 1e-5));
    ck_assert(near_all("dy", t.dy, want.dy, 1e-5));
    ck_assert(near_all("dmagnitude", t.dmagnitude, want.dmagnitude, bound));
    double *lists[] = { want.norms, want.y, want.z, want.dy, want.dmagnitude };
    for (int k = 0; k < 5; k++)
        free(lists[k]);
    drop(&t);
}

/* The weights are almost -scale B A, so the norms are small differences of large numbers, of which at least the first
 * 21 bits must be right. With one input, every error of a product shows. The weights are fp32 for every type of the
 * factors. */
static void check_cancellation(cs_stream *stream, cs_dtype dtype, int i, cs_layout layout)
{
    tensors t = make(CS_F32, dtype, i, layout);
    for (int64_t output = 0; output < sizes[i].outputs; output++)
        for (int64_t k = 0; k < sizes[i].inputs; k++) {
            int64_t at = weight_at(i, layout, output, k);
            near_set(t.weight, at, 1e-4 * near_element(t.weight, at) - change_of(&t, i, output, k));
        }
    double *want = near_doubles(t.norms);
    for (int64_t output = 0; output < sizes[i].outputs; output++)
        want[output] = norm_of(&t, i, layout, output);
    cs_dora dora = dora_of(&t, i, layout);
    cs_op_dora_norms(stream, near_at(t.norms), &dora);
    near_fetch();
    ck_assert(near_all("small norms", t.norms, want, 4e-3 * (double)sizes[i].rank));
    free(want);
    drop(&t);
}

typedef void checks(cs_stream *stream, cs_dtype dtype, int i, cs_layout layout);

static void for_all(checks *run)
{
    static const cs_dtype types[] = { CS_F32, CS_BF16, CS_F16 };
    for (int threads = 1; threads <= near_threads(3); threads++) {
        cs_stream *stream = ce_device_stream(near_open(threads), CE_COMPUTE);
        for (int type = 0; type < 3; type++)
            for (int i = 0; i < SIZES; i++)
                for (int layout = 0; layout < 2; layout++)
                    run(stream, types[type], i, layout ? CS_OUT_IN : CS_IN_OUT);
        near_close();
    }
}

START_TEST(dora_is_its_formula)
{
    for_all(check_formula);
}
END_TEST

START_TEST(small_norms_are_exact)
{
    for_all(check_cancellation);
}
END_TEST

SUITE_MAIN("dora", dora_is_its_formula, small_norms_are_exact)
