/* test_dora.c - cs_op_dora_norms, cs_op_dora and cs_op_dora_grad compared with plain loops in double precision. */
#include "near.h"
#include "suite.h"

#include "cspeed/ops.h"

#include <math.h>
#include <stdlib.h>

static const struct {
    int64_t rows, inputs, outputs, rank, wide, first;
    bool bias;
} sizes[] = { { 1, 1, 1, 1, 1, 0, false },
              { 5, 7, 3, 2, 11, 8, true },
              { 33, 300, 70, 4, 100, 30, false },
              { 9, 40, 1500, 3, 1501, 1, true } };
enum { SIZES = sizeof sizes / sizeof *sizes };
static const float scale = 0.75f;

typedef struct {
    cs_tensor weight, a, b, magnitude, bias, y, z, dy, dmagnitude, norms;
} tensors;

static tensors make(cs_dtype dtype, int i, cs_layout layout)
{
    int64_t inputs = sizes[i].inputs, outputs = sizes[i].outputs, rows = sizes[i].rows, wide = sizes[i].wide;
    tensors made = { .weight = layout == CS_IN_OUT ? near_random(dtype, inputs, outputs, 1, 1)
                                                   : near_random(dtype, outputs, inputs, 1, 1),
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

static double norm_of(const tensors *t, int i, cs_layout layout, int64_t output)
{
    double sum = 0;
    for (int64_t k = 0; k < sizes[i].inputs; k++) {
        int64_t at = layout == CS_IN_OUT ? k * sizes[i].outputs + output : output * sizes[i].inputs + k;
        double w = near_element(t->weight, at);
        for (int64_t r = 0; r < sizes[i].rank; r++)
            w += (double)scale * near_element(t->b, output * sizes[i].rank + r) *
                 near_element(t->a, r * sizes[i].inputs + k);
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

static void check(cs_stream *stream, cs_dtype dtype, int i, cs_layout layout, bool fresh)
{
    double bound = dtype == CS_F32 ? 2e-5 : 3e-2; /* backward multiplies by z, which was rounded */
    tensors t = make(dtype, i, layout);
    results want = expect(&t, i, layout, fresh);
    cs_dora dora = { .weight = near_at(t.weight),
                     .layout = layout,
                     .a = near_at(t.a),
                     .b = near_at(t.b),
                     .magnitude = near_at(t.magnitude),
                     .bias = near_at(t.bias),
                     .scale = scale,
                     .first = sizes[i].first };
    cs_tensor norms = near_at(t.norms), z = near_at(t.z), dmagnitude = near_at(t.dmagnitude);
    dmagnitude.fresh = fresh;
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

START_TEST(dora_is_its_formula)
{
    static const cs_dtype types[] = { CS_F32, CS_BF16, CS_F16 };
    for (int threads = 1; threads <= near_threads(3) && near_is_cpu(); threads++) {
        cs_stream *stream = ce_device_stream(near_open(threads), CS_COMPUTE);
        for (int type = 0; type < 3; type++)
            for (int i = 0; i < SIZES; i++)
                for (int layout = 0; layout < 2; layout++)
                    check(stream, types[type], i, layout ? CS_OUT_IN : CS_IN_OUT, i % 2);
        near_close();
    }
}
END_TEST

SUITE_MAIN("dora", dora_is_its_formula)
