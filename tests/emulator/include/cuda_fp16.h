/* cuda_fp16.h - of the emulator: fp16 and its pair, rounding to nearest even as base/half.h does. */
#ifndef CS_EMULATOR_FP16_H
#define CS_EMULATOR_FP16_H

#include "cuda_runtime.h"

#ifdef __cplusplus
#include "base/half.h"

struct __half_raw {
    unsigned short x;
};

struct __half {
    unsigned short bits;

    __half() = default;
    __half(__half_raw raw) : bits(raw.x) {}
    __half(float value) : bits(cs_float_to_f16(value)) {}
    __half(double value) : bits(cs_float_to_f16((float)value)) {}
    __half(int value) : bits(cs_float_to_f16((float)value)) {}
    operator float() const { return cs_f16_to_float(bits); }
    operator __half_raw() const { return { bits }; }
};

struct __attribute__((aligned(4))) __half2 {
    __half x, y;

    __half2() = default;
    __half2(__half low, __half high) : x(low), y(high) {}
};

inline __half operator+(__half a, __half b) { return __half((float)a + (float)b); }
inline __half operator-(__half a, __half b) { return __half((float)a - (float)b); }
inline __half operator*(__half a, __half b) { return __half((float)a * (float)b); }
inline __half operator/(__half a, __half b) { return __half((float)a / (float)b); }
inline __half operator-(__half a) { return __half(-(float)a); }
inline __half &operator+=(__half &a, __half b) { return a = a + b; }
inline __half &operator*=(__half &a, __half b) { return a = a * b; }
inline bool operator==(__half a, __half b) { return (float)a == (float)b; }
inline bool operator!=(__half a, __half b) { return (float)a != (float)b; }
inline bool operator<(__half a, __half b) { return (float)a < (float)b; }
inline bool operator>(__half a, __half b) { return (float)a > (float)b; }
inline bool operator<=(__half a, __half b) { return (float)a <= (float)b; }
inline bool operator>=(__half a, __half b) { return (float)a >= (float)b; }

inline __half __hadd(__half a, __half b) { return a + b; }
inline __half __hsub(__half a, __half b) { return a - b; }
inline __half __hmul(__half a, __half b) { return a * b; }
inline __half __hfma(__half a, __half b, __half c) { return __half(fmaf((float)a, (float)b, (float)c)); }
inline __half __hmax(__half a, __half b) { return __half(fmaxf((float)a, (float)b)); }
inline __half __hmin(__half a, __half b) { return __half(fminf((float)a, (float)b)); }
inline __half __habs(__half a) { return __half(fabsf((float)a)); }
inline __half __hneg(__half a) { return -a; }
inline bool __hisnan(__half a) { return std::isnan((float)a); }
inline bool __hgt(__half a, __half b) { return a > b; }
inline bool __hlt(__half a, __half b) { return a < b; }
inline bool __heq(__half a, __half b) { return a == b; }
inline __half2 __hadd2(__half2 a, __half2 b) { return { a.x + b.x, a.y + b.y }; }
inline __half2 __hsub2(__half2 a, __half2 b) { return { a.x - b.x, a.y - b.y }; }
inline __half2 __hmul2(__half2 a, __half2 b) { return { a.x * b.x, a.y * b.y }; }
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) { return { __hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y) }; }
inline __half2 __hmax2(__half2 a, __half2 b) { return { __hmax(a.x, b.x), __hmax(a.y, b.y) }; }
inline float __low2float(__half2 pair) { return (float)pair.x; }
inline float __high2float(__half2 pair) { return (float)pair.y; }
inline __half __low2half(__half2 pair) { return pair.x; }
inline __half __high2half(__half2 pair) { return pair.y; }

using half  = __half;
using half2 = __half2;

inline float          __half2float(__half value) { return (float)value; }
inline __half         __float2half(float value) { return __half(value); }
inline __half         __float2half_rn(float value) { return __half(value); }
inline __half         __double2half(double value) { return __half((float)value); }
inline __half2        __float2half2_rn(float both) { return { __half(both), __half(both) }; }
inline __half2        __floats2half2_rn(float low, float high) { return { __half(low), __half(high) }; }
inline __half2        __float22half2_rn(float2 pair) { return __floats2half2_rn(pair.x, pair.y); }
inline float2         __half22float2(__half2 pair) { return { (float)pair.x, (float)pair.y }; }
inline __half2        __halves2half2(__half low, __half high) { return { low, high }; }
inline __half2        __half2half2(__half both) { return { both, both }; }
inline unsigned short __half_as_ushort(__half value) { return value.bits; }
inline short          __half_as_short(__half value) { return (short)value.bits; }
inline __half         __ushort_as_half(unsigned short bits) { return __half(__half_raw{ bits }); }
#endif
#endif
