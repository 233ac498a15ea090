/* elements.c - conversions and sums of short arrays, in loops that the compiler vectorizes. */
#include "device/cpu/elements.h"

#include <math.h>

enum { LANES = 8, SETS = 4 };

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t masks __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* ---- conversions without branches ---- */

static float widen_f16(uint16_t half)
{
    uint32_t rest = (uint32_t)(half & 0x7fff) << 13;
    uint32_t finite = ce_float_bits(ce_bits_float(rest) * 0x1p112f);
    return ce_bits_float((rest >= 0x0f800000 ? rest | 0x7f800000 : finite) | (uint32_t)(half & 0x8000) << 16);
}

static uint16_t narrow_f16(float value)
{
    uint32_t bits = ce_float_bits(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    uint32_t usual = (rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13;
    uint32_t small = ce_float_bits(ce_bits_float(rest) + 0.5f) - 0x3f000000;
    uint32_t half = rest < 0x38800000 ? small : usual;
    half = rest >= 0x477ff000 ? 0x7c00 : half;
    half = rest > 0x7f800000 ? 0x7e00 : half;
    return (uint16_t)(sign | half);
}

void ce_elements_widen(float *restrict to, const void *restrict from, cs_dtype dtype, int64_t count)
{
    const uint16_t *half = from;
    if (dtype == CS_F32)
        memcpy(to, from, (size_t)count * 4);
    else if (dtype == CS_BF16)
        for (int64_t i = 0; i < count; i++)
            to[i] = ce_bits_float((uint32_t)half[i] << 16);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = widen_f16(half[i]);
}

void ce_elements_narrow(void *restrict to, cs_dtype dtype, const float *restrict from, int64_t count)
{
    uint16_t *half = to;
    if (dtype == CS_F32)
        memcpy(to, from, (size_t)count * 4);
    else if (dtype == CS_BF16)
        for (int64_t i = 0; i < count; i++)
            half[i] = ce_float_to_bf16(from[i]);
    else
        for (int64_t i = 0; i < count; i++)
            half[i] = narrow_f16(from[i]);
}

/* ---- sums: SETS vectors of LANES partial sums, which are added in order at the end; then the remaining elements
 * ---- */

static const lanes *at(const float *x)
{
    return (const lanes *)x;
}

static float join(const lanes *part, float sum)
{
    lanes all = (part[0] + part[1]) + (part[2] + part[3]);
    for (int lane = 0; lane < LANES; lane++)
        sum += all[lane];
    return sum;
}

float ce_elements_sum(const float *x, int64_t count)
{
    lanes part[SETS] = { 0 };
    int64_t i = 0;
    for (; i + LANES * SETS <= count; i += LANES * SETS)
        for (int set = 0; set < SETS; set++)
            part[set] += *at(x + i + set * LANES);
    float tail = 0;
    for (; i < count; i++)
        tail += x[i];
    return join(part, tail);
}

float ce_elements_dot(const float *x, const float *y, int64_t count)
{
    lanes part[SETS] = { 0 };
    int64_t i = 0;
    for (; i + LANES * SETS <= count; i += LANES * SETS)
        for (int set = 0; set < SETS; set++)
            part[set] += *at(x + i + set * LANES) * *at(y + i + set * LANES);
    float tail = 0;
    for (; i < count; i++)
        tail += x[i] * y[i];
    return join(part, tail);
}

float ce_elements_spread(const float *x, int64_t count, float mean)
{
    lanes part[SETS] = { 0 };
    int64_t i = 0;
    for (; i + LANES * SETS <= count; i += LANES * SETS) {
        for (int set = 0; set < SETS; set++) {
            lanes apart = *at(x + i + set * LANES) - mean;
            part[set] += apart * apart;
        }
    }
    float tail = 0;
    for (; i < count; i++)
        tail += (x[i] - mean) * (x[i] - mean);
    return join(part, tail);
}

/* NaN is ignored here, because the sum of exponentials becomes NaN anyway. */
float ce_elements_max(const float *x, int64_t count)
{
    lanes lanes_max[SETS];
    int64_t i = 0;
    for (int set = 0; set < SETS; set++)
        lanes_max[set] = (lanes){ 0 } - INFINITY;
    for (; i + LANES * SETS <= count; i += LANES * SETS)
        for (int set = 0; set < SETS; set++) {
            lanes value = *at(x + i + set * LANES);
            masks larger = value > lanes_max[set];
            lanes_max[set] = (lanes)((larger & (masks)value) | (~larger & (masks)lanes_max[set]));
        }
    float max = -INFINITY;
    for (int set = 0; set < SETS; set++)
        for (int lane = 0; lane < LANES; lane++)
            max = lanes_max[set][lane] > max ? lanes_max[set][lane] : max;
    for (; i < count; i++)
        max = x[i] > max ? x[i] : max;
    return max;
}

float ce_elements_exp(float *x, int64_t count, float scale, float shift)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = ce_elements_exp_one(x[i] * scale - shift);
    return ce_elements_sum(x, count);
}
