/* reference.c - reference implementations of each operation as plain loops in double precision. */
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

void reference_product(double *c, const double *a, const double *b, const double *bias, reference_shape shape)
{
    for (int i = 0; i < shape.m; i++) {
        for (int j = 0; j < shape.n; j++) {
            double sum = bias ? bias[j] : 0;
            for (int l = 0; l < shape.k; l++)
                sum += a[shape.transpose_a ? l * shape.m + i : i * shape.k + l] *
                       b[shape.transpose_b ? j * shape.k + l : l * shape.n + j];
            c[i * shape.n + j] = shape.add ? c[i * shape.n + j] + sum : sum;
        }
    }
}

void reference_column_sums(double *sums, const double *x, int rows, int columns)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            sums[j] += x[i * columns + j];
}

void reference_norm(double *y, double *stats, const double *x, const double *weight, const double *bias, int rows,
                    int columns, double epsilon)
{
    for (int i = 0; i < rows; i++, x += columns, y += columns, stats += 2) {
        double mean = 0, variance = 0;
        for (int j = 0; j < columns; j++)
            mean += x[j] / columns;
        for (int j = 0; j < columns; j++)
            variance += (x[j] - mean) * (x[j] - mean) / columns;
        stats[0] = mean;
        stats[1] = 1 / sqrt(variance + epsilon);
        for (int j = 0; j < columns; j++)
            y[j] = (x[j] - mean) * stats[1] * weight[j] + bias[j];
    }
}

void reference_norm_grad(reference_norm_out out, const double *dy, const double *x, const double *stats,
                         const double *weight, int rows, int columns)
{
    double *dx = out.dx;
    for (int i = 0; i < rows; i++, x += columns, dy += columns, dx += columns, stats += 2) {
        double mean_g = 0, mean_gn = 0;
        for (int j = 0; j < columns; j++) {
            double n = (x[j] - stats[0]) * stats[1];
            mean_g += dy[j] * weight[j] / columns;
            mean_gn += dy[j] * weight[j] * n / columns;
            out.dweight[j] += dy[j] * n;
            out.dbias[j] += dy[j];
        }
        for (int j = 0; j < columns; j++)
            dx[j] = stats[1] * (dy[j] * weight[j] - mean_g - (x[j] - stats[0]) * stats[1] * mean_gn);
    }
}

static double gelu_inner(double x)
{
    return sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
}

double reference_gelu(double x)
{
    return 0.5 * x * (1 + tanh(gelu_inner(x)));
}

double reference_gelu_slope(double x)
{
    double t = tanh(gelu_inner(x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

float reference_normal(uint64_t key, uint64_t index)
{
    /* The four words of a random block form two pairs, and each pair gives two normal numbers. */
    ce_rng_block block = ce_rng_philox(key, index / 4);
    int pair = (int)(index % 4 / 2);
    double angle = 6.283185307179586 * ((double)block.word[2 * pair] * 0x1p-32);
    double first = ((double)block.word[2 * pair + 1] + 0.5) * 0x1p-32;
    double swing = index % 2 ? sin(angle) : cos(angle);
    return (float)(sqrt(-2 * log(first)) * swing);
}

double reference_keep(uint64_t key, uint64_t place, uint64_t element, float rate)
{
    if (rate == 0)
        return 1;
    ce_rng_block block = ce_rng_philox(ce_rng_mix(key, place), element / 8);
    uint32_t bits = block.word[element % 8 / 2] >> (element % 2 ? 16 : 0) & 0xffff;
    return bits >= lrintf(rate * 65536) ? 1 / (1 - (double)rate) : 0;
}

/* ---- attention: one head's probabilities, before and after dropout ---- */

static const double *row_of(const double *qkv, reference_heads s, int b, int h, int t, int which)
{
    return qkv + ((b * s.T + t) * 3 + which) * s.H * s.D + h * s.D;
}

static double dot(const double *x, const double *y, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += x[i] * y[i];
    return sum;
}

static int first_of(reference_heads s, int b, int i)
{
    return s.starts ? s.starts[b * s.T + i] : 0;
}

static double score_of(const double *qkv, reference_heads s, int b, int h, int i, int j)
{
    double score = dot(row_of(qkv, s, b, h, i, 0), row_of(qkv, s, b, h, j, 1), s.D) / sqrt(s.D);
    return s.cap > 0 ? s.cap * tanh(score / s.cap) : score;
}

/* Returns the derivative of the capped score of query i and key j with respect to the score without the cap. */
static double cap_slope(const double *qkv, reference_heads s, int b, int h, int i, int j)
{
    double part = s.cap > 0 ? score_of(qkv, s, b, h, i, j) / s.cap : 0;
    return 1 - part * part;
}

/* Computes p[first..i], the attention probabilities of query i; returns the logarithm of the denominator. */
static double probabilities(double *p, const double *qkv, reference_heads s, int b, int h, int i)
{
    double max = -INFINITY, sum = 0;
    int first = first_of(s, b, i);
    for (int j = first; j <= i; j++) {
        p[j] = score_of(qkv, s, b, h, i, j);
        max = fmax(max, p[j]);
    }
    for (int j = first; j <= i; j++)
        sum += exp(p[j] - max);
    for (int j = first; j <= i; j++)
        p[j] = exp(p[j] - max) / sum;
    return max + log(sum);
}

static double keep_of(reference_heads s, int b, int h, int i, int j)
{
    return s.rate > 0
               ? reference_keep(s.keys[b], s.place,
                                ((uint64_t)h * (uint64_t)s.T + (uint64_t)i) * (uint64_t)s.T + (uint64_t)j, s.rate)
               : 1;
}

void reference_attention(double *y, double *lse, const double *qkv, reference_heads s)
{
    double *p = calloc((size_t)s.T, sizeof *p);
    for (int row = 0; row < s.B * s.H * s.T; row++) {
        int b = row / (s.H * s.T), h = row / s.T % s.H, i = row % s.T;
        double *out = y + (b * s.T + i) * s.H * s.D + h * s.D;
        lse[row] = probabilities(p, qkv, s, b, h, i);
        memset(out, 0, (size_t)s.D * sizeof *out);
        for (int j = first_of(s, b, i); j <= i; j++)
            for (int d = 0; d < s.D; d++)
                out[d] += p[j] * keep_of(s, b, h, i, j) * row_of(qkv, s, b, h, j, 2)[d];
    }
    free(p);
}

static void row_grad(double *dqkv, const double *dy, const double *qkv, const double *p, reference_heads s, int row)
{
    int b = row / (s.H * s.T), h = row / s.T % s.H, i = row % s.T;
    const double *out = dy + (b * s.T + i) * s.H * s.D + h * s.D;
    double delta = 0;
    for (int j = first_of(s, b, i); j <= i; j++)
        delta += p[j] * keep_of(s, b, h, i, j) * dot(out, row_of(qkv, s, b, h, j, 2), s.D);
    double *dq = dqkv + (row_of(qkv, s, b, h, i, 0) - qkv);
    for (int j = first_of(s, b, i); j <= i; j++) {
        double keep = keep_of(s, b, h, i, j);
        double ds = p[j] * (keep * dot(out, row_of(qkv, s, b, h, j, 2), s.D) - delta) / sqrt(s.D);
        ds *= cap_slope(qkv, s, b, h, i, j);
        double *dk = dqkv + (row_of(qkv, s, b, h, j, 1) - qkv), *dv = dqkv + (row_of(qkv, s, b, h, j, 2) - qkv);
        for (int d = 0; d < s.D; d++) {
            dq[d] += ds * row_of(qkv, s, b, h, j, 1)[d];
            dk[d] += ds * row_of(qkv, s, b, h, i, 0)[d];
            dv[d] += p[j] * keep * out[d];
        }
    }
}

void reference_attention_grad(double *dqkv, const double *dy, const double *qkv, reference_heads s)
{
    double *p = calloc((size_t)s.T, sizeof *p);
    memset(dqkv, 0, (size_t)(s.B * s.T * 3 * s.H * s.D) * sizeof *dqkv);
    for (int row = 0; row < s.B * s.H * s.T; row++) {
        probabilities(p, qkv, s, row / (s.H * s.T), row / s.T % s.H, row % s.T);
        row_grad(dqkv, dy, qkv, p, s, row);
    }
    free(p);
}

double reference_cross_entropy(double *lse, const double *logits, int width, int target)
{
    double max = -INFINITY, sum = 0;
    for (int j = 0; j < width; j++)
        max = fmax(max, logits[j]);
    for (int j = 0; j < width; j++)
        sum += exp(logits[j] - max);
    *lse = max + log(sum);
    return target < 0 ? 0 : *lse - logits[target];
}

void reference_cross_entropy_grad(double *dlogits, double dloss, const double *logits, int width, int target)
{
    double lse;
    reference_cross_entropy(&lse, logits, width, target);
    for (int j = 0; j < width; j++)
        dlogits[j] = target < 0 ? 0 : (exp(logits[j] - lse) - (j == target)) * dloss;
}
