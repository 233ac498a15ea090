/* test_rope.c - the operations of the Llama family compared with plain loops in double precision: rotary positions,
 * RMSNorm of rows and heads, SwiGLU, attention with shared key heads and a window. */
#include "near.h"
#include "suite.h"

#include "device/device.h"
#include "cspeed/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static cs_stream *stream;

static void open_device(int threads)
{
    stream = ce_device_stream(near_open(threads), CE_COMPUTE);
}

/* Checks rotary positions that rotate D of the E columns of each head. */
static void check_pairs(cs_dtype dtype, int B, int T, int heads, int rest, int D, int E, bool adjacent)
{
    int W = heads * E + rest;
    cs_tensor x = near_random(dtype, B * T, W, 1, 1), whole = near_copy(x);
    double *want = near_doubles(x);
    cs_rope rope = { .width = D, .factor = 1.25f, .head = E == D ? 0 : E, .adjacent = adjacent };
    for (int i = 0; i < D / 2; i++)
        rope.frequency[i] = 1.0f / (float)(i + 1);
    for (int row = 0; row < B * T; row++)
        for (int h = 0; h < heads; h++)
            for (int i = 0; i < D / 2; i++) {
                double *low = want + row * W + h * E + (adjacent ? 2 * i : i), *high = low + (adjacent ? 1 : D / 2);
                double angle = (3 + row % T) / (i + 1.0);
                double a = *low, b = *high;
                *low = 1.25 * (a * cos(angle) - b * sin(angle));
                *high = 1.25 * (b * cos(angle) + a * sin(angle));
            }
    cs_rope_rows rows = { heads, T, 3 };
    cs_op_rope(stream, near_at(x), &rope, rows);
    near_fetch();
    ck_assert(near_all("rope", x, want, 2e-6));
    cs_op_rope_grad(stream, near_at(x), &rope, rows); /* rotates back, and multiplies by the scale again */
    near_fetch();
    for (int i = 0; i < B * T * W; i++)
        want[i] = near_element(whole, i) * (i % W < heads * E && i % W % E < D ? 1.25 * 1.25 : 1);
    ck_assert(near_all("rope_grad", x, want, dtype == CS_F32 ? 2e-6 : dtype == CS_F16 ? 2e-3 : 1e-2));
    free(want);
    near_free(x), near_free(whole);
}

static void check_rope(cs_dtype dtype, int B, int T, int heads, int rest, int D, int E)
{
    check_pairs(dtype, B, T, heads, rest, D, E, false);
    check_pairs(dtype, B, T, heads, rest, D, E, true);
}

static void check_rms(cs_dtype dtype, int N, int first, int heads, int D, int rest)
{
    int W = first + heads * D + rest;
    cs_tensor x = near_random(dtype, N, W, 1, 2), dy = near_random(dtype, N, W, 2, 1), y = near_copy(x);
    cs_tensor weight = near_random(dtype, 1, D, 3, 1), stats = near_new(CS_F32, N, heads), dw = near_new(CS_F32, 1, D);
    double *want = near_doubles(x), *slope = near_doubles(dy), *sums = near_doubles(dw);
    for (int at = 0; at < N * heads; at++) {
        int place = at / heads * W + first + at % heads * D;
        double square = 0, mean = 0;
        for (int i = 0; i < D; i++)
            square += near_element(x, place + i) * near_element(x, place + i);
        double rstd = 1 / sqrt(square / D + 1e-5);
        for (int i = 0; i < D; i++) {
            double n = near_element(x, place + i) * rstd;
            mean += n * near_element(dy, place + i) * near_element(weight, i) / D;
            sums[i] += n * near_element(dy, place + i);
            want[place + i] = n * near_element(weight, i);
        }
        for (int i = 0; i < D; i++)
            slope[place + i] = rstd * (near_element(dy, place + i) * near_element(weight, i) -
                                       near_element(x, place + i) * rstd * mean);
    }
    cs_op_rms(stream, near_at(y), near_at(stats), near_at(x), near_at(weight), first, 1e-5f);
    near_fetch();
    ck_assert(near_all("rms", y, want, 2e-6));
    cs_op_rms_grad(stream, near_at(dy), near_at(dw), near_at(dy), near_at(x), near_at(stats), near_at(weight), first);
    near_fetch();
    ck_assert(near_all("rms_grad", dy, slope, 3e-6));
    ck_assert(near_all("rms_grad weight", dw, sums, 3e-6));
    free(want), free(slope), free(sums);
    near_free(x), near_free(dy), near_free(y), near_free(weight), near_free(stats), near_free(dw);
}

static void check_swiglu(cs_dtype dtype, int N, int C)
{
    cs_tensor x = near_random(dtype, N, 2 * C, 1, 3), dy = near_random(dtype, N, C, 2, 1), y = near_new(dtype, N, C);
    cs_tensor dx = near_new(dtype, N, 2 * C);
    double *want = near_doubles(y), *slope = near_doubles(dx);
    for (int at = 0; at < N * C; at++) {
        int gate = at / C * 2 * C + at % C;
        double g = near_element(x, gate), up = near_element(x, gate + C), s = 1 / (1 + exp(-g));
        want[at] = g * s * up;
        slope[gate] = near_element(dy, at) * up * (s + g * s * (1 - s));
        slope[gate + C] = near_element(dy, at) * g * s;
    }
    cs_op_swiglu(stream, near_at(y), near_at(x));
    cs_op_swiglu_grad(stream, near_at(dx), near_at(dy), near_at(x));
    near_fetch();
    ck_assert(near_all("swiglu", y, want, 2e-6));
    ck_assert(near_all("swiglu_grad", dx, slope, 2e-6));
    free(want), free(slope);
    near_free(x), near_free(dy), near_free(y), near_free(dx);
}

typedef struct {
    /* One sample of T rows, with H query heads and G key heads of D columns. `window`: number of rows that a row
     * attends to; 0: all rows up to itself. `document`: number of rows of a document; 0: the sample is one
     * document. */
    int T, H, G, D, window, document;
    double scale, cap; /* `scale`: factor of the scores, 0: 1/sqrt(D); `cap`: cap of the scores, 0: no cap */
} heads;

/* Computes y for double values x, and returns the loss sum(y dy) for finite differences. */
static double attend(double *y, const double *x, const double *dy, heads s)
{
    int W = (s.H + 2 * s.G) * s.D, C = s.H * s.D;
    double loss = 0, *p = calloc((size_t)s.T, sizeof *p);
    for (int h = 0; h < s.H; h++)
        for (int i = 0; i < s.T; i++) {
            int start = s.document ? i / s.document * s.document : 0;
            int from = s.window && i - s.window + 1 > start ? i - s.window + 1 : start;
            const double *q = x + i * W + h * s.D, *k = x + (s.H + h / (s.H / s.G)) * s.D, *v = k + s.G * s.D;
            double sum = 0;
            for (int j = from; j <= i; j++) {
                double score = 0;
                for (int d = 0; d < s.D; d++)
                    score += q[d] * k[j * W + d];
                score *= s.scale > 0 ? s.scale : 1 / sqrt(s.D);
                sum += p[j] = exp(s.cap > 0 ? s.cap * tanh(score / s.cap) : score);
            }
            for (int d = 0; d < s.D; d++) {
                double mixed = 0;
                for (int j = from; j <= i; j++)
                    mixed += p[j] / sum * v[j * W + d];
                y[i * C + h * s.D + d] = mixed;
                loss += mixed * dy[i * C + h * s.D + d];
            }
        }
    free(p);
    return loss;
}

static void check_heads(cs_dtype dtype, heads s)
{
    int W = (s.H + 2 * s.G) * s.D, C = s.H * s.D;
    cs_tensor starts = near_new(CS_I32, 1, s.T);
    cs_heads given = { .queries = s.H, .keys = s.G, .window = s.window };
    given.scale = (float)s.scale;
    given.cap = (float)s.cap;
    cs_tensor qkv = near_random(dtype, s.T, W, 1, 1), dy = near_random(dtype, s.T, C, 2, 1);
    cs_tensor dqkv = near_new(dtype, s.T, W), y = near_new(dtype, s.T, C), lse = near_new(CS_F32, s.H, s.T);
    double *x = near_doubles(qkv), *ndy = near_doubles(dy), *want = near_doubles(y), *spare = near_doubles(y);
    double *slope = near_doubles(dqkv);
    for (int i = 0; i < s.T && s.document; i++)
        ((int32_t *)starts.data)[i] = i / s.document * s.document;
    if (s.document)
        given.starts = near_at(starts);
    cs_op_attention(stream, near_at(y), near_at(lse), near_at(qkv), given, (cs_dropout){ 0 });
    cs_op_attention_grad(stream, near_at(dqkv), near_at(dy), near_at(y), near_at(lse), near_at(qkv), given,
                         (cs_dropout){ 0 });
    near_fetch();
    attend(want, x, ndy, s);
    ck_assert(near_all("heads", y, want, 3e-6));
    for (int i = 0; i < s.T * W; i++) { /* computes the gradient by finite differences */
        double before = x[i], above;
        x[i] = before + 1e-5;
        above = attend(spare, x, ndy, s);
        x[i] = before - 1e-5;
        slope[i] = (above - attend(spare, x, ndy, s)) / 2e-5;
        x[i] = before;
    }
    ck_assert(near_all("heads_grad", dqkv, slope, dtype == CS_F32 ? 5e-6 : dtype == CS_F16 ? 1e-3 : 8e-3));
    free(x), free(ndy), free(want), free(spare), free(slope);
    near_free(qkv), near_free(dy), near_free(dqkv), near_free(y), near_free(lse), near_free(starts);
}

START_TEST(operations_agree_with_plain_loops)
{
    for (int threads = 1; threads <= near_threads(3); threads += 2) {
        open_device(threads);
        for (int type = CS_F32; type <= CS_F16; type++) {
            cs_dtype dtype = (cs_dtype)type;
            check_rope(dtype, 1, 1, 1, 0, 2, 2);
            check_rope(dtype, 3, 37, 5, 11, 12, 12);
            check_rope(dtype, 2, 70, 3, 0, 128, 128);
            check_rope(dtype, 2, 9, 3, 5, 6, 10);
            check_rms(dtype, 1, 0, 1, 4, 0);
            check_rms(dtype, 67, 0, 1, 1030, 0);
            check_rms(dtype, 33, 20, 3, 10, 7);
            check_swiglu(dtype, 1, 1);
            check_swiglu(dtype, 19, 1100);
        }
        near_close();
    }
}
END_TEST

START_TEST(heads_share_keys_and_see_windows)
{
    static const heads cases[] = {
        { 1, 2, 1, 2, 0, 0, 0, 0 },    { 9, 6, 2, 4, 0, 0, 0, 0 },     { 9, 4, 4, 2, 3, 0, 0, 0 },
        { 70, 2, 1, 2, 5, 0, 0, 0 },   { 12, 3, 1, 4, 1, 0, 0, 0 },    { 9, 6, 2, 4, 0, 4, 0, 0 },
        { 70, 2, 1, 2, 5, 8, 0, 0 },   { 140, 2, 1, 2, 0, 65, 0, 0 },  { 9, 6, 2, 4, 0, 0, 0.25, 0 },
        { 12, 4, 2, 8, 0, 0, 0, 0.5 }, { 110, 2, 1, 4, 7, 0, 1.5, 2 }, { 9, 2, 2, 4, 0, 4, 0.125, 50 },
    };
    open_device(2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int type = CS_F32; type <= CS_F16; type++)
            check_heads((cs_dtype)type, cases[i]);
    near_close();
}
END_TEST

SUITE_MAIN("rope", operations_agree_with_plain_loops, heads_share_keys_and_see_windows)
