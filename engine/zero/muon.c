/* muon.c - approximate orthogonalization of a matrix: five Newton-Schulz iterations (Jordan et al. 2024), in fp32.
 *
 * X = u / (|u| + 1e-7); then five times: A = X X^T, B = b A + c A A, X = a X + B X; at last u = X sqrt(max(1, rows /
 * columns)). If X has more rows than columns, A = X^T X and X = a X + X B instead; DeepSpeed transposes X for this,
 * which gives the same result. */
#include "zero/zero.h"

#include <math.h>

/* SUM_FLOATS is the number of floats at the beginning of scratch memory that hold the sum of squares. */
enum { ITERATIONS = 5, SUM_FLOATS = 64 };

static const float a = 3.4445f, b = -4.7750f, c = 2.0315f;

static int64_t short_side(int64_t rows, int64_t columns)
{
    return rows < columns ? rows : columns;
}

size_t ce_muon_scratch(int64_t rows, int64_t columns)
{
    int64_t side = short_side(rows, columns);
    return (size_t)(SUM_FLOATS + rows * columns + 2 * side * side) * sizeof(float);
}

/* Computes gram = X X^T, or gram = X^T X if X has more rows than columns. Then computes square = b gram + c gram
 * gram. */
static void make_polynomial(cs_stream *stream, cs_tensor x, cs_tensor gram, cs_tensor square)
{
    cs_tensor none = { 0 };
    if (cs_rows(x) <= cs_columns(x)) {
        cs_op_matmul(stream, gram, x, x, none, CS_OUT_IN);
    } else {
        cs_op_fill(stream, gram, 0);
        cs_op_matmul_grad_weight(stream, gram, none, x, x, CS_IN_OUT);
    }
    cs_op_matmul(stream, square, gram, gram, none, CS_IN_OUT);
    ce_state_convert(stream, gram, gram, b);
    ce_state_convert(stream, square, square, c);
    ce_state_add(stream, square, gram);
}

/* Computes y = a x + square x, or y = a x + x square if x has more rows than columns. Replaces x by a x. */
static void iterate(cs_stream *stream, cs_tensor y, cs_tensor x, cs_tensor gram, cs_tensor square)
{
    cs_tensor none = { 0 };
    bool wide = cs_rows(x) <= cs_columns(x);
    make_polynomial(stream, x, gram, square);
    cs_op_matmul(stream, y, wide ? square : x, wide ? x : square, none, CS_IN_OUT);
    ce_state_convert(stream, x, x, a);
    ce_state_add(stream, y, x);
}

void ce_muon_orthogonalize(cs_stream *stream, cs_tensor matrix, float *scratch)
{
    int64_t rows = cs_rows(matrix), columns = cs_columns(matrix), side = short_side(rows, columns);
    float *matrices = scratch + SUM_FLOATS;
    cs_tensor other = cs_matrix(matrices, CS_F32, rows, columns);
    cs_tensor gram = cs_matrix(matrices + rows * columns, CS_F32, side, side);
    cs_tensor square = cs_matrix(matrices + rows * columns + side * side, CS_F32, side, side);
    ce_exact sum;
    _Static_assert(sizeof sum <= SUM_FLOATS * sizeof(float), "the sum has its place in scratch");
    /* Sets the exact sum to 0: cs_op_fill writes the fp32 number 0, whose bits are all zero, and an exact sum whose
     * bits are all zero is 0. */
    cs_op_fill(stream, cs_vector(scratch, CS_F32, SUM_FLOATS), 0);
    ce_state_sum_squares(stream, (ce_exact *)(void *)scratch, matrix, 0, 1);
    ce_stream_fetch(stream, &sum, scratch, sizeof sum);
    ce_state_convert(stream, matrix, matrix, (float)(1 / (sqrt(ce_exact_value(&sum)) + 1e-7)));
    for (int i = 0; i < ITERATIONS; i++) {
        cs_tensor x = i % 2 ? other : matrix, y = i % 2 ? matrix : other;
        iterate(stream, y, x, gram, square);
    }
    ce_state_convert(stream, matrix, other, (float)sqrt(fmax(1, (double)rows / (double)columns)));
}
