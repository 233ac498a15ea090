/* half.h - conversions between fp32 and bf16 or fp16, rounded to nearest even. */
#ifndef CE_BASE_HALF_H
#define CE_BASE_HALF_H

#include "base/host_device.h"

#include <stdint.h>
#include <string.h>

CE_HOST_DEVICE uint32_t ce_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

CE_HOST_DEVICE float ce_bits_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float ce_bf16_to_float(uint16_t short_bits)
{
    return ce_bits_float((uint32_t)short_bits << 16);
}

static inline uint16_t ce_float_to_bf16(float value)
{
    uint32_t bits = ce_float_bits(value);
    uint32_t quiet = (bits >> 16) | 0x40; /* sets a bit of the mantissa, so that a NaN stays a NaN */
    uint32_t round = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : round);
}

static inline float ce_f16_to_float(uint16_t short_bits)
{
    uint32_t sign = (uint32_t)(short_bits & 0x8000) << 16;
    uint32_t rest = short_bits & 0x7fff;
    if (rest >= 0x7c00)
        return ce_bits_float(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    if (rest < 0x400) /* a subnormal fp16 number is `rest` times 2^-24, which fp32 represents exactly */
        return ce_bits_float(sign | ce_float_bits((float)rest * 0x1p-24f));
    return ce_bits_float(sign | ((rest << 13) + 0x38000000));
}

static inline uint16_t ce_float_to_f16(float value)
{
    uint32_t bits = ce_float_bits(value);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t rest = bits & 0x7fffffff;
    if (rest > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (rest >= 0x477ff000) /* the value is infinite or rounds to at least 65536; fp16 stores infinity */
        return (uint16_t)(sign | 0x7c00);
    /* The value is below 2^-14. Adding 0.5 rounds it to a multiple of 2^-24 and leaves this multiple in the low
     * bits. */
    if (rest < 0x38800000)
        return (uint16_t)(sign | (ce_float_bits(ce_bits_float(rest) + 0.5f) - 0x3f000000));
    return (uint16_t)(sign | ((rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13));
}

#endif
