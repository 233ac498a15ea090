/* test_ops.c - every operation compared with plain loops in double precision: types, odd sizes, one to three
 * threads, added gradients, results in place of inputs, and the same bits in a second run. */
#include "near.h"
#include "reference.h"
#include "suite.h"

#include "base/rng.h"
#include "device/device.h"
#include "cspeed/ops.h"

#include <math.h>
#include <stdlib.h>

static const cs_tensor absent;
static const cs_dtype types[] = { CS_F32, CS_BF16, CS_F16 };
enum { TYPES = 3, MAX_THREADS = 3 };

static cs_stream *stream;

static void open_device(int threads)
{
    stream = ce_device_stream(near_open(threads), CE_COMPUTE);
}

/* Runs a check for each type and each number of threads. */
static void for_all(void (*check)(cs_dtype dtype))
{
    for (int threads = 1; threads <= near_threads(MAX_THREADS); threads++) {
        open_device(threads);
        for (int i = 0; i < TYPES; i++)
            check(types[i]);
        near_close();
    }
}

static double *zeros(int64_t count)
{
    double *numbers = calloc((size_t)count + 1, sizeof *numbers);
    ck_assert_ptr_nonnull(numbers);
    return numbers;
}

static void free_all(int count, const cs_tensor *tensors)
{
    for (int i = 0; i < count; i++)
        near_free(tensors[i]);
}
#define FREE(...)                                                                                                      \
    do {                                                                                                               \
        const cs_tensor list_[] = { __VA_ARGS__ };                                                                     \
        free_all((int)(sizeof list_ / sizeof *list_), list_);                                                          \
    } while (0)

/* ---- matrix products ---- */

typedef struct {
    int N, K, M;
} product_size;
static const product_size product_sizes[] = { { 1, 1, 1 },     { 3, 5, 7 },     { 63, 65, 1 },     { 65, 63, 129 },
                                              { 130, 48, 96 }, { 2, 300, 500 }, { 257, 128, 384 }, { 33, 256, 300 } };

static void check_forward(cs_dtype dtype, product_size s, cs_layout layout, bool with_bias, cs_dtype out)
{
    cs_tensor x = near_random(dtype, s.N, s.K, 1, 1);
    cs_tensor w = layout == CS_IN_OUT ? near_random(dtype, s.K, s.M, 2, 1) : near_random(dtype, s.M, s.K, 2, 1);
    cs_tensor b = near_random(dtype, 1, s.M, 3, 1), y = near_new(out, s.N, s.M), again = near_new(out, s.N, s.M);
    double *dx = near_doubles(x), *dw = near_doubles(w), *db = near_doubles(b), *want = zeros(s.N * s.M);
    cs_op_matmul(stream, near_at(y), near_at(x), near_at(w),
                 near_at(with_bias ? cs_vector(b.data, dtype, s.M) : absent), layout);
    cs_op_matmul(stream, near_at(again), near_at(x), near_at(w),
                 near_at(with_bias ? cs_vector(b.data, dtype, s.M) : absent), layout);
    near_fetch();
    reference_product(want, dx, dw, with_bias ? db : NULL,
                      (reference_shape){ s.N, s.M, s.K, .transpose_b = layout == CS_OUT_IN });
    ck_assert(near_all("matmul", y, want, 1e-6));
    ck_assert(near_same_bits("matmul again", again, y));
    free(dx), free(dw), free(db), free(want);
    FREE(x, w, b, y, again);
}

static void check_matmul(cs_dtype dtype)
{
    for (size_t i = 0; i < sizeof product_sizes / sizeof *product_sizes; i++)
        for (int layout = CS_IN_OUT; layout <= CS_OUT_IN; layout++)
            for (int bias = 0; bias < 2; bias++) {
                check_forward(dtype, product_sizes[i], (cs_layout)layout, bias, dtype);
                check_forward(dtype, product_sizes[i], (cs_layout)layout, bias, CS_F32);
            }
}

static void check_backward(cs_dtype dtype, product_size s, cs_layout layout)
{
    bool in_out = layout == CS_IN_OUT;
    cs_tensor x = near_random(dtype, s.N, s.K, 1, 1), dy = near_random(dtype, s.N, s.M, 4, 1);
    cs_tensor w = in_out ? near_random(dtype, s.K, s.M, 2, 1) : near_random(dtype, s.M, s.K, 2, 1);
    cs_tensor dx = near_new(dtype, s.N, s.K), dw = near_random(CS_F32, cs_rows(w), cs_columns(w), 5, 1);
    cs_tensor db = near_random(CS_F32, 1, s.M, 6, 1);
    double *nx = near_doubles(x), *ny = near_doubles(dy), *nw = near_doubles(w), *want = zeros(s.N * s.K);
    /* gradients are added to the values that dw and db already have */
    double *want_w = near_doubles(dw), *want_b = near_doubles(db);
    cs_op_matmul_grad_input(stream, near_at(dx), near_at(dy), near_at(w), layout);
    cs_op_matmul_grad_weight(stream, near_at(dw), near_at(cs_vector(db.data, CS_F32, s.M)), near_at(x), near_at(dy),
                             layout);
    near_fetch();
    reference_product(want, ny, nw, NULL, (reference_shape){ s.N, s.K, s.M, .transpose_b = in_out });
    reference_product(want_w, in_out ? nx : ny, in_out ? ny : nx, NULL,
                      (reference_shape){ in_out ? s.K : s.M, in_out ? s.M : s.K, s.N, .transpose_a = true,
                                         .add = true });
    reference_column_sums(want_b, ny, s.N, s.M);
    ck_assert(near_all("matmul_grad_input", dx, want, 1e-6));
    ck_assert(near_all("matmul_grad_weight dw", dw, want_w, 1e-6));
    ck_assert(near_all("matmul_grad_weight dbias", db, want_b, 1e-6));
    free(nx), free(ny), free(nw), free(want), free(want_w), free(want_b);
    FREE(x, dy, w, dx, dw, db);
}

/* Returns a tensor full of NaN, marked as fresh, in device memory. */
static cs_tensor fresh(cs_tensor x)
{
    for (int64_t i = 0; i < cs_count(x); i++)
        near_set(x, i, (double)NAN);
    x = near_at(x);
    x.overwrite = true;
    return x;
}

static cs_tensor row_of(cs_tensor x)
{
    return cs_vector(x.data, CS_F32, cs_count(x));
}

/* A fresh gradient is set to the bits that adding to zero gives; a second operation adds to it. */
static void check_fresh_product(cs_dtype dtype, product_size s, cs_layout layout)
{
    bool in_out = layout == CS_IN_OUT;
    cs_tensor x = near_random(dtype, s.N, s.K, 1, 1), dy = near_random(dtype, s.N, s.M, 2, 1);
    cs_tensor dw[2], db[2];
    for (int i = 0; i < 2; i++) {
        dw[i] = near_new(CS_F32, in_out ? s.K : s.M, in_out ? s.M : s.K);
        db[i] = near_new(CS_F32, 1, s.M);
    }
    cs_op_matmul_grad_weight(stream, near_at(dw[0]), near_at(row_of(db[0])), near_at(x), near_at(dy), layout);
    cs_op_matmul_grad_weight(stream, fresh(dw[1]), fresh(row_of(db[1])), near_at(x), near_at(dy), layout);
    near_fetch();
    ck_assert(near_same_bits("a fresh dw", dw[1], dw[0]));
    ck_assert(near_same_bits("a fresh dbias", db[1], db[0]));
    for (int i = 0; i < 2; i++)
        cs_op_matmul_grad_weight(stream, near_at(dw[i]), near_at(row_of(db[i])), near_at(x), near_at(dy), layout);
    near_fetch();
    ck_assert(near_same_bits("dw of two products", dw[1], dw[0]));
    FREE(x, dy, dw[0], dw[1], db[0], db[1]);
}

static void check_fresh_norm(cs_dtype dtype, int rows, int columns)
{
    cs_tensor x = near_random(dtype, rows, columns, 1, 3), w = near_random(dtype, 1, columns, 3, 1);
    cs_tensor y = near_new(dtype, rows, columns), stats = near_new(CS_F32, rows, 2), rms = near_new(CS_F32, rows, 1);
    cs_tensor weight = cs_vector(w.data, dtype, columns), grad[2][3];
    cs_op_norm(stream, near_at(y), near_at(stats), near_at(x), near_at(weight), near_at(weight), 1e-5f);
    cs_op_rms(stream, near_at(y), near_at(rms), near_at(x), near_at(weight), 0, 1e-5f);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 3; k++)
            grad[i][k] = near_new(CS_F32, 1, columns);
        cs_tensor (*at)(cs_tensor) = i ? fresh : near_at;
        cs_op_norm_grad(stream, near_at(y), at(row_of(grad[i][0])), at(row_of(grad[i][1])), near_at(x), near_at(x),
                        near_at(stats), near_at(weight));
        cs_op_rms_grad(stream, near_at(y), at(row_of(grad[i][2])), near_at(x), near_at(x), near_at(rms),
                       near_at(weight), 0);
    }
    near_fetch();
    for (int k = 0; k < 3; k++)
        ck_assert(near_same_bits("a norm's fresh gradients", grad[1][k], grad[0][k]));
    for (int k = 0; k < 3; k++)
        FREE(grad[0][k], grad[1][k]);
    FREE(x, w, y, stats, rms);
}

static void check_fresh_tables(cs_dtype dtype)
{
    enum { LENGTH = 7, WIDTH = 20, WORDS = 9 };
    cs_tensor dy = near_random(dtype, 2 * LENGTH, WIDTH, 1, 1), tokens = near_new(CS_I32, 2, LENGTH), grad[2][2];
    for (int i = 0; i < 2 * LENGTH; i++)
        ((int32_t *)tokens.data)[i] = i * i % WORDS;
    for (int i = 0; i < 2; i++) {
        grad[i][0] = near_new(CS_F32, WORDS, WIDTH);
        grad[i][1] = near_new(CS_F32, LENGTH + 1, WIDTH);
        cs_tensor (*at)(cs_tensor) = i ? fresh : near_at;
        cs_op_embed_grad(stream, at(grad[i][0]), CS_WHOLE_TABLE, at(grad[i][1]), near_at(dy), near_at(tokens), absent,
                         -1);
    }
    near_fetch();
    for (int k = 0; k < 2; k++)
        ck_assert(near_same_bits("an embedding's fresh gradients", grad[1][k], grad[0][k]));
    FREE(dy, tokens, grad[0][0], grad[0][1], grad[1][0], grad[1][1]);
}

static void check_fresh(cs_dtype dtype)
{
    for (size_t i = 0; i < sizeof product_sizes / sizeof *product_sizes; i++)
        for (int layout = CS_IN_OUT; layout <= CS_OUT_IN; layout++)
            check_fresh_product(dtype, product_sizes[i], (cs_layout)layout);
    check_fresh_norm(dtype, 3, 63);
    check_fresh_norm(dtype, 65, 1100);
    check_fresh_tables(dtype);
}

START_TEST(fresh_gradients_are_set)
{
    for_all(check_fresh);
}
END_TEST

static void check_matmul_grad(cs_dtype dtype)
{
    for (size_t i = 0; i < sizeof product_sizes / sizeof *product_sizes; i++)
        for (int layout = CS_IN_OUT; layout <= CS_OUT_IN; layout++)
            check_backward(dtype, product_sizes[i], (cs_layout)layout);
}

START_TEST(matmul_multiplies)
{
    for_all(check_matmul);
    for_all(check_matmul_grad);
}
END_TEST

/* ---- norm ---- */

static void check_norm_size(cs_dtype dtype, int rows, int columns)
{
    cs_tensor x = near_random(dtype, rows, columns, 1, 3), dy = near_random(dtype, rows, columns, 2, 1);
    cs_tensor w = near_random(dtype, 1, columns, 3, 1), b = near_random(dtype, 1, columns, 4, 1);
    cs_tensor y = near_new(dtype, rows, columns), dx = near_new(dtype, rows, columns);
    cs_tensor stats = near_new(CS_F32, rows, 2);
    cs_tensor dw = near_random(CS_F32, 1, columns, 5, 1), db = near_random(CS_F32, 1, columns, 6, 1);
    double *nx = near_doubles(x), *ny = near_doubles(dy), *nw = near_doubles(w), *nb = near_doubles(b);
    double *want = zeros(rows * columns), *want_stats = zeros(rows * 2), *want_w = near_doubles(dw),
           *want_b = near_doubles(db);
    cs_tensor weight = cs_vector(w.data, dtype, columns), bias = cs_vector(b.data, dtype, columns);
    cs_op_norm(stream, near_at(y), near_at(stats), near_at(x), near_at(weight), near_at(bias), 1e-5f);
    cs_op_norm_grad(stream, near_at(dx), near_at(cs_vector(dw.data, CS_F32, columns)),
                    near_at(cs_vector(db.data, CS_F32, columns)), near_at(dy), near_at(x), near_at(stats),
                    near_at(weight));
    near_fetch();
    reference_norm(want, want_stats, nx, nw, nb, rows, columns, 1e-5);
    ck_assert(near_all("norm", y, want, 2e-6));
    ck_assert(near_all("norm stats", stats, want_stats, 2e-6));
    reference_norm_grad((reference_norm_out){ want, want_w, want_b }, ny, nx, want_stats, nw, rows, columns);
    ck_assert(near_all("norm_grad dx", dx, want, 4e-6));
    ck_assert(near_all("norm_grad dweight", dw, want_w, 4e-6));
    ck_assert(near_all("norm_grad dbias", db, want_b, 4e-6));
    free(nx), free(ny), free(nw), free(nb), free(want), free(want_stats), free(want_w), free(want_b);
    FREE(x, dy, w, b, y, dx, stats, dw, db);
}

static void check_norm(cs_dtype dtype)
{
    static const int sizes[][2] = { { 2, 7 }, { 3, 63 }, { 65, 64 }, { 40, 129 }, { 17, 1100 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_norm_size(dtype, sizes[i][0], sizes[i][1]);
}

START_TEST(norm_normalises)
{
    for_all(check_norm);
}
END_TEST

/* ---- element by element ---- */

static void check_gelu(cs_dtype dtype)
{
    cs_tensor x = near_random(dtype, 37, 1001, 1, 2), dy = near_random(dtype, 37, 1001, 2, 1);
    cs_tensor y = near_new(dtype, 37, 1001), dx = near_new(dtype, 37, 1001);
    int64_t count = cs_count(x);
    double *want = near_doubles(x), *slope = near_doubles(dy);
    for (int64_t i = 0; i < count; i++) {
        slope[i] *= reference_gelu_slope(want[i]);
        want[i] = reference_gelu(want[i]);
    }
    cs_op_gelu(stream, near_at(y), near_at(x));
    cs_op_gelu_grad(stream, near_at(dx), near_at(dy), near_at(x));
    near_fetch();
    ck_assert(near_all("gelu", y, want, 3e-7));
    ck_assert(near_all("gelu_grad", dx, slope, 5e-7));
    cs_op_gelu_grad(stream, near_at(dy), near_at(dy), near_at(x));
    cs_op_gelu(stream, near_at(x), near_at(x));
    near_fetch();
    ck_assert(near_same_bits("gelu in place", x, y));
    ck_assert(near_same_bits("gelu_grad in place", dy, dx));
    free(want), free(slope);
    FREE(x, dy, y, dx);
}

static void check_add(cs_dtype dtype)
{
    cs_tensor a = near_random(dtype, 129, 401, 1, 1), b = near_random(dtype, 129, 401, 2, 1);
    cs_tensor y = near_new(dtype, 129, 401);
    double *want = near_doubles(a), *more = near_doubles(b);
    for (int64_t i = 0; i < cs_count(a); i++)
        want[i] += more[i];
    cs_op_add(stream, near_at(y), near_at(a), near_at(b));
    near_fetch();
    ck_assert(near_all("add", y, want, 0));
    cs_op_add(stream, near_at(b), near_at(a), near_at(b));
    near_fetch();
    ck_assert(near_same_bits("add in place", b, y));
    free(want), free(more);
    FREE(a, b, y);
}

/* A cast of a tensor gives the same bits as the conversion of each element alone, also at the ends of the type's
 * range. */
static void check_cast(cs_dtype dtype)
{
    static const float odd[] = { 0.0f,    -0.0f,  1.0f,     65504.0f,  65519.9f,    65520.0f,
                                 1e30f,   -1e30f, 3.4e38f,  6e-8f,     2e-8f,       -6.1e-5f,
                                 6.0e-5f, 1e-40f, INFINITY, -INFINITY, 1.00390625f, 1.01171875f };
    enum { ODD = sizeof odd / sizeof *odd };
    cs_tensor x = near_random(CS_F32, 3, 20011, 1, 1), y = near_new(dtype, 3, 20011), want = near_new(dtype, 3, 20011);
    for (int i = 0; i < ODD; i++)
        near_set(x, i, (double)odd[i]);
    for (int64_t i = 0; i < cs_count(x); i++)
        near_set(want, i, near_element(x, i));
    cs_op_cast(stream, near_at(y), near_at(x));
    near_fetch();
    ck_assert(near_same_bits("cast", y, want));
    for (int64_t i = 0; i < cs_count(x); i++)
        near_set(x, i, near_element(y, i));
    cs_tensor back = near_new(CS_F32, 3, 20011);
    cs_op_cast(stream, near_at(back), near_at(y));
    near_fetch();
    ck_assert(near_same_bits("cast back", back, x));
    near_set(x, 7, NAN);
    cs_op_cast(stream, near_at(y), near_at(x));
    near_fetch();
    ck_assert(isnan(near_element(y, 7)));
    cs_op_fill(stream, near_at(y), -2.5f);
    near_fetch();
    int64_t filled = 0;
    for (int64_t i = 0; i < cs_count(y); i++)
        filled += near_element(y, i) == -2.5;
    ck_assert_int_eq(filled, cs_count(y));
    FREE(x, y, want, back);
}

START_TEST(elements_are_computed_alone)
{
    for_all(check_gelu);
    for_all(check_add);
    for_all(check_cast);
}
END_TEST

START_TEST(gelu_holds_at_the_ends)
{
    open_device(1);
    static const float values[] = { 0, -0.0f, 1e-30f, -1e-30f, 5, -5, 9, -9, 12, -12, 40, -40, 1e10f, -1e10f };
    enum { COUNT = sizeof values / sizeof *values };
    cs_tensor x = near_new(CS_F32, 1, COUNT), one = near_new(CS_F32, 1, COUNT), y = near_new(CS_F32, 1, COUNT);
    cs_op_fill(stream, near_at(one), 1);
    near_fetch();
    for (int i = 0; i < COUNT; i++)
        near_set(x, i, (double)values[i]);
    cs_op_gelu(stream, near_at(y), near_at(x));
    near_fetch();
    for (int i = 0; i < COUNT; i++)
        ck_assert_double_eq_tol(near_element(y, i), reference_gelu((double)values[i]),
                                1e-6 * fabs((double)values[i]) + 1e-9);
    cs_op_gelu_grad(stream, near_at(y), near_at(one), near_at(x));
    near_fetch();
    for (int i = 0; i < COUNT; i++) {
        double at = (double)values[i], slope = at > 100 ? 1 : at < -100 ? 0 : reference_gelu_slope(at);
        ck_assert_double_eq_tol(near_element(y, i), slope, 2e-6);
    }
    near_set(x, 3, NAN);
    cs_op_gelu(stream, near_at(y), near_at(x));
    near_fetch();
    ck_assert(isnan(near_element(y, 3)));
    ck_assert(!isnan(near_element(y, 4)));
    FREE(x, one, y);
    near_close();
}
END_TEST

/* ---- tables ---- */

/* Checks cs_op_embed and its gradient. The token `padding` gets no gradient; -1: every token gets one. */
static void check_embed_size(cs_dtype dtype, int B, int T, int C, bool with_positions, int padding)
{
    enum { V = 11 };
    cs_tensor table = near_random(dtype, V, C, 1, 1), positions = near_random(dtype, T + 2, C, 2, 1);
    cs_tensor y = near_new(dtype, B * T, C), dy = near_random(dtype, B * T, C, 3, 1), tokens = near_new(CS_I32, B, T);
    cs_tensor dtable = near_random(CS_F32, V, C, 4, 1), dpositions = near_random(CS_F32, T + 2, C, 5, 1);
    double *want = zeros(B * T * C), *want_t = near_doubles(dtable), *want_p = near_doubles(dpositions);
    for (int row = 0; row < B * T; row++) {
        int token = row * 7 % V;
        ((int32_t *)tokens.data)[row] = token;
        for (int c = 0; c < C; c++) {
            want[row * C + c] =
                near_element(table, token * C + c) + (with_positions ? near_element(positions, row % T * C + c) : 0);
            want_t[token * C + c] += token != padding ? near_element(dy, row * C + c) : 0;
            want_p[row % T * C + c] += with_positions ? near_element(dy, row * C + c) : 0;
        }
    }
    cs_op_embed(stream, near_at(y), near_at(tokens), near_at(table), CS_WHOLE_TABLE,
                near_at(with_positions ? positions : absent), near_at(absent));
    cs_op_embed_grad(stream, near_at(dtable), CS_WHOLE_TABLE, near_at(with_positions ? dpositions : absent),
                     near_at(dy), near_at(tokens), near_at(absent), padding);
    near_fetch();
    ck_assert(near_all("embed", y, want, 0));
    ck_assert(near_all("embed_grad table", dtable, want_t, 1e-6));
    ck_assert(near_all("embed_grad positions", dpositions, want_p, 1e-6));
    free(want), free(want_t), free(want_p);
    FREE(table, positions, y, dy, tokens, dtable, dpositions);
}

static void check_embed(cs_dtype dtype)
{
    check_embed_size(dtype, 1, 1, 3, true, -1);
    check_embed_size(dtype, 3, 65, 129, true, -1);
    check_embed_size(dtype, 3, 65, 129, true, 0);
    check_embed_size(dtype, 2, 17, 1200, false, 10);
}

START_TEST(embed_reads_and_adds_rows)
{
    for_all(check_embed);
}
END_TEST

/* ---- losses ---- */

/* Returns logits with `classes` columns in rows of `stride` elements. The other elements are NaN, because the operation
 * must not read them; it must set their gradient to zero. */
static cs_tensor padded_logits(cs_dtype dtype, int rows, int classes, int stride)
{
    cs_tensor logits = near_random(dtype, rows, classes, 1, 5), padded = near_new(dtype, rows, stride);
    for (int64_t i = 0; i < (int64_t)rows * stride; i++)
        near_set(padded, i,
                 i % stride < classes ? near_element(logits, i / stride * classes + i % stride) : (double)NAN);
    near_free(logits);
    return padded;
}

static int first_largest(const double *x, int count)
{
    int largest = 0;
    for (int i = 1; i < count; i++)
        largest = x[i] > x[largest] ? i : largest;
    return largest;
}

static void check_entropy_size(cs_dtype dtype, int rows, int classes, int stride)
{
    cs_tensor logits = padded_logits(dtype, rows, classes, stride), targets = near_new(CS_I32, rows, 1);
    cs_tensor loss = near_new(CS_F32, rows, 1), without = near_new(CS_F32, rows, 1), hits = near_new(CS_F32, rows, 1);
    cs_tensor kept = near_copy(logits);
    cs_tensor dloss = near_random(CS_F32, rows, 1, 2, 1);
    double *x = near_doubles(logits), *want = zeros(rows), *want_d = zeros(rows * stride), *want_hits = zeros(rows),
           ignored;
    for (int i = 0; i < rows; i++) {
        int largest = first_largest(x + i * stride, classes);
        int target = i % 4 == 1 ? -1 : i % 4 == 2 ? largest : i * 131 % classes;
        want_hits[i] = target == largest;
        ((int32_t *)targets.data)[i] = target;
        want[i] = reference_cross_entropy(&ignored, x + i * stride, classes, target);
        reference_cross_entropy_grad(want_d + i * stride, near_element(dloss, i), x + i * stride, classes, target);
    }
    cs_op_cross_entropy(stream, near_at(without), near_at(logits), near_at(targets), classes, near_at(absent));
    cs_op_hits(stream, near_at(hits), near_at(logits), near_at(targets), classes);
    near_fetch();
    ck_assert(near_all("cross_entropy", without, want, 1e-6));
    ck_assert(near_all("hits", hits, want_hits, 0));
    ck_assert(near_same_bits("logits, where no gradient is asked for", logits, kept));
    cs_op_cross_entropy(stream, near_at(loss), near_at(logits), near_at(targets), classes, near_at(dloss));
    near_fetch();
    ck_assert(near_same_bits("cross_entropy with a gradient", loss, without));
    ck_assert(near_all("cross_entropy's gradient", logits, want_d, 1e-5));
    for (int64_t i = 0; i < (int64_t)rows * stride; i++)
        ck_assert(i % stride < classes || near_element(logits, i) == 0);
    free(x), free(want), free(want_d), free(want_hits);
    FREE(logits, targets, loss, without, kept, hits, dloss);
}

static void check_entropy(cs_dtype dtype)
{
    check_entropy_size(dtype, 1, 1, 1);
    check_entropy_size(dtype, 1, 1, 128);
    check_entropy_size(dtype, 5, 63, 63);
    check_entropy_size(dtype, 5, 63, 70);
    check_entropy_size(dtype, 33, 257, 384);
    check_entropy_size(dtype, 7, 50257, 50257);
    check_entropy_size(dtype, 7, 50257, 50304);
    check_entropy_size(dtype, 3, 128256, 128256); /* a row that does not fit in shared memory */
}

/* Compares the losses of the same logits with a row stride of 200 and 256 elements, and the gradients' first 200
 * columns. */
static void check_padding(cs_dtype dtype)
{
    enum { ROWS = 9, CLASSES = 200, STRIDE = 256 };
    cs_tensor results[2][2];
    for (int i = 0; i < 2; i++) {
        int stride = i ? STRIDE : CLASSES;
        cs_tensor logits = padded_logits(dtype, ROWS, CLASSES, stride), targets = near_new(CS_I32, ROWS, 1);
        cs_tensor dloss = near_random(CS_F32, ROWS, 1, 2, 1), loss = near_new(CS_F32, ROWS, 1);
        cs_op_cross_entropy(stream, near_at(loss), near_at(logits), near_at(targets), CLASSES, near_at(dloss));
        near_fetch();
        results[i][0] = loss;
        results[i][1] = near_new(dtype, ROWS, CLASSES);
        for (int64_t at = 0; at < ROWS * CLASSES; at++)
            near_set(results[i][1], at, near_element(logits, at / CLASSES * stride + at % CLASSES));
        FREE(logits, targets, dloss);
    }
    ck_assert(near_same_bits("loss", results[1][0], results[0][0]));
    ck_assert(near_same_bits("dlogits", results[1][1], results[0][1]));
    for (int i = 0; i < 2; i++)
        FREE(results[i][0], results[i][1]);
}

static void check_errors(cs_dtype dtype, bool squared)
{
    enum { ROWS = 33, COLUMNS = 1031 };
    cs_tensor y = near_random(dtype, ROWS, COLUMNS, 1, 1), target = near_random(CS_F32, ROWS, COLUMNS, 2, 1);
    cs_tensor loss = near_new(CS_F32, ROWS, 1), dloss = near_random(CS_F32, ROWS, 1, 3, 1), dy = near_copy(y);
    double *want = zeros(ROWS), *want_d = zeros(ROWS * COLUMNS);
    near_set(target, 7, near_element(y, 7)); /* a difference of 0 must give a gradient of 0 */
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        double apart = near_element(y, i) - near_element(target, i);
        double slope = squared ? 2 * apart : apart == 0 ? 0 : copysign(1, apart);
        want[i / COLUMNS] += (squared ? apart * apart : fabs(apart)) / COLUMNS;
        want_d[i] = slope / COLUMNS * near_element(dloss, i / COLUMNS);
    }
    (squared ? cs_op_squared_error : cs_op_absolute_error)(stream, near_at(loss), near_at(y), near_at(target));
    (squared ? cs_op_squared_error_grad : cs_op_absolute_error_grad)(stream, near_at(dy), near_at(dloss), near_at(y),
                                                                     near_at(target));
    near_fetch();
    ck_assert(near_all(squared ? "squared_error" : "absolute_error", loss, want, 1e-6));
    ck_assert(near_all(squared ? "squared_error_grad" : "absolute_error_grad", dy, want_d, 1e-6));
    free(want), free(want_d);
    FREE(y, target, loss, dloss, dy);
}

static void check_squares(cs_dtype dtype)
{
    check_errors(dtype, true);
}

static void check_absolutes(cs_dtype dtype)
{
    check_errors(dtype, false);
}

START_TEST(losses_and_their_gradients)
{
    for_all(check_entropy);
    for_all(check_padding);
    for_all(check_squares);
    for_all(check_absolutes);
}
END_TEST

START_TEST(losses_show_what_is_not_finite)
{
    open_device(1);
    static const float bad[] = { NAN, INFINITY };
    for (int i = 0; i < 2; i++) {
        cs_tensor logits = near_random(CS_F32, 2, 100, 1, 1), targets = near_new(CS_I32, 2, 1);
        cs_tensor loss = near_new(CS_F32, 2, 1);
        near_set(logits, 42, (double)bad[i]);
        cs_op_cross_entropy(stream, near_at(loss), near_at(logits), near_at(targets), 100, near_at(absent));
        near_fetch();
        ck_assert(!isfinite(near_element(loss, 0)));
        ck_assert(isfinite(near_element(loss, 1)));
        FREE(logits, targets, loss);
    }
    near_close();
}
END_TEST

SUITE_MAIN("ops", matmul_multiplies, fresh_gradients_are_set, norm_normalises, elements_are_computed_alone,
           gelu_holds_at_the_ends, embed_reads_and_adds_rows, losses_and_their_gradients,
           losses_show_what_is_not_finite)
