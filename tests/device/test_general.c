/* test_general.c - the operations for models of one's own, compared with plain loops in double precision and with figures
 * of PyTorch (tests/golden/make_general.py). */
#include "golden.h"
#include "near.h"
#include "suite.h"

#include "cspeed/ops.h"
#include "device/device.h"

#include <math.h>
#include <stdlib.h>

static cs_stream *stream;

/* Compares a tensor with loops' results, and frees these. */
static void is_near(const char *what, cs_tensor got, double *want, double tolerance)
{
    near_fetch();
    ck_assert(near_all(what, got, want, tolerance));
    free(want);
}

/* ---- plain loops ---- */

static void check_broadcast(cs_dtype dtype, int N, int C, int b_rows, int b_columns)
{
    cs_tensor a = near_random(dtype, N, C, 1, 1), b = near_random(CS_F32, b_rows, b_columns, 2, 1);
    cs_tensor y = near_new(dtype, N, C);
    double *sum = near_doubles(y), *product = near_doubles(y);
    for (int i = 0; i < N * C; i++) {
        int at = (b_rows == 1 ? 0 : i / C) * b_columns + (b_columns == 1 ? 0 : i % C);
        sum[i] = near_element(a, i) + near_element(b, at);
        product[i] = near_element(a, i) * near_element(b, at);
    }
    cs_op_add(stream, near_at(y), near_at(a), near_at(b));
    is_near("add", y, sum, 1e-7);
    cs_op_multiply(stream, near_at(a), near_at(a), near_at(b));
    is_near("multiply in place", a, product, 1e-7);
    near_free(a), near_free(b), near_free(y);
}

static void check_sums(cs_dtype dtype, int N, int C)
{
    cs_tensor x = near_random(dtype, N, C, 1, 1), rows = near_random(CS_F32, N, 1, 2, 1);
    cs_tensor columns = near_random(CS_F32, 1, C, 3, 1), dx = near_new(dtype, N, C);
    double *row_sums = calloc((size_t)N, sizeof(double)), *column_sums = calloc((size_t)C, sizeof(double));
    double *spread = near_doubles(dx), *down = near_doubles(dx);
    for (int i = 0; i < N * C; i++) {
        spread[i] = 0.25 * near_element(rows, i / C), down[i] = -3 * near_element(columns, i % C);
        row_sums[i / C] += near_element(x, i) / C, column_sums[i % C] += near_element(x, i);
    }
    cs_op_sum_grad(stream, near_at(dx), near_at(rows), 0.25f);
    is_near("the gradient of a sum of rows", dx, spread, 1e-7);
    cs_op_sum_grad(stream, near_at(dx), near_at(columns), -3);
    is_near("the gradient of a sum of columns", dx, down, 1e-7);
    cs_op_sum(stream, near_at(rows), near_at(x), 1 / (float)C);
    is_near("means of rows", rows, row_sums, 1e-6);
    cs_op_sum(stream, near_at(columns), near_at(x), 1);
    is_near("sums of columns", columns, column_sums, 1e-6);
    near_free(x), near_free(rows), near_free(columns), near_free(dx);
}

static void check_softmax(cs_dtype dtype, int N, int C, int bias_rows, int each)
{
    cs_tensor x = near_random(dtype, N, C, 1, 3), bias = near_random(dtype, bias_rows, C, 2, 1);
    cs_tensor dy = near_random(dtype, N, C, 3, 1), y = near_new(dtype, N, C), ds = near_new(dtype, N, C);
    near_set(bias, C / 2, -INFINITY);
    double *want = near_doubles(y), *slope = near_doubles(y);
    for (int row = 0; row < N; row++) {
        double sum = 0, dot = 0;
        for (int c = 0; c < C; c++)
            sum += want[row * C + c] =
                exp(0.7 * near_element(x, row * C + c) + near_element(bias, row / each % bias_rows * C + c));
        for (int c = 0; c < C; c++)
            want[row * C + c] /= sum;
        for (int c = 0; c < C; c++)
            dot += want[row * C + c] * near_element(dy, row * C + c);
        for (int c = 0; c < C; c++)
            slope[row * C + c] = want[row * C + c] * (near_element(dy, row * C + c) - dot);
    }
    cs_op_softmax(stream, near_at(y), near_at(x), (cs_softmax_scores){ 0.7f, near_at(bias), each });
    cs_op_softmax(stream, near_at(x), near_at(x), (cs_softmax_scores){ 0.7f, near_at(bias), each });
    is_near("softmax", y, want, 1e-6);
    ck_assert(near_same_bits("softmax in place", x, y));
    cs_op_softmax_grad(stream, near_at(ds), near_at(dy), near_at(y));
    is_near("softmax_grad", ds, slope, dtype == CS_F32 ? 2e-6 : 2e-2);
    near_free(x), near_free(bias), near_free(dy), near_free(y), near_free(ds);
}

static void check_transpose(cs_dtype dtype, int batch, int rows, int columns, int width)
{
    int count = batch * rows * columns * width;
    cs_tensor x = near_random(dtype, 1, count, 1, 1), y = near_new(dtype, 1, count), back = near_new(dtype, 1, count);
    double *want = near_doubles(y);
    for (int i = 0; i < count; i++) {
        int d = i % width, c = i / width % columns, r = i / width / columns % rows, b = i / width / columns / rows;
        want[((b * columns + c) * rows + r) * width + d] = near_element(x, i);
    }
    cs_op_transpose(stream, near_at(y), near_at(x), batch, rows, columns);
    cs_op_transpose(stream, near_at(back), near_at(y), batch, columns, rows);
    is_near("transpose", y, want, 0);
    ck_assert(near_same_bits("transpose back", back, x));
    near_free(x), near_free(y), near_free(back);
}

/* A dimension of a factor, in order: rows of y, inner, columns of y. */
static void check_batch(cs_dtype dtype, cs_dtype to, cs_matrices of, int m, int k, int n)
{
    int B = (int)of.count;
    cs_tensor a = near_random(dtype, B * (of.transpose_a ? k : m), of.transpose_a ? m : k, 1, 1);
    cs_tensor b = near_random(dtype, B * (of.transpose_b ? n : k), of.transpose_b ? k : n, 2, 1);
    cs_tensor y = near_new(to, B * m, n);
    double *want = near_doubles(y);
    for (int i = 0; i < B * m * n; i++) {
        int matrix = i / n / m, row = i / n % m, column = i % n;
        want[i] = 0;
        for (int j = 0; j < k; j++)
            want[i] += near_element(a, matrix * m * k + (of.transpose_a ? j * m + row : row * k + j)) *
                       near_element(b, matrix * k * n + (of.transpose_b ? column * k + j : j * n + column));
    }
    cs_op_matmul_batch(stream, near_at(y), near_at(a), near_at(b), of);
    is_near("matmul_batch", y, want, 1e-6);
    near_free(a), near_free(b), near_free(y);
}

/* Adds, for one output and one place of the kernel, what forward copies and backward adds. */
static void check_patches(cs_dtype dtype, int N, cs_patches shape)
{
    int C = (int)shape.channels, H = (int)shape.size[0], W = (int)shape.size[1];
    int outs[] = { (int)cs_patches_outputs(&shape, 0), (int)cs_patches_outputs(&shape, 1) };
    int K = (int)(shape.kernel[0] * shape.kernel[1]), step[2], apart[2];
    for (int axis = 0; axis < 2; axis++)
        step[axis] = shape.stride[axis] ? (int)shape.stride[axis] : 1,
        apart[axis] = shape.dilation[axis] ? (int)shape.dilation[axis] : 1;
    cs_tensor image = near_random(dtype, N, H * W * C, 1, 1), columns = near_new(dtype, N * outs[0] * outs[1], K * C);
    cs_tensor dcolumns = near_random(dtype, N * outs[0] * outs[1], K * C, 2, 1), dimage = near_new(dtype, N, H * W * C);
    double *want = near_doubles(columns), *slope = near_doubles(dimage);
    for (int i = 0; i < (int)cs_count(columns); i++) {
        int c = i % C, place = i / C % K, out = i / C / K, n = out / outs[1] / outs[0];
        int y = out / outs[1] % outs[0] * step[0] - (int)shape.padding[0] + place / (int)shape.kernel[1] * apart[0];
        int x = out % outs[1] * step[1] - (int)shape.padding[1] + place % (int)shape.kernel[1] * apart[1];
        if (y < 0 || y >= H || x < 0 || x >= W)
            continue;
        want[i] = near_element(image, ((n * H + y) * W + x) * C + c);
        slope[((n * H + y) * W + x) * C + c] += near_element(dcolumns, i);
    }
    cs_op_patches(stream, near_at(columns), near_at(image), shape);
    is_near("patches", columns, want, 0);
    cs_op_patches_grad(stream, near_at(dimage), near_at(dcolumns), shape);
    is_near("patches_grad", dimage, slope, 1e-6);
    near_free(image), near_free(columns), near_free(dcolumns), near_free(dimage);
}

typedef void loss_op(cs_stream *stream, cs_tensor loss, cs_tensor y, cs_tensor target);
typedef void loss_grad_op(cs_stream *stream, cs_tensor dy, cs_tensor dloss, cs_tensor y, cs_tensor target);

static void check_loss(const char *what, loss_op *forward, loss_grad_op *backward, cs_tensor y, cs_tensor target,
                       double *want, double *slope)
{
    int N = (int)cs_rows(y), C = (int)cs_columns(y);
    cs_tensor loss = near_new(CS_F32, N, 1), dloss = near_random(CS_F32, N, 1, 9, 1), dy = near_new(y.dtype, N, C);
    for (int i = 0; i < N * C; i++)
        slope[i] *= near_element(dloss, i / C);
    forward(stream, near_at(loss), near_at(y), near_at(target));
    backward(stream, near_at(dy), near_at(dloss), near_at(y), near_at(target));
    is_near(what, loss, want, 2e-6);
    is_near(what, dy, slope, 2e-6);
    near_free(loss), near_free(dloss), near_free(dy), near_free(y), near_free(target);
}

static void check_binary(cs_dtype dtype, int N, int C, double size)
{
    cs_tensor y = near_random(dtype, N, C, 1, size), target = near_random(CS_F32, N, C, 2, 1);
    double *want = calloc((size_t)N, sizeof(double)), *slope = near_doubles(y);
    for (int i = 0; i < N * C; i++) {
        double x = near_element(y, i), t = 1 / (1 + exp(-near_element(target, i)));
        near_set(target, i, t);
        t = near_element(target, i);
        want[i / C] += (fmax(x, 0) - t * x + log1p(exp(-fabs(x)))) / C;
        slope[i] = (1 / (1 + exp(-x)) - t) / C;
    }
    check_loss("binary_entropy", cs_op_binary_entropy, cs_op_binary_entropy_grad, y, target, want, slope);
}

static void log_softmax(double *x, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += exp(x[i]);
    for (int i = 0; i < count; i++)
        x[i] -= log(sum);
}

static void check_divergence(cs_dtype dtype, int N, int C)
{
    cs_tensor y = near_random(dtype, N, C, 1, 3), target = near_random(CS_F32, N, C, 2, 3);
    near_set(target, C / 3, -INFINITY);
    double *want = calloc((size_t)N, sizeof(double)), *slope = near_doubles(y), *p = near_doubles(target);
    for (int row = 0; row < N; row++)
        log_softmax(slope + row * C, C), log_softmax(p + row * C, C);
    for (int i = 0; i < N * C; i++) {
        want[i / C] += exp(p[i]) > 0 ? exp(p[i]) * (p[i] - slope[i]) : 0;
        slope[i] = exp(slope[i]) - exp(p[i]);
    }
    free(p);
    check_loss("divergence", cs_op_divergence, cs_op_divergence_grad, y, target, want, slope);
}

static void check_shapes(cs_dtype dtype)
{
    static const int sizes[][2] = { { 1, 1 }, { 7, 1 }, { 1, 9 }, { 37, 61 }, { 5, 2200 }, { 300, 8 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        int N = sizes[i][0], C = sizes[i][1];
        check_broadcast(dtype, N, C, N, C), check_broadcast(dtype, N, C, 1, C);
        check_broadcast(dtype, N, C, N, 1), check_broadcast(dtype, N, C, 1, 1);
        check_sums(dtype, N, C);
        check_binary(dtype, N, C, 4);
        if (C == 1)
            continue;
        check_softmax(dtype, N, C, 1, 1), check_softmax(dtype, N, C, 3, 2);
        check_divergence(dtype, N, C);
    }
    check_broadcast(dtype, 131, 67, 131, 67);
    check_binary(dtype, 3, 50, 60);
    check_transpose(dtype, 1, 1, 1, 1), check_transpose(dtype, 1, 37, 51, 1), check_transpose(dtype, 3, 5, 4, 1);
    check_transpose(dtype, 2, 9, 3, 16), check_transpose(dtype, 2, 33, 2, 5);
    for (int transposed = 0; transposed < 3; transposed++) {
        cs_matrices of = { 3, transposed == 1, transposed == 2 };
        check_batch(dtype, dtype, of, 5, 7, 4), check_batch(dtype, CS_F32, of, 33, 16, 48);
    }
    check_patches(dtype, 2, (cs_patches){ { 4, 5 }, 1, { 3, 3 }, .padding = { 1, 1 } });
    check_patches(dtype, 3, (cs_patches){ { 5, 7 }, 3, { 2, 3 }, { 2, 1 }, { 1, 2 }, .padding = { 0, 2 } });
    check_patches(dtype, 2, (cs_patches){ { 4, 4 }, 5, { 2, 2 }, .stride = { 2, 2 } });
    check_patches(dtype, 2,
                  (cs_patches){
                      { 1, 9 }, 2, { 1, 3 }, .dilation = { 1, 2 }, .padding = { 0, 4 }, .outputs = { 0, 9 } });
}

START_TEST(operations_agree_with_plain_loops)
{
    for (int threads = 1; threads <= near_threads(3); threads += 2) {
        stream = ce_device_stream(near_open(threads), CE_COMPUTE);
        for (int type = CS_F32; type <= CS_F16; type++)
            check_shapes((cs_dtype)type);
        near_close();
    }
}
END_TEST

/* Computes a dropout by the public random functions, as ops.h says. */
START_TEST(dropout_follows_from_the_random_functions)
{
    enum { B = 2, N = 6, C = 50, EACH = N / B * C };
    cs_tensor x = near_random(CS_F32, N, C, 1, 1), y = near_new(CS_F32, N, C), keys = near_new(CS_F32, B, 2);
    uint64_t *key = keys.data;
    double *want = near_doubles(x);
    key[0] = 11, key[1] = 12;
    for (int i = 0; i < N * C; i++) {
        uint32_t words[4], e = (uint32_t)(i % EACH);
        cs_rng_philox(cs_rng_mix(key[i / EACH], 5), e / 8, words);
        want[i] *= (words[e % 8 / 2] >> e % 2 * 16 & 0xffff) >= 0.25 * 65536 ? 1 / 0.75 : 0;
    }
    stream = ce_device_stream(near_open(1), CE_COMPUTE);
    cs_op_dropout(stream, near_at(y), near_at(x),
                  (cs_dropout){ .rate = 0.25f, .place = 5, .keys = near_at(keys).data, .batch = B });
    is_near("dropout", y, want, 1e-7);
    near_free(x), near_free(y), near_free(keys);
    near_close();
}
END_TEST

/* ---- figures of PyTorch ---- */

static golden *file;

/* Returns the named figures as a matrix. */
static cs_tensor named(const char *name, int64_t rows, int64_t columns)
{
    cs_tensor x = golden_tensor(file, name);
    ck_assert_msg(cs_count(x) == rows * columns, "%s", name);
    return cs_matrix(x.data, x.dtype, rows, columns);
}

static cs_tensor new_like(cs_tensor x)
{
    return near_new(CS_F32, cs_rows(x), cs_columns(x));
}

/* Compares a result with the figures of this name, and frees it. */
static void equals(const char *name, cs_tensor got)
{
    near_fetch();
    ck_assert(near_tensors(name, got, named(name, cs_rows(got), cs_columns(got)), 1e-6));
    near_free(got);
}

static void compare_elements(void)
{
    static const char *const names[][2] = { { "function.sigmoid", "function.dsigmoid" },
                                            { "function.tanh", "function.dtanh" },
                                            { "function.exp", "function.dexp" } };
    cs_tensor x = named("function.x", 9, 13), dy = named("function.dy", 9, 13);
    for (int i = 0; i < 3; i++) {
        cs_tensor y = new_like(x), dx = new_like(x);
        cs_op_activation(stream, near_at(y), near_at(x), (cs_activation)(CS_SIGMOID + i));
        cs_op_activation_grad(stream, near_at(dx), near_at(dy), near_at(x), (cs_activation)(CS_SIGMOID + i));
        equals(names[i][0], y), equals(names[i][1], dx);
    }
    cs_tensor rows = near_new(CS_F32, 9, 1), columns = near_new(CS_F32, 1, 13), of = named("mean.x", 9, 13);
    cs_op_sum(stream, near_at(rows), near_at(of), 1 / 13.0f);
    cs_op_sum(stream, near_at(columns), near_at(of), 1 / 9.0f);
    equals("mean.rows", rows), equals("mean.columns", columns);
}

/* y = (a + row) * column and its gradients, as ops.h says they are computed. */
static void compare_broadcast(void)
{
    cs_tensor a = named("broadcast.a", 9, 13), row = named("broadcast.row", 1, 13), dy = named("broadcast.dy", 9, 13);
    cs_tensor column = named("broadcast.column", 9, 1), sum = new_like(a), y = new_like(a), da = new_like(a);
    cs_tensor drow = new_like(row), dcolumn = new_like(column), product = new_like(a);
    cs_op_add(stream, near_at(sum), near_at(a), near_at(row));
    cs_op_multiply(stream, near_at(y), near_at(sum), near_at(column));
    cs_op_multiply(stream, near_at(da), near_at(dy), near_at(column));
    cs_op_sum(stream, near_at(drow), near_at(da), 1);
    cs_op_multiply(stream, near_at(product), near_at(dy), near_at(sum));
    cs_op_sum(stream, near_at(dcolumn), near_at(product), 1);
    equals("broadcast.y", y), equals("broadcast.da", da);
    equals("broadcast.drow", drow), equals("broadcast.dcolumn", dcolumn);
    near_free(sum), near_free(product);
}

static void compare_rows(void)
{
    cs_tensor x = named("softmax.x", 12, 11), bias = named("softmax.bias", 3, 11), dy = named("softmax.dy", 12, 11);
    cs_tensor y = new_like(x), ds = new_like(x), dx = new_like(x);
    cs_op_softmax(stream, near_at(y), near_at(x), (cs_softmax_scores){ 0.5f, near_at(bias), 2 });
    cs_op_softmax_grad(stream, near_at(ds), near_at(dy), near_at(y));
    cs_op_scale(stream, near_at(dx), near_at(ds), 0.5f);
    equals("softmax.y", y), equals("softmax.dx", dx);
    near_free(ds);
    cs_tensor a = named("batch.a", 20, 3), b = named("batch.b", 12, 6), d = named("batch.dy", 20, 6);
    cs_tensor product = new_like(d), da = new_like(a), db = new_like(b);
    cs_op_matmul_batch(stream, near_at(product), near_at(a), near_at(b), (cs_matrices){ .count = 4 });
    cs_op_matmul_batch(stream, near_at(da), near_at(d), near_at(b), (cs_matrices){ 4, .transpose_b = true });
    cs_op_matmul_batch(stream, near_at(db), near_at(a), near_at(d), (cs_matrices){ 4, .transpose_a = true });
    equals("batch.y", product), equals("batch.da", da), equals("batch.db", db);
}

static void compare_attention(void)
{
    enum { BATCH = 6, T = 5, S = 7, D = 4, E = 6 };
    cs_tensor q = named("attention.q", BATCH * T, D), k = named("attention.k", BATCH * S, D);
    cs_tensor v = named("attention.v", BATCH * S, E), bias = named("attention.bias", T, S), y, p, ds, dq, dk, dv;
    cs_tensor dy = named("attention.dy", BATCH * T, E), dbias = near_new(CS_F32, 1, T * S);
    y = new_like(dy), p = near_new(CS_F32, BATCH * T, S), ds = new_like(p);
    dq = new_like(q), dk = new_like(k), dv = new_like(v);
    cs_op_attend(stream, near_at(y), near_at(p), near_at(p), near_at(q), near_at(k), near_at(v), BATCH,
                 (cs_softmax_scores){ .bias = near_at(bias) });
    cs_op_attend_grad(stream, near_at(dq), near_at(dk), near_at(dv), near_at(ds), near_at(dy), near_at(p), near_at(q),
                      near_at(k), near_at(v), BATCH, 0);
    cs_tensor heads = near_at(ds);
    cs_op_sum(stream, near_at(dbias), cs_matrix(heads.data, CS_F32, BATCH, T * S), 1);
    equals("attention.y", y), equals("attention.dq", dq), equals("attention.dk", dk), equals("attention.dv", dv);
    equals("attention.dbias", dbias);
    near_free(p), near_free(ds);
}

/* Compares a convolution: the product of the neighbourhoods and the weights (M, K), and its gradients. */
static void compare_convolution(const char *const names[6], int64_t samples, cs_patches shape, int64_t outputs)
{
    int64_t pixels = samples * cs_patches_outputs(&shape, 0) * cs_patches_outputs(&shape, 1);
    int64_t inner = shape.kernel[0] * shape.kernel[1] * shape.channels;
    cs_tensor x = named(names[0], samples, shape.size[0] * shape.size[1] * shape.channels);
    cs_tensor w = named(names[1], outputs, inner), dy = named(names[2], pixels, outputs), y = new_like(dy);
    cs_tensor columns = near_new(CS_F32, pixels, inner), dcolumns = new_like(columns), dw = new_like(w);
    cs_tensor dx = new_like(x);
    cs_op_patches(stream, near_at(columns), near_at(x), shape);
    cs_op_matmul(stream, near_at(y), near_at(columns), near_at(w), (cs_tensor){ 0 }, CS_OUT_IN);
    cs_op_matmul_grad_weight(stream, near_at(dw), (cs_tensor){ 0 }, near_at(columns), near_at(dy), CS_OUT_IN);
    cs_op_matmul_grad_input(stream, near_at(dcolumns), near_at(dy), near_at(w), CS_OUT_IN);
    cs_op_patches_grad(stream, near_at(dx), near_at(dcolumns), shape);
    equals(names[3], y), equals(names[4], dx), equals(names[5], dw);
    near_free(columns), near_free(dcolumns);
}

static void compare_losses(void)
{
    cs_tensor x = named("smooth.x", 6, 9), target = named("smooth.target", 6, 1), dloss = named("smooth.dy", 6, 1);
    cs_tensor loss = new_like(dloss), facts = near_new(CS_F32, 6, CS_ENTROPY_FACTS_SMOOTHED), logits = new_like(x);
    cs_op_cast(stream, near_at(logits), near_at(x));
    cs_op_entropy_facts(stream, near_at(facts), near_at(logits), near_at(target), 0, 9);
    cs_op_entropy_finish(stream, near_at(loss), (cs_tensor){ 0 }, near_at(logits), near_at(target), 0, 9,
                         near_at(dloss), near_at(facts), (cs_entropy_terms){ .smoothing = 0.1f, .classes = 9 });
    equals("smooth.y", loss), equals("smooth.dx", logits);
    near_free(facts);
    x = named("binary.x", 6, 9), target = named("binary.target", 6, 9), dloss = named("binary.dy", 6, 1);
    cs_tensor dx = new_like(x);
    loss = new_like(dloss);
    cs_op_binary_entropy(stream, near_at(loss), near_at(x), near_at(target));
    cs_op_binary_entropy_grad(stream, near_at(dx), near_at(dloss), near_at(x), near_at(target));
    equals("binary.y", loss), equals("binary.dx", dx);
    x = named("divergence.x", 6, 9), target = named("divergence.target", 6, 9), dloss = named("divergence.dy", 6, 1);
    loss = new_like(dloss), dx = new_like(x);
    cs_op_divergence(stream, near_at(loss), near_at(x), near_at(target));
    cs_op_divergence_grad(stream, near_at(dx), near_at(dloss), near_at(x), near_at(target));
    equals("divergence.y", loss), equals("divergence.dx", dx);
}

START_TEST(figures_equal_those_of_pytorch)
{
    static const char *const image[] = { "image.x", "image.w", "image.dy", "image.y", "image.dx", "image.dw" };
    static const char *const signal[] = { "signal.x", "signal.w", "signal.dy", "signal.y", "signal.dx", "signal.dw" };
    file = golden_open(CS_SOURCE "/tests/golden/general.golden");
    stream = ce_device_stream(near_open(1), CE_COMPUTE);
    compare_elements();
    compare_broadcast();
    compare_rows();
    compare_attention();
    compare_convolution(image, 2, (cs_patches){ { 5, 6 }, 3, { 3, 2 }, { 2, 1 }, { 1, 2 }, .padding = { 1, 2 } }, 4);
    compare_convolution(signal, 2,
                        (cs_patches){
                            { 1, 9 }, 4, { 1, 3 }, .dilation = { 1, 2 }, .padding = { 0, 4 }, .outputs = { 0, 9 } },
                        5);
    compare_losses();
    near_close();
    golden_close(file);
}
END_TEST

SUITE_MAIN("general", operations_agree_with_plain_loops, dropout_follows_from_the_random_functions,
           figures_equal_those_of_pytorch)
