/* test_expert_bias.c - what gpt-oss needs beside products and attention, compared with plain loops in double precision:
 * biases of experts, the clamped gate, and attention sinks. The results have the same bits with any number of threads. */
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

/* ---- biases ---- */

enum { EXPERTS = 5, SLOTS = 40 };
static const int32_t first_slot[EXPERTS + 1] = { 0, 0, 17, 18, 18, SLOTS };

static int expert_of(int slot)
{
    int e = 0;
    while (first_slot[e + 1] <= slot)
        e++;
    return e;
}

/* `scaled` is true if slots have factors, `fresh` if the gradient of the biases is set instead of added to. */
static void check_bias(cs_dtype dtype, int C, bool scaled, bool fresh)
{
    cs_tensor bounds = near_new(CS_I32, EXPERTS + 1, 1), rows = near_new(CS_I32, SLOTS, 1);
    cs_tensor y = near_random(dtype, SLOTS, C, 1, 1), bias = near_random(dtype, EXPERTS, C, 2, 1);
    cs_tensor dy = near_random(dtype, SLOTS, C, 3, 1), dbias = near_random(CS_F32, EXPERTS, C, 4, 1);
    cs_tensor factors = near_random(dtype, SLOTS, 1, 5, 1), dfactors = near_random(CS_F32, SLOTS, 1, 6, 1);
    double *want = near_doubles(y), *sums = near_doubles(dbias), *dots = near_doubles(dfactors);
    memcpy(bounds.data, first_slot, sizeof first_slot);
    for (int i = 0; i < EXPERTS * C; i++)
        sums[i] = fresh ? 0 : sums[i];
    for (int i = 0; i < SLOTS * C; i++) {
        int slot = i / C, at = expert_of(slot) * C + i % C;
        double factor = scaled ? near_element(factors, slot) : 1;
        want[i] += factor * near_element(bias, at);
        sums[at] += factor * near_element(dy, i);
        dots[slot] += near_element(dy, i) * near_element(bias, at);
    }
    cs_routing routing = { .rows = near_at(rows), .bounds = near_at(bounds) };
    cs_tensor absent = { 0 }, own = scaled ? near_at(factors) : absent, grown = near_at(dbias);
    grown.overwrite = fresh;
    cs_op_expert_bias(stream, near_at(y), near_at(bias), own, &routing);
    cs_op_expert_bias_grad(stream, grown, near_at(dfactors), near_at(dy), near_at(bias), own, &routing);
    cs_op_expert_bias_grad(stream, absent, absent, near_at(dy), near_at(bias), own, &routing); /* frozen */
    near_fetch();
    ck_assert(near_all("expert_bias", y, want, 3e-7));
    ck_assert(near_all("dbias", dbias, sums, 1e-6));
    ck_assert(near_all("dfactors", dfactors, dots, 1e-6));
    free(want), free(sums), free(dots);
    cs_tensor tensors[] = { bounds, rows, y, bias, dy, dbias, factors, dfactors };
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        near_free(tensors[i]);
}

START_TEST(slots_get_the_bias_of_their_expert)
{
    static const int widths[] = { 1, 37, 64, 1500 };
    open_device(2);
    for (int dtype = CS_F32; dtype <= CS_F16; dtype++)
        for (int i = 0; i < 4; i++) {
            check_bias((cs_dtype)dtype, widths[i], i % 2, i < 2);
            check_bias((cs_dtype)dtype, widths[i], i % 2 == 0, i >= 2);
        }
    near_close();
}
END_TEST

/* ---- the clamped gate ---- */

static void check_clamped(cs_dtype dtype, int N, int C)
{
    cs_clamp clamp = { 1.702f, 1.5f };
    cs_tensor x = near_random(dtype, N, 2 * C, 1, 2), dy = near_random(dtype, N, C, 2, 1), y = near_new(dtype, N, C);
    cs_tensor dx = near_new(dtype, N, 2 * C);
    double *want = near_doubles(y), *slope = near_doubles(dx), alpha = (double)clamp.alpha, limit = (double)clamp.limit;
    for (int i = 0; i < N * C; i++) {
        double gate = near_element(x, 2 * i), up = near_element(x, 2 * i + 1), given = near_element(dy, i);
        double g = fmin(gate, limit), u = fmax(fmin(up, limit), -limit), s = 1 / (1 + exp(-alpha * g));
        want[i] = (u + 1) * g * s;
        slope[2 * i] = gate > limit ? 0 : given * (u + 1) * (s + alpha * g * s * (1 - s));
        slope[2 * i + 1] = fabs(up) > limit ? 0 : given * g * s;
    }
    cs_op_clamped(stream, near_at(y), near_at(x), clamp);
    cs_op_clamped_grad(stream, near_at(dx), near_at(dy), near_at(x), clamp);
    near_fetch();
    ck_assert(near_all("clamped", y, want, 4e-7));
    ck_assert(near_all("clamped_grad", dx, slope, 1e-6));
    free(want), free(slope);
    near_free(x), near_free(dy), near_free(y), near_free(dx);
}

START_TEST(gates_are_clamped)
{
    open_device(2);
    for (int dtype = CS_F32; dtype <= CS_F16; dtype++) {
        check_clamped((cs_dtype)dtype, 37, 301);
        check_clamped((cs_dtype)dtype, 3, 1);
        check_clamped((cs_dtype)dtype, 5, 2048);
    }
    near_close();
}
END_TEST

/* ---- sinks ---- */

typedef struct {
    int B, T, H, D;
} shape;

typedef struct {
    cs_tensor qkv, y, lse, sinks, dy, dqkv, dsinks;
} example;

static example make(cs_dtype dtype, shape s)
{
    int rows = s.B * s.T, C = s.H * s.D;
    return (example){ .qkv = near_random(dtype, rows, 3 * C, 1, 1),
                      .y = near_new(dtype, rows, C),
                      .lse = near_new(CS_F32, s.B * s.H, s.T),
                      .sinks = near_random(dtype, 1, s.H, 2, 3),
                      .dy = near_random(dtype, rows, C, 3, 1),
                      .dqkv = near_new(dtype, rows, 3 * C),
                      .dsinks = near_random(CS_F32, 1, s.H, 4, 1) };
}

static void drop(example *e)
{
    cs_tensor tensors[] = { e->qkv, e->y, e->lse, e->sinks, e->dy, e->dqkv, e->dsinks };
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        near_free(tensors[i]);
}

static void run(example *e, shape s)
{
    cs_heads heads = { .queries = s.H, .keys = s.H };
    cs_op_attention(stream, near_at(e->y), near_at(e->lse), near_at(e->qkv), heads, (cs_dropout){ 0 });
    cs_op_sinks(stream, near_at(e->y), near_at(e->lse), near_at(e->sinks));
    cs_op_sinks_grad(stream, near_at(e->dsinks), near_at(e->dy), near_at(e->y), near_at(e->lse), near_at(e->sinks));
    cs_op_sinks_grad(stream, (cs_tensor){ 0 }, near_at(e->dy), near_at(e->y), near_at(e->lse), near_at(e->sinks));
    cs_op_attention_grad(stream, near_at(e->dqkv), near_at(e->dy), near_at(e->y), near_at(e->lse), near_at(e->qkv),
                         heads, (cs_dropout){ 0 });
    near_fetch();
}

/* One query row of a head: q, its scores with the keys, and the probabilities with the sink in the denominator. */
typedef struct {
    const double *qkv, *dy;
    double *y, *dqkv, *dsink, sink;
    int T, C, D;
} head;

static void attend_row(const head *h, int t)
{
    double p[64], dp[64], all = exp(h->sink), mean = 0, scale = 1 / sqrt(h->D);
    const double *q = h->qkv + (size_t)t * 3 * (size_t)h->C, *dy = h->dy + (size_t)t * (size_t)h->C;
    for (int j = 0; j <= t; j++) {
        const double *k = h->qkv + (size_t)j * 3 * (size_t)h->C + h->C, *v = k + h->C;
        p[j] = dp[j] = 0;
        for (int d = 0; d < h->D; d++) {
            p[j] += q[d] * k[d] * scale;
            dp[j] += dy[d] * v[d];
        }
        p[j] = exp(p[j]);
        all += p[j];
    }
    for (int j = 0; j <= t; j++) {
        p[j] /= all;
        mean += p[j] * dp[j];
    }
    *h->dsink -= exp(h->sink) / all * mean;
    for (int j = 0; j <= t; j++)
        for (int d = 0; d < h->D; d++) {
            size_t at = (size_t)(j * 3 * h->C + h->C + d), own = (size_t)(t * 3 * h->C + d);
            h->y[t * h->C + d] += p[j] * h->qkv[at + (size_t)h->C];
            h->dqkv[own] += p[j] * (dp[j] - mean) * scale * h->qkv[at];
            h->dqkv[at] += p[j] * (dp[j] - mean) * scale * q[d];
            h->dqkv[at + (size_t)h->C] += p[j] * dy[d];
        }
}

static void check_sinks(cs_dtype dtype, shape s)
{
    example e = make(dtype, s);
    double *qkv = near_doubles(e.qkv), *y = near_doubles(e.y), *dy = near_doubles(e.dy), *dqkv = near_doubles(e.dqkv);
    double *dsinks = near_doubles(e.dsinks), *sinks = near_doubles(e.sinks);
    for (int b = 0; b < s.B; b++)
        for (int i = 0; i < s.H; i++)
            for (int t = 0; t < s.T; t++) {
                int at = b * s.T * s.H * s.D + i * s.D, wide = 3 * b * s.T * s.H * s.D + i * s.D;
                attend_row(&(head){ qkv + wide, dy + at, y + at, dqkv + wide, dsinks + i, sinks[i], s.T, s.H * s.D,
                                    s.D },
                           t);
            }
    run(&e, s);
    double bound = dtype == CS_F32 ? 3e-6 : dtype == CS_F16 ? 2e-3 : 2e-2;
    ck_assert(near_all("sinks", e.y, y, bound));
    ck_assert(near_all("dqkv", e.dqkv, dqkv, bound));
    ck_assert(near_all("dsinks", e.dsinks, dsinks, bound));
    free(qkv), free(y), free(dy), free(dqkv), free(dsinks), free(sinks);
    drop(&e);
}

START_TEST(sinks_take_a_share)
{
    static const shape shapes[] = { { 2, 7, 3, 8 }, { 1, 64, 2, 64 }, { 3, 33, 4, 80 }, { 1, 1, 1, 4 } };
    open_device(2);
    for (int dtype = CS_F32; dtype <= CS_F16; dtype++)
        for (int i = 0; i < 4; i++)
            check_sinks((cs_dtype)dtype, shapes[i]);
    near_close();
}
END_TEST

/* A sink far above all scores takes everything, one far below nothing, and nothing overflows. */
START_TEST(sinks_may_be_large)
{
    const shape s = { 1, 9, 2, 16 };
    example e = make(CS_F32, s), plain = make(CS_F32, s);
    near_set(e.sinks, 0, 1e4);
    near_set(e.sinks, 1, -1e4);
    open_device(1);
    run(&e, s);
    cs_op_attention(stream, near_at(plain.y), near_at(plain.lse), near_at(plain.qkv),
                    (cs_heads){ .queries = s.H, .keys = s.H }, (cs_dropout){ 0 });
    near_fetch();
    for (int i = 0; i < s.T * s.H * s.D; i++) {
        double want = i / s.D % s.H ? near_element(plain.y, i) : 0;
        ck_assert_double_eq(near_element(e.y, i), want);
    }
    for (int i = 0; i < s.T; i++) {
        ck_assert_double_eq(near_element(e.lse, i), 1e4);
        ck_assert_double_eq(near_element(e.lse, s.T + i), near_element(plain.lse, s.T + i));
    }
    near_close();
    drop(&e), drop(&plain);
}
END_TEST

START_TEST(threads_do_not_change_bits)
{
    const shape s = { 2, 33, 3, 64 };
    example one = make(CS_F32, s), other = make(CS_F32, s);
    open_device(1);
    run(&one, s);
    near_close();
    open_device(3);
    run(&other, s);
    near_close();
    ck_assert(near_same_bits("y", other.y, one.y));
    ck_assert(near_same_bits("dsinks", other.dsinks, one.dsinks));
    drop(&one), drop(&other);
}
END_TEST

SUITE_MAIN("expert_bias", slots_get_the_bias_of_their_expert, gates_are_clamped, sinks_take_a_share, sinks_may_be_large,
           threads_do_not_change_bits)
