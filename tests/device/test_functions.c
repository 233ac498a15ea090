/* test_functions.c - activation functions, gates, soft caps, factors and the order of heads compared with plain loops
 * in double precision. */
#include "near.h"
#include "suite.h"

#include "device/device.h"
#include "cspeed/ops.h"

#include <math.h>
#include <stdlib.h>

static cs_stream *stream;

static double value_of(cs_activation function, double x)
{
    switch (function) {
    case CS_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case CS_GELU:
        return 0.5 * x * erfc(-x / sqrt(2));
    case CS_QUICK_GELU:
        return x / (1 + exp(-1.702 * x));
    case CS_SILU:
        return x / (1 + exp(-x));
    case CS_RELU:
        return x > 0 ? x : 0;
    case CS_RELU2:
        return x > 0 ? x * x : 0;
    case CS_SIGMOID:
        return 1 / (1 + exp(-x));
    case CS_TANH:
        return tanh(x);
    default:
        return exp(x);
    }
}

/* Returns the derivative by a finite difference of the fourth order. */
static double slope_of(cs_activation function, double x)
{
    double h = 1e-3;
    if (function == CS_RELU || function == CS_RELU2)
        h = fmin(h, fabs(x) / 4);
    if (h == 0)
        return 0;
    return (8 * (value_of(function, x + h) - value_of(function, x - h)) -
            (value_of(function, x + 2 * h) - value_of(function, x - 2 * h))) /
           (12 * h);
}

static void check_activation(cs_dtype dtype, cs_activation function, double size)
{
    cs_tensor x = near_random(dtype, 37, 301, 1, size), dy = near_random(dtype, 37, 301, 2, 1);
    cs_tensor y = near_new(dtype, 37, 301), dx = near_new(dtype, 37, 301);
    double *want = near_doubles(x), *slope = near_doubles(dy);
    for (int64_t i = 0; i < cs_count(x); i++) {
        slope[i] *= slope_of(function, want[i]);
        want[i] = value_of(function, want[i]);
    }
    cs_op_activation(stream, near_at(y), near_at(x), function);
    cs_op_activation_grad(stream, near_at(dx), near_at(dy), near_at(x), function);
    near_fetch();
    ck_assert_msg(near_all("activation", y, want, 4e-7), "function %d", (int)function);
    ck_assert_msg(near_all("activation_grad", dx, slope, 1e-6), "function %d", (int)function);
    cs_op_activation_grad(stream, near_at(dy), near_at(dy), near_at(x), function);
    cs_op_activation(stream, near_at(x), near_at(x), function);
    near_fetch();
    ck_assert(near_same_bits("activation in place", x, y));
    ck_assert(near_same_bits("activation_grad in place", dy, dx));
    free(want), free(slope);
    near_free(x), near_free(dy), near_free(y), near_free(dx);
}

static void check_gate(cs_dtype dtype, cs_activation function, int N, int C)
{
    cs_tensor x = near_random(dtype, N, 2 * C, 1, function == CS_EXP ? 0.5 : 3), dy = near_random(dtype, N, C, 2, 1),
              y = near_new(dtype, N, C);
    cs_tensor dx = near_new(dtype, N, 2 * C);
    double *want = near_doubles(y), *slope = near_doubles(dx);
    for (int at = 0; at < N * C; at++) {
        int gate = at / C * 2 * C + at % C;
        double g = near_element(x, gate), up = near_element(x, gate + C), given = near_element(dy, at);
        want[at] = value_of(function, g) * up;
        slope[gate] = given * up * slope_of(function, g);
        slope[gate + C] = given * value_of(function, g);
    }
    cs_op_gated(stream, near_at(y), near_at(x), function);
    cs_op_gated_grad(stream, near_at(dx), near_at(dy), near_at(x), function);
    near_fetch();
    ck_assert_msg(near_all("gated", y, want, 2e-6), "function %d", (int)function);
    ck_assert_msg(near_all("gated_grad", dx, slope, 2e-6), "function %d", (int)function);
    free(want), free(slope);
    near_free(x), near_free(dy), near_free(y), near_free(dx);
}

static void check_softcap(cs_dtype dtype, double size, float cap)
{
    cs_tensor x = near_random(dtype, 29, 401, 1, size), dy = near_random(dtype, 29, 401, 2, 1);
    cs_tensor y = near_new(dtype, 29, 401), dx = near_new(dtype, 29, 401);
    double *want = near_doubles(x), *slope = near_doubles(dy);
    for (int64_t i = 0; i < cs_count(x); i++) {
        double part = tanh(want[i] / (double)cap);
        slope[i] *= 1 - part * part;
        want[i] = (double)cap * part;
    }
    cs_op_softcap(stream, near_at(y), near_at(x), cap);
    cs_op_softcap_grad(stream, near_at(dx), near_at(dy), near_at(x), cap);
    near_fetch();
    ck_assert(near_all("softcap", y, want, 3e-7));
    ck_assert(near_all("softcap_grad", dx, slope, 6e-7));
    cs_op_softcap_grad(stream, near_at(dy), near_at(dy), near_at(x), cap);
    cs_op_softcap(stream, near_at(x), near_at(x), cap);
    near_fetch();
    ck_assert(near_same_bits("softcap in place", x, y));
    ck_assert(near_same_bits("softcap_grad in place", dy, dx));
    free(want), free(slope);
    near_free(x), near_free(dy), near_free(y), near_free(dx);
}

static void check_scale(cs_dtype dtype)
{
    cs_tensor x = near_random(dtype, 17, 103, 1, 1), y = near_new(dtype, 17, 103);
    double *want = near_doubles(x);
    for (int64_t i = 0; i < cs_count(x); i++)
        want[i] *= 0.3;
    cs_op_scale(stream, near_at(y), near_at(x), 0.3f);
    near_fetch();
    ck_assert(near_all("scale", y, want, 1e-7));
    free(want);
    near_free(x), near_free(y);
}

/* Returns x on the device without its first and its last row. With an odd number of columns, the result begins at an
 * address that is not a multiple of 16 bytes. */
static cs_tensor inside(cs_tensor x)
{
    return near_at(cs_matrix_rows(x, 1, cs_rows(x) - 2));
}

/* Checks a function, or the soft cap if `cap` is not 0, on tensors of different types that are parts of others. The
 * other rows must not be written. */
static void check_part(cs_activation function, float cap)
{
    enum { N = 61, C = 5 };
    cs_tensor x = near_random(CS_BF16, N, C, 1, 2), dy = near_random(CS_F32, N, C, 2, 1);
    cs_tensor y = near_random(CS_F32, N, C, 3, 1), dx = near_random(CS_F16, N, C, 4, 1);
    double *want = near_doubles(y), *slope = near_doubles(dx);
    for (int64_t i = C; i < (N - 1) * C; i++) {
        double at = near_element(x, i), part = cap > 0 ? tanh(at / (double)cap) : 0;
        want[i] = cap > 0 ? (double)cap * part : value_of(function, at);
        slope[i] = near_element(dy, i) * (cap > 0 ? 1 - part * part : slope_of(function, at));
    }
    if (cap > 0) {
        cs_op_softcap(stream, inside(y), inside(x), cap);
        cs_op_softcap_grad(stream, inside(dx), inside(dy), inside(x), cap);
    } else {
        cs_op_activation(stream, inside(y), inside(x), function);
        cs_op_activation_grad(stream, inside(dx), inside(dy), inside(x), function);
    }
    near_fetch();
    ck_assert_msg(near_all("part", y, want, 4e-7), "function %d", (int)function);
    ck_assert_msg(near_all("part, gradient", dx, slope, 1e-6), "function %d", (int)function);
    free(want), free(slope);
    near_free(x), near_free(dy), near_free(y), near_free(dx);
}

/* Checks both conversions of the order of heads. A row of x has for each key head g: its query heads, its key, its
 * value. */
static void check_order(cs_dtype dtype, int N, int queries, int keys, int D)
{
    int W = (queries + 2 * keys) * D, group = queries / keys;
    cs_heads heads = { .queries = queries, .keys = keys };
    cs_tensor x = near_random(dtype, N, W, 1, 1), y = near_new(dtype, N, W), back = near_new(dtype, N, W);
    cs_tensor want = near_copy(x);
    for (int at = 0; at < N * W; at++) {
        int row = at / W, head = at % W / D, g = head / (group + 2), place = head % (group + 2);
        int to = place < group ? g * group + place : queries + (place == group ? 0 : keys) + g;
        near_set(want, row * W + to * D + at % D, near_element(x, at));
    }
    cs_op_ungroup_heads(stream, near_at(y), near_at(x), heads);
    cs_op_group_heads(stream, near_at(back), near_at(y), heads);
    near_fetch();
    ck_assert(near_same_bits("ungroup_heads", y, want));
    ck_assert(near_same_bits("group_heads", back, x));
    near_free(x), near_free(y), near_free(back), near_free(want);
}

START_TEST(operations_agree_with_plain_loops)
{
    for (int threads = 1; threads <= near_threads(3); threads += 2) {
        stream = ce_device_stream(near_open(threads), CE_COMPUTE);
        for (int type = CS_F32; type <= CS_F16; type++) {
            cs_dtype dtype = (cs_dtype)type;
            for (int function = CS_GELU_TANH; function <= CS_EXP; function++) {
                check_activation(dtype, (cs_activation)function, 2);
                check_gate(dtype, (cs_activation)function, 1, 1);
                check_gate(dtype, (cs_activation)function, 19, 1100);
                check_gate(dtype, (cs_activation)function, 2, 2200);
                check_activation(dtype, (cs_activation)function, function == CS_EXP ? 0.5 : 25);
            }
            check_activation(dtype, CS_GELU, 9);
            check_softcap(dtype, 3, 30);
            check_softcap(dtype, 9, 2);
            check_scale(dtype);
            check_order(dtype, 1, 1, 1, 1);
            check_order(dtype, 67, 4, 4, 6);
            check_order(dtype, 33, 6, 2, 5);
            check_order(dtype, 9, 5, 1, 8);
            check_order(dtype, 3, 71, 1, 64);
            check_order(dtype, 5, 4, 2, 20);
        }
        near_close();
    }
}
END_TEST

START_TEST(parts_of_tensors_of_other_types)
{
    stream = ce_device_stream(near_open(1), CE_COMPUTE);
    for (int function = CS_GELU_TANH; function <= CS_EXP; function++)
        check_part((cs_activation)function, 0);
    check_part(CS_USUAL_ACTIVATION, 3);
    near_close();
}
END_TEST

/* For negative x the smooth functions are small. Their relative errors are small too: nothing cancels. */
START_TEST(tails_have_small_relative_errors)
{
    enum { COUNT = 401 };
    stream = ce_device_stream(near_open(1), CE_COMPUTE);
    cs_tensor x = near_new(CS_F32, 1, COUNT), y = near_new(CS_F32, 1, COUNT);
    for (int i = 0; i < COUNT; i++)
        near_set(x, i, -5 + i / 100.0);
    for (int function = CS_GELU_TANH; function <= CS_SILU; function++) {
        cs_op_activation(stream, near_at(y), near_at(x), (cs_activation)function);
        near_fetch();
        for (int i = 0; i < COUNT; i++) {
            double want = value_of((cs_activation)function, near_element(x, i));
            ck_assert_double_eq_tol(near_element(y, i) / want, 1, 5e-6);
        }
    }
    near_free(x), near_free(y);
    near_close();
}
END_TEST

START_TEST(no_rows_are_no_work)
{
    stream = ce_device_stream(near_open(1), CE_COMPUTE);
    cs_tensor x = near_random(CS_BF16, 3, 24, 1, 1), y = near_random(CS_BF16, 3, 24, 2, 1), old = near_copy(y);
    cs_tensor none = cs_matrix_rows(near_at(x), 0, 0), out = cs_matrix_rows(near_at(y), 0, 0), half = out;
    half.shape[1] = 12;
    cs_op_activation(stream, out, none, CS_GELU);
    cs_op_activation_grad(stream, out, none, none, CS_GELU);
    cs_op_gated(stream, half, none, CS_GELU);
    cs_op_gated_grad(stream, none, half, none, CS_GELU);
    cs_op_softcap(stream, out, none, 1);
    cs_op_softcap_grad(stream, out, none, none, 1);
    cs_op_ungroup_heads(stream, out, none, (cs_heads){ .queries = 1, .keys = 1 });
    near_fetch();
    ck_assert(near_same_bits("no rows", y, old));
    near_free(x), near_free(y), near_free(old);
    near_close();
}
END_TEST

START_TEST(what_is_not_finite_stays_so)
{
    stream = ce_device_stream(near_open(1), CE_COMPUTE);
    cs_tensor x = near_new(CS_F32, 1, 3), y = near_new(CS_F32, 1, 3);
    near_set(x, 0, NAN), near_set(x, 1, INFINITY), near_set(x, 2, -INFINITY);
    for (int function = CS_GELU_TANH; function <= CS_RELU2; function++) {
        cs_op_activation(stream, near_at(y), near_at(x), (cs_activation)function);
        near_fetch();
        ck_assert_msg(isnan(near_element(y, 0)) && !isfinite(near_element(y, 1)), "function %d", function);
    }
    cs_op_softcap(stream, near_at(y), near_at(x), 5);
    near_fetch();
    ck_assert(isnan(near_element(y, 0)));
    ck_assert_double_eq(near_element(y, 1), 5);
    ck_assert_double_eq(near_element(y, 2), -5);
    near_free(x), near_free(y);
    near_close();
}
END_TEST

SUITE_MAIN("functions", operations_agree_with_plain_loops, parts_of_tensors_of_other_types,
           tails_have_small_relative_errors, no_rows_are_no_work, what_is_not_finite_stays_so)
