/* lanes.h - vectors of CE_LANES fp32 elements, as wide as the registers of the set of instructions, with the functions
 * that kernels need: loads that convert 16-bit elements, narrowing to bf16, and sums. */
#ifndef CE_DEVICE_CPU_LANES_H
#define CE_DEVICE_CPU_LANES_H

#include "cspeed/cspeed.h"

#ifdef __AVX512F__
#include <immintrin.h>
#define CE_LANES 16
#else
#define CE_LANES 8
#endif

typedef float ce_lanes __attribute__((vector_size(4 * CE_LANES), aligned(4), may_alias));
typedef int32_t ce_lane_bits __attribute__((vector_size(4 * CE_LANES), aligned(4), may_alias));
typedef uint32_t ce_lane_words __attribute__((vector_size(4 * CE_LANES), aligned(4), may_alias));
typedef uint16_t ce_lane_halves __attribute__((vector_size(2 * CE_LANES), aligned(2), may_alias));
typedef float ce_eight_lanes __attribute__((vector_size(32)));
typedef float ce_four_lanes __attribute__((vector_size(16)));

/* Returns elements [at, at + CE_LANES) of a line as fp32. Callers pass a constant dtype, so that the branches
 * disappear. */
static inline ce_lanes ce_lanes_load(const void *line, int64_t at, cs_dtype dtype)
{
    if (dtype == CS_F32)
        return *(const ce_lanes *)((const float *)line + at);
    const uint16_t *from = (const uint16_t *)line + at;
#ifdef __AVX512F__ /* an intrinsic is used, because gcc 12 compiles the conversion below to several instructions */
    ce_lane_words half = (ce_lane_words)_mm512_cvtepu16_epi32(*(const __m256i_u *)from);
#else
    ce_lane_words half = __builtin_convertvector(*(const ce_lane_halves *)from, ce_lane_words);
#endif
    if (dtype == CS_BF16)
        return (ce_lanes)(half << 16);
    /* the exponents of fp16 numbers are now too small by 112, also those of infinity and NaN */
    ce_lane_words rest = (half & 0x7fff) << 13;
    ce_lane_words finite = (ce_lane_words)((ce_lanes)rest * 0x1p112f), large = (ce_lane_words)(rest >= 0x0f800000);
    return (ce_lanes)((large & (rest | 0x7f800000)) | (~large & finite) | (half & 0x8000) << 16);
}

/* Writes lanes as bf16 elements, rounded to nearest even. With AVX512_BF16, numbers below 2^-126 become 0. */
static inline void ce_lanes_narrow(uint16_t *to, ce_lanes x)
{
#ifdef __AVX512BF16__
    _mm256_storeu_si256((__m256i *)(void *)to, (__m256i)_mm512_cvtneps_pbh((__m512)x));
#else
    ce_lane_words bits = (ce_lane_words)x, finite = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    ce_lane_words is_nan = (ce_lane_words)((bits & 0x7fffffff) > 0x7f800000);
    *(ce_lane_halves *)to =
        __builtin_convertvector((is_nan & (bits >> 16 | 0x40)) | (~is_nan & finite), ce_lane_halves);
#endif
}

/* Returns the sum of all lanes: halves are added to each other, then neighbours. */
static inline float ce_lanes_sum(ce_lanes x)
{
#ifdef __AVX512F__
    x += __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    ce_eight_lanes y = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7);
#else
    ce_eight_lanes y = x;
#endif
    ce_four_lanes z = __builtin_shufflevector(y, y, 0, 1, 2, 3) + __builtin_shufflevector(y, y, 4, 5, 6, 7);
    return (z[0] + z[1]) + (z[2] + z[3]);
}

#endif
