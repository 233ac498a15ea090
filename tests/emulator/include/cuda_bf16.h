/* cuda_bf16.h - of the emulator: bf16 and its pair, rounding to nearest even as base/half.h does. */
#ifndef CS_EMULATOR_BF16_H
#define CS_EMULATOR_BF16_H

#include "cuda_runtime.h"

#ifdef __cplusplus
#include "base/half.h"

struct __nv_bfloat16_raw {
    unsigned short x;
};

struct __nv_bfloat16 {
    unsigned short bits;

    __nv_bfloat16() = default;
    __nv_bfloat16(__nv_bfloat16_raw raw) : bits(raw.x) {}
    __nv_bfloat16(float value) : bits(cs_float_to_bf16(value)) {}
    __nv_bfloat16(double value) : bits(cs_float_to_bf16((float)value)) {}
    __nv_bfloat16(int value) : bits(cs_float_to_bf16((float)value)) {}
    operator float() const { return cs_bf16_to_float(bits); }
    operator __nv_bfloat16_raw() const { return { bits }; }
};

struct __attribute__((aligned(4))) __nv_bfloat162 {
    __nv_bfloat16 x, y;

    __nv_bfloat162() = default;
    __nv_bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) : x(low), y(high) {}
};

inline __nv_bfloat16 operator+(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16((float)a + (float)b); }
inline __nv_bfloat16 operator-(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16((float)a - (float)b); }
inline __nv_bfloat16 operator*(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16((float)a * (float)b); }
inline __nv_bfloat16 operator/(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16((float)a / (float)b); }
inline __nv_bfloat16 operator-(__nv_bfloat16 a) { return __nv_bfloat16(-(float)a); }
inline __nv_bfloat16 &operator+=(__nv_bfloat16 &a, __nv_bfloat16 b) { return a = a + b; }
inline __nv_bfloat16 &operator*=(__nv_bfloat16 &a, __nv_bfloat16 b) { return a = a * b; }
inline bool operator==(__nv_bfloat16 a, __nv_bfloat16 b) { return (float)a == (float)b; }
inline bool operator!=(__nv_bfloat16 a, __nv_bfloat16 b) { return (float)a != (float)b; }
inline bool operator<(__nv_bfloat16 a, __nv_bfloat16 b) { return (float)a < (float)b; }
inline bool operator>(__nv_bfloat16 a, __nv_bfloat16 b) { return (float)a > (float)b; }
inline bool operator<=(__nv_bfloat16 a, __nv_bfloat16 b) { return (float)a <= (float)b; }
inline bool operator>=(__nv_bfloat16 a, __nv_bfloat16 b) { return (float)a >= (float)b; }

inline __nv_bfloat16 __hadd(__nv_bfloat16 a, __nv_bfloat16 b) { return a + b; }
inline __nv_bfloat16 __hsub(__nv_bfloat16 a, __nv_bfloat16 b) { return a - b; }
inline __nv_bfloat16 __hmul(__nv_bfloat16 a, __nv_bfloat16 b) { return a * b; }
inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) { return __nv_bfloat16(fmaf((float)a, (float)b, (float)c)); }
inline __nv_bfloat16 __hmax(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(fmaxf((float)a, (float)b)); }
inline __nv_bfloat16 __hmin(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat16(fminf((float)a, (float)b)); }
inline __nv_bfloat16 __habs(__nv_bfloat16 a) { return __nv_bfloat16(fabsf((float)a)); }
inline __nv_bfloat16 __hneg(__nv_bfloat16 a) { return -a; }
inline bool __hisnan(__nv_bfloat16 a) { return std::isnan((float)a); }
inline bool __hgt(__nv_bfloat16 a, __nv_bfloat16 b) { return a > b; }
inline bool __hlt(__nv_bfloat16 a, __nv_bfloat16 b) { return a < b; }
inline bool __heq(__nv_bfloat16 a, __nv_bfloat16 b) { return a == b; }
inline __nv_bfloat162 __hadd2(__nv_bfloat162 a, __nv_bfloat162 b) { return { a.x + b.x, a.y + b.y }; }
inline __nv_bfloat162 __hsub2(__nv_bfloat162 a, __nv_bfloat162 b) { return { a.x - b.x, a.y - b.y }; }
inline __nv_bfloat162 __hmul2(__nv_bfloat162 a, __nv_bfloat162 b) { return { a.x * b.x, a.y * b.y }; }
inline __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) { return { __hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y) }; }
inline __nv_bfloat162 __hmax2(__nv_bfloat162 a, __nv_bfloat162 b) { return { __hmax(a.x, b.x), __hmax(a.y, b.y) }; }
inline float __low2float(__nv_bfloat162 pair) { return (float)pair.x; }
inline float __high2float(__nv_bfloat162 pair) { return (float)pair.y; }
inline __nv_bfloat16 __low2bfloat16(__nv_bfloat162 pair) { return pair.x; }
inline __nv_bfloat16 __high2bfloat16(__nv_bfloat162 pair) { return pair.y; }

using nv_bfloat16  = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

inline float          __bfloat162float(__nv_bfloat16 value) { return (float)value; }
inline __nv_bfloat16  __float2bfloat16(float value) { return __nv_bfloat16(value); }
inline __nv_bfloat16  __float2bfloat16_rn(float value) { return __nv_bfloat16(value); }
inline __nv_bfloat16  __double2bfloat16(double value) { return __nv_bfloat16((float)value); }
inline __nv_bfloat162 __float2bfloat162_rn(float both) { return { __nv_bfloat16(both), __nv_bfloat16(both) }; }
inline __nv_bfloat162 __floats2bfloat162_rn(float low, float high)
{
    return { __nv_bfloat16(low), __nv_bfloat16(high) };
}
inline __nv_bfloat162 __float22bfloat162_rn(float2 pair) { return __floats2bfloat162_rn(pair.x, pair.y); }
inline float2         __bfloat1622float2(__nv_bfloat162 pair) { return { (float)pair.x, (float)pair.y }; }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) { return { low, high }; }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 both) { return { both, both }; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) { return value.bits; }
inline short          __bfloat16_as_short(__nv_bfloat16 value) { return (short)value.bits; }
inline __nv_bfloat16  __ushort_as_bfloat16(unsigned short bits) { return __nv_bfloat16(__nv_bfloat16_raw{ bits }); }
#endif
#endif
