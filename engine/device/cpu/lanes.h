/* lanes.h - vectors of LANES fp32 elements, as wide as the registers of the set of instructions, and loads that convert
 * 16-bit elements to them. */
#ifndef CS_DEVICE_CPU_LANES_H
#define CS_DEVICE_CPU_LANES_H

#include "cspeed/cspeed.h"

#include <string.h>

#ifdef __AVX512F__
#include <immintrin.h>
enum { LANES = 16 };
#else
enum { LANES = 8 };
#endif

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef float eight_lanes __attribute__((vector_size(32)));
typedef float four_lanes __attribute__((vector_size(16)));
typedef uint32_t words __attribute__((vector_size(4 * LANES), aligned(2), may_alias));
typedef uint16_t halves __attribute__((vector_size(2 * LANES), aligned(2), may_alias));

/* Returns elements [at, at + LANES) of a line as fp32. Callers pass a constant dtype. */
static inline lanes ce_lanes_load(const void *line, int64_t at, cs_dtype dtype)
{
    if (dtype == CS_F32)
        return *(const lanes *)((const float *)line + at);
#ifdef __AVX512F__ /* of which gcc 12 makes several instructions otherwise */
    words half = (words)_mm512_cvtepu16_epi32(*(const __m256i_u *)((const uint16_t *)line + at));
#else
    words half = __builtin_convertvector(*(const halves *)((const uint16_t *)line + at), words);
#endif
    if (dtype == CS_BF16)
        return (lanes)(half << 16);
    words rest = (half & 0x7fff) << 13; /* fp16: exponents that are smaller by 112, and infinity and NaN as large */
    words finite = (words)((lanes)rest * 0x1p112f), large = (words)(rest >= 0x0f800000);
    return (lanes)((large & (rest | 0x7f800000)) | (~large & finite) | (half & 0x8000) << 16);
}

/* Returns the sum of all lanes: the upper half is added to the lower one until one lane is left. */
static inline float ce_lanes_sum(lanes x)
{
#ifdef __AVX512F__
    x += __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    eight_lanes y = __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7);
#else
    eight_lanes y = x;
#endif
    four_lanes z = __builtin_shufflevector(y, y, 0, 1, 2, 3) + __builtin_shufflevector(y, y, 4, 5, 6, 7);
    z += __builtin_shufflevector(z, z, 2, 3, 0, 1);
    return z[0] + z[1];
}

#endif
