/* elements.h - functions on short arrays of elements: conversion between fp32 and 16-bit types, sums in a fixed order,
 * e^x.
 *
 * Kernels work on chunks of CE_CHUNK elements, which stay in the first-level cache: a kernel reads a chunk (without a
 * copy if the tensor is fp32), computes it in a plain loop that the compiler vectorizes, and writes it. */
#ifndef CE_DEVICE_CPU_ELEMENTS_H
#define CE_DEVICE_CPU_ELEMENTS_H

#include "base/half.h"
#include "cspeed/cspeed.h"

enum { CE_CHUNK = 1024 };

void ce_elements_widen(float *restrict to, const void *restrict from, cs_dtype dtype, int64_t count);
void ce_elements_narrow(void *restrict to, cs_dtype dtype, const float *restrict from, int64_t count);

/* Returns the number of elements of the chunk that begins at `from`, if the last chunk ends at `end`. */
static inline int64_t ce_elements_chunk(int64_t from, int64_t end)
{
    return end - from < CE_CHUNK ? end - from : CE_CHUNK;
}

static inline void *ce_elements_at(cs_tensor x, int64_t index)
{
    return (char *)x.data + (size_t)index * (x.dtype == CS_F32 ? 4 : 2);
}

/* Returns elements [from, from + count) of x as fp32. If x is fp32, the result points into x; otherwise the elements
 * are converted into `buffer`. */
static inline const float *ce_elements_read(cs_tensor x, int64_t from, int64_t count, float *buffer)
{
    if (x.dtype == CS_F32)
        return (const float *)x.data + from;
    ce_elements_widen(buffer, ce_elements_at(x, from), x.dtype, count);
    return buffer;
}

static inline void ce_elements_write(cs_tensor y, int64_t from, int64_t count, const float *values)
{
    ce_elements_narrow(ce_elements_at(y, from), y.dtype, values, count);
}

/* Computes y += x. */
static inline void ce_elements_add(float *restrict y, const float *restrict x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] += x[i];
}

/* Computes y = factor x. */
static inline void ce_elements_scale(float *restrict y, const float *restrict x, float factor, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = factor * x[i];
}

/* Adds `more` to the gradient of one row. If the gradient has `overwrite` set (cspeed.h) and `first` is true, sets the gradient to
 * `more` instead. */
static inline void ce_elements_grow(cs_tensor gradient, const float *restrict more, bool first)
{
    float *sum = gradient.data;
    int64_t count = cs_count(gradient);
    bool set = gradient.overwrite && first;
    for (int64_t i = 0; i < count; i++)
        sum[i] = set ? more[i] : sum[i] + more[i];
}

/* These functions add in a fixed order, with partial sums that fit vector registers. */
float ce_elements_sum(const float *x, int64_t count);
float ce_elements_dot(const float *x, const float *y, int64_t count);
float ce_elements_max(const float *x, int64_t count);
float ce_elements_spread(const float *x, int64_t count, float mean); /* returns the sum of (x - mean)^2 */
/* Sets each x[i] to e^(x[i] scale - shift) and returns the sum of the results. */
float ce_elements_exp(float *x, int64_t count, float scale, float shift);

/* Returns e^x with an error of about 1 ulp. The result is 0 for x below -87, where e^x is almost subnormal, infinity
 * for x above 88.3, and NaN for NaN. The function has no branches, so loops that call it vectorize. With x = n ln 2 + r
 * and |r| <= ln 2 / 2, e^r is computed by a polynomial, and n becomes the exponent of the factor 2^n. */
static inline float ce_elements_exp_one(float x)
{
    /* adding `round` leaves the integer nearest to `inside` / ln 2, plus 127, in the low bits of the sum */
    const float round = 0x1.8p23f + 127;
    float inside = x < -87.0f ? -87.0f : x;
    inside = inside > 89.0f ? 89.0f : inside;
    float shifted = inside * 1.44269504f + round;
    float n = shifted - round;
    float r = inside - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    /* p approximates (e^r - 1 - r) / r^2 by least squares over the range of r, with an error below 4e-9 */
    float p = 1.37576670e-3f;
    p = p * r + 8.36890470e-3f;
    p = p * r + 4.16694134e-2f;
    p = p * r + 1.66665182e-1f;
    p = p * r + 4.99999881e-1f;
    p = p * (r * r) + r + 1.0f;
    float power = p * ce_bits_float(ce_float_bits(shifted) << 23);
    return x < -87.0f ? 0.0f : power;
}

/* Returns tanh x with an error of about 2 ulp, without branches. If |x| is below 0.625, tanh x is computed by an odd
 * polynomial (least squares, error below 1e-7); otherwise tanh |x| is computed as 1 - 2 / (e^(2 |x|) + 1). */
static inline float ce_elements_tanh_one(float x)
{
    float a = x < 0 ? -x : x, z = x * x;
    float p = 2.142875031e-3f;
    p = p * z - 8.177180748e-3f;
    p = p * z + 2.170054085e-2f;
    p = p * z - 5.394671185e-2f;
    p = p * z + 1.333320531e-1f;
    p = p * z - 3.333333077e-1f;
    float large = 1 - 2 / (ce_elements_exp_one(2 * a) + 1);
    return a < 0.625f ? x + x * z * p : x < 0 ? -large : large;
}

#endif
