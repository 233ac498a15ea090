/* cuda_fp16.h - emulated fp16 type, as far as kernels use it; rounds to nearest even, as base/half.h does. */
#ifndef CS_EMULATOR_FP16_H
#define CS_EMULATOR_FP16_H

#include "cuda_runtime.h"

#ifdef __cplusplus
#include "base/half.h"

struct __half {
    unsigned short bits;

    __half() = default;
    explicit __half(float value) : bits(ce_float_to_f16(value))
    {
    }
    explicit operator float() const
    {
        return ce_f16_to_float(bits);
    }
};

inline float __half2float(__half value)
{
    return (float)value;
}

inline __half __float2half_rn(float value)
{
    return __half(value);
}
#endif
#endif
