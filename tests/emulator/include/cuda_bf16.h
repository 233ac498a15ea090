/* cuda_bf16.h - emulated bf16 type, as far as kernels use it; rounds to nearest even, as base/half.h does. */
#ifndef CS_EMULATOR_BF16_H
#define CS_EMULATOR_BF16_H

#include "cuda_runtime.h"

#ifdef __cplusplus
#include "base/half.h"

struct __nv_bfloat16 {
    unsigned short bits;

    __nv_bfloat16() = default;
    explicit __nv_bfloat16(float value) : bits(ce_float_to_bf16(value))
    {
    }
    explicit operator float() const
    {
        return ce_bf16_to_float(bits);
    }
};

inline float __bfloat162float(__nv_bfloat16 value)
{
    return (float)value;
}

inline __nv_bfloat16 __float2bfloat16_rn(float value)
{
    return __nv_bfloat16(value);
}
#endif
#endif
