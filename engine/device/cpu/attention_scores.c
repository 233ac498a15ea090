/* attention_scores.c - rows of scores: their maximum, their powers with dropout, the gradient of softmax, and the
 * conversion of the results to bf16 pairs while they are in registers. */
#include "device/cpu/attention.h"

#include <float.h>

#define INLINE static inline __attribute__((always_inline))

#ifdef __AVX512BW__
#define WITH_PAIRS __attribute__((target("avx512bf16")))

/* Writes CE_LANES elements as bf16. */
WITH_PAIRS INLINE void narrow(uint16_t *to, ce_lanes x)
{
    _mm256_storeu_si256((__m256i *)to, (__m256i)_mm512_cvtneps_pbh((__m512)x));
}

/* Writes CE_LANES elements of two rows as bf16, along both rows to `along` and, if `across` is not NULL, as pairs. */
WITH_PAIRS INLINE void narrow_rows(uint16_t *along, int64_t row, ce_word *across, const ce_lanes x[2])
{
    __m512i both = (__m512i)_mm512_cvtne2ps_pbh((__m512)x[1], (__m512)x[0]);
    _mm256_storeu_si256((__m256i *)along, _mm512_castsi512_si256(both));
    _mm256_storeu_si256((__m256i *)(along + row), _mm512_extracti64x4_epi64(both, 1));
    if (!across)
        return;
    const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i order = _mm512_or_si512(lane, _mm512_slli_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32(16)), 16));
    _mm512_storeu_si512(across, _mm512_permutexvar_epi16(order, both));
}
#else
#define WITH_PAIRS

/* Without AVX512_BF16 no job multiplies pairs, so these functions are not called. */
INLINE void narrow(uint16_t *to, ce_lanes x)
{
    (void)to, (void)x;
}

INLINE void narrow_rows(uint16_t *along, int64_t row, ce_word *across, const ce_lanes x[2])
{
    (void)along, (void)row, (void)across, (void)x;
}
#endif

typedef float eight __attribute__((vector_size(32)));
typedef float four __attribute__((vector_size(16)));
typedef int32_t eight_bits __attribute__((vector_size(32)));
typedef int32_t four_bits __attribute__((vector_size(16)));

#if CE_LANES == 16
#define LOW(x) __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7)
#define HIGH(x) __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15)
#endif
#define LOW_HALF(x) __builtin_shufflevector(x, x, 0, 1, 2, 3)
#define HIGH_HALF(x) __builtin_shufflevector(x, x, 4, 5, 6, 7)
/* LARGER gives, in each lane, the larger of a and b. If a or b is NaN, it gives b. */
#define LARGER(type, bits, a, b) ((type)((((a) > (b)) & (bits)(a)) | (~((a) > (b)) & (bits)(b))))

static float largest_lane(ce_lanes x)
{
#if CE_LANES == 16
    eight low = LOW(x), high = HIGH(x), e = LARGER(eight, eight_bits, low, high);
#else
    eight e = (eight)x;
#endif
    four low_half = LOW_HALF(e), high_half = HIGH_HALF(e), f = LARGER(four, four_bits, low_half, high_half);
    float first = f[0] > f[1] ? f[0] : f[1], second = f[2] > f[3] ? f[2] : f[3];
    return first > second ? first : second;
}

float ce_scores_largest(const float *row, ce_range columns)
{
    ce_lanes largest = (ce_lanes){ 0 } - FLT_MAX;
    for (int64_t j = columns.from; j < columns.to; j += CE_LANES) {
        ce_lanes x = *(const ce_lanes *)(row + j);
        largest = LARGER(ce_lanes, ce_lane_bits, x, largest);
    }
    return largest_lane(largest);
}

uint32_t ce_scores_above(const float *rows, int64_t span, int64_t count, ce_range columns, const float *max)
{
    uint32_t above = 0;
    for (int64_t r = 0; r < count; r++, rows += span) {
        ce_lane_bits any = { 0 };
        for (int64_t j = columns.from; j < columns.to; j += CE_LANES)
            any |= *(const ce_lanes *)(rows + j) > max[r];
#ifdef __AVX512F__
        above |= (uint32_t)(_mm512_test_epi32_mask((__m512i)any, (__m512i)any) != 0) << r;
#else
        for (int lane = 0; lane < CE_LANES; lane++)
            above |= (uint32_t)(any[lane] != 0) << r;
#endif
    }
    return above;
}

/* Returns 2^x for x < 128, with an error of about 1 ulp, and 0 if the result would be subnormal. x = n + r with |r| <=
 * 1/2, and 2^r is computed by a polynomial (minimax, error below 2e-9). */
INLINE ce_lanes power_of(ce_lanes x)
{
#ifdef __AVX512F__
    x = (ce_lanes)_mm512_max_ps(_mm512_set1_ps(-200), (__m512)x); /* if x is NaN, the result is x */
    ce_lanes n = (ce_lanes)_mm512_roundscale_ps((__m512)x, 8), r = x - n;
#else
    ce_lanes shifted = x + 0x1.8p23f, n = shifted - 0x1.8p23f, r = x - n;
#endif
    ce_lanes p = r * 1.5353362e-4f + 1.3398875e-3f;
    p = p * r + 9.618437e-3f;
    p = p * r + 5.5503324e-2f;
    p = p * r + 2.4022648e-1f;
    p = p * r + 6.931472e-1f;
    p = p * r + 1.0f;
#ifdef __AVX512F__
    return (ce_lanes)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    /* the integer sum wraps around in lanes with small x, which `small` then sets to 0 */
    ce_lane_words small = (ce_lane_words)(x < -126.0f);
    return (ce_lanes)(((ce_lane_words)p + ((ce_lane_words)shifted << 23)) & ~small);
#endif
}

/* Returns x, or 0 in the lanes whose random bits are below `threshold`. */
INLINE ce_lanes kept(ce_lanes x, ce_lane_words bits, uint32_t threshold)
{
    return (ce_lanes)((ce_lane_words)x & (ce_lane_words)(bits >= threshold));
}

/* Computes the powers of the CE_LANES scores at `row`, adds them to *sum, and then drops some. */
INLINE ce_lanes power_lanes(const float *row, const ce_scores_power *by, const uint16_t *bits, ce_lanes *sum)
{
    ce_lanes p = power_of(*(const ce_lanes *)row * by->scale - by->max);
    *sum += p;
    if (!bits)
        return p;
    return kept(p, __builtin_convertvector(*(const ce_lane_halves *)bits, ce_lane_words), by->threshold);
}

static void powers_in_place(float *row, ce_range columns, const ce_scores_power *with, float *sums)
{
    const ce_scores_power own = *with, *by = &own; /* a copy, which the stores below cannot change */
    ce_lanes sum = *(const ce_lanes *)sums;
    for (int64_t j = columns.from; j < columns.to; j += CE_LANES)
        *(ce_lanes *)(row + j) = power_lanes(row + j, by, by->bits ? by->bits + j - columns.from : NULL, &sum);
    *(ce_lanes *)sums = sum;
}

WITH_PAIRS static void powers_to_pairs(const float *row, uint16_t *to, ce_range columns, const ce_scores_power *with,
                                       float *sums)
{
    const ce_scores_power own = *with, *by = &own;
    ce_lanes sum = *(const ce_lanes *)sums;
    for (int64_t j = columns.from; j < columns.to; j += CE_LANES) {
        narrow(to + j, power_lanes(row + j, by, by->bits ? by->bits + j - columns.from : NULL, &sum));
    }
    *(ce_lanes *)sums = sum;
}

void ce_scores_powers(float *row, uint16_t *to, ce_range columns, const ce_scores_power *by, float *sums)
{
    if (to)
        powers_to_pairs(row, to, columns, by, sums);
    else
        powers_in_place(row, columns, by, sums);
}

/* ---- backward ---- */

/* Computes P and dS of CE_LANES elements: row `row` of the strip, from column j on. */
INLINE void slope_of(const ce_scores_slope *strip, int64_t row, int64_t j, ce_lanes *p_of, ce_lanes *ds_of)
{
    int64_t at = row * strip->span + j;
    ce_lanes score = *(const ce_lanes *)(strip->p + at) * (strip->scale * CE_LOG2E);
    ce_lanes p = power_of(score - *(const ce_lanes *)(strip->lse + j));
    ce_lanes dp = *(const ce_lanes *)(strip->ds + at);
    if (strip->bits) {
        const ce_word *words = strip->bits + j / CE_LANES * strip->panel + row / 2 * CE_LANES;
        ce_lane_words both = *(const ce_lane_words *)words, bits = both >> (uint32_t)(row % 2 * 16) & 0xffff;
        dp = kept(dp, bits, strip->threshold) * strip->keep;
        *p_of = kept(p, bits, strip->threshold) * strip->keep;
    } else {
        *p_of = p;
    }
    *ds_of = p * (dp - *(const ce_lanes *)(strip->delta + j)) * strip->scale;
    if (strip->slopes)
        *ds_of *= *(const ce_lanes *)(strip->slopes + at);
}

WITH_PAIRS static void slopes_to_pairs(const ce_scores_slope *with, ce_range columns)
{
    const ce_scores_slope own = *with, *strip = &own; /* a copy, which the stores below cannot change */
    int64_t span = strip->span;
    for (int64_t row = 0; row < strip->strip; row += 2)
        for (int64_t j = columns.from; j < columns.to; j += CE_LANES) {
            ce_lanes p[2], ds[2];
            int64_t at = row * span + j;
            slope_of(strip, row, j, &p[0], &ds[0]);
            slope_of(strip, row + 1, j, &p[1], &ds[1]);
            narrow_rows(strip->p_pairs + at, span, NULL, p);
            narrow_rows(strip->ds_pairs + at, span, strip->across + row / 2 * span + j, ds);
        }
}

static void slopes_in_place(const ce_scores_slope *with, ce_range columns)
{
    const ce_scores_slope own = *with, *strip = &own;
    for (int64_t row = 0; row < strip->strip; row++)
        for (int64_t j = columns.from; j < columns.to; j += CE_LANES) {
            ce_lanes p, ds;
            slope_of(strip, row, j, &p, &ds);
            *(ce_lanes *)(strip->p + row * strip->span + j) = p;
            *(ce_lanes *)(strip->ds + row * strip->span + j) = ds;
        }
}

void ce_scores_slopes(const ce_scores_slope *strip, ce_range columns)
{
    if (strip->p_pairs)
        slopes_to_pairs(strip, columns);
    else
        slopes_in_place(strip, columns);
}
