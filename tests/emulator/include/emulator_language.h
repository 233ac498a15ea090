/* emulator_language.h - the CUDA language extensions that kernels use: qualifiers, thread indices, synchronization of
 * blocks and warps, atomics, intrinsics.
 *
 * A thread runs until it must wait for others. Only one thread runs at a time, so atomics are plain operations. */
#ifndef CS_EMULATOR_LANGUAGE_H
#define CS_EMULATOR_LANGUAGE_H

#include <cmath>
#include <cstring>
#include <type_traits>

#include "emulator_types.h"

#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))

/* The running thread. */
struct emulator_thread {
    uint3 index;
    unsigned number; /* index in its block */
};
extern emulator_thread *emulator_self;
extern uint3 blockIdx;
extern dim3 blockDim, gridDim;
#define threadIdx (emulator_self->index)
constexpr int warpSize = 32;

unsigned char *ce_shared_memory(); /* the block's dynamic shared memory */

/* ---- hooks of the instrumented module (tests/emulator/shadow.h) ---- */

enum emulator_access { EMULATOR_READ, EMULATOR_WRITE, EMULATOR_ATOMIC };

/* Notes that the running thread accesses this memory. */
void emulator_saw(const void *memory, size_t bytes, emulator_access access);

/* Attribute of the emulator's own functions. Their memory accesses are not instrumented. */
#define CS_EMULATOR_UNSEEN __attribute__((no_sanitize("thread")))

/* ---- synchronization ---- */

/* Waits for all threads of the block; returns the sum of their arguments. */
unsigned emulator_exchange_block(unsigned brought, const char *file, int line);

/* Waits for all lanes of the warp; returns the data of the lanes, EMULATOR_SLOT bytes apart, valid until this lane's
 * next warp-wide call. */
enum { EMULATOR_SLOT = 64 };
const unsigned char *emulator_exchange_warp(const char *what, unsigned mask, const void *brought, size_t bytes,
                                            const char *file, int line);

#define CS_EMULATOR_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(CS_EMULATOR_HERE)
{
    emulator_exchange_block(0, file, line);
}

inline int __syncthreads_count(int predicate, CS_EMULATOR_HERE)
{
    return (int)emulator_exchange_block(predicate != 0, file, line);
}

inline int __syncthreads_or(int predicate, CS_EMULATOR_HERE)
{
    return emulator_exchange_block(predicate != 0, file, line) != 0;
}

inline int __syncthreads_and(int predicate, CS_EMULATOR_HERE)
{
    return emulator_exchange_block(predicate == 0, file, line) == 0;
}

inline void __syncwarp(unsigned mask = 0xffffffffu, CS_EMULATOR_HERE)
{
    emulator_exchange_warp("__syncwarp", mask, nullptr, 0, file, line);
}

inline unsigned emulator_lane()
{
    return emulator_self->number % 32;
}

template <typename T>
CS_EMULATOR_UNSEEN T emulator_take(const char *what, unsigned mask, T value, unsigned lane, bool valid,
                                   const char *file, int line)
{
    static_assert(sizeof(T) <= EMULATOR_SLOT && std::is_trivially_copyable_v<T>, "a lane's value is small and plain");
    const unsigned char *slots = emulator_exchange_warp(what, mask, &value, sizeof value, file, line);
    T taken = value;
    if (valid)
        memcpy((void *)&taken, slots + (size_t)lane * EMULATOR_SLOT, sizeof taken);
    return taken;
}

template <typename T> T __shfl_sync(unsigned mask, T value, int lane, int width = 32, CS_EMULATOR_HERE)
{
    unsigned first = emulator_lane() & ~(unsigned)(width - 1);
    return emulator_take("__shfl_sync", mask, value, first + ((unsigned)lane & (unsigned)(width - 1)), true, file,
                         line);
}

template <typename T> T __shfl_xor_sync(unsigned mask, T value, int apart, int width = 32, CS_EMULATOR_HERE)
{
    unsigned from = emulator_lane() ^ (unsigned)apart;
    bool mine = from < (emulator_lane() & ~(unsigned)(width - 1)) + (unsigned)width;
    return emulator_take("__shfl_xor_sync", mask, value, from, mine, file, line);
}

template <typename T> T __shfl_up_sync(unsigned mask, T value, unsigned apart, int width = 32, CS_EMULATOR_HERE)
{
    unsigned inside = emulator_lane() & (unsigned)(width - 1);
    return emulator_take("__shfl_up_sync", mask, value, emulator_lane() - apart, inside >= apart, file, line);
}

template <typename T> T __shfl_down_sync(unsigned mask, T value, unsigned apart, int width = 32, CS_EMULATOR_HERE)
{
    unsigned inside = emulator_lane() & (unsigned)(width - 1);
    return emulator_take("__shfl_down_sync", mask, value, emulator_lane() + apart, inside + apart < (unsigned)width,
                         file, line);
}

CS_EMULATOR_UNSEEN inline unsigned __ballot_sync(unsigned mask, int predicate, CS_EMULATOR_HERE)
{
    unsigned char mine = predicate != 0;
    const unsigned char *slots = emulator_exchange_warp("__ballot_sync", mask, &mine, 1, file, line);
    unsigned bits = 0;
    for (unsigned lane = 0; lane < 32; lane++)
        bits |= (unsigned)slots[lane * EMULATOR_SLOT] << lane;
    return bits;
}

inline int __any_sync(unsigned mask, int predicate, CS_EMULATOR_HERE)
{
    return __ballot_sync(mask, predicate, file, line) != 0;
}

inline int __all_sync(unsigned mask, int predicate, CS_EMULATOR_HERE)
{
    return __ballot_sync(mask, predicate, file, line) == 0xffffffffu;
}

template <typename T> unsigned __match_any_sync(unsigned mask, T value, CS_EMULATOR_HERE)
{
    const unsigned char *slots = emulator_exchange_warp("__match_any_sync", mask, &value, sizeof value, file, line);
    unsigned bits = 0;
    for (unsigned lane = 0; lane < 32; lane++)
        bits |= (unsigned)(memcmp(slots + lane * EMULATOR_SLOT, &value, sizeof value) == 0) << lane;
    return bits;
}

template <typename T, typename Join>
CS_EMULATOR_UNSEEN T emulator_reduce(const char *what, unsigned mask, T value, Join join, const char *file, int line)
{
    const unsigned char *slots = emulator_exchange_warp(what, mask, &value, sizeof value, file, line);
    T all = 0, one;
    for (unsigned lane = 0; lane < 32; lane++) {
        memcpy(&one, slots + lane * EMULATOR_SLOT, sizeof one);
        all = lane ? join(all, one) : one;
    }
    return all;
}

template <typename T> T __reduce_add_sync(unsigned mask, T value, CS_EMULATOR_HERE)
{
    return emulator_reduce(
        "__reduce_add_sync", mask, value, [](T a, T b) { return (T)(a + b); }, file, line);
}

template <typename T> T __reduce_max_sync(unsigned mask, T value, CS_EMULATOR_HERE)
{
    return emulator_reduce(
        "__reduce_max_sync", mask, value, [](T a, T b) { return a > b ? a : b; }, file, line);
}

template <typename T> T __reduce_min_sync(unsigned mask, T value, CS_EMULATOR_HERE)
{
    return emulator_reduce(
        "__reduce_min_sync", mask, value, [](T a, T b) { return a < b ? a : b; }, file, line);
}

[[noreturn]] void emulator_trap(const char *file, int line);

inline void __trap(CS_EMULATOR_HERE)
{
    emulator_trap(file, line);
}

inline void __threadfence()
{
}
inline void __threadfence_block()
{
}
inline void __threadfence_system()
{
}
inline void __nanosleep(unsigned)
{
}
long long clock64();

/* ---- atomics ---- */

#define CS_EMULATOR_ATOMIC(name, type, expression)                                                                     \
    CS_EMULATOR_UNSEEN inline type name(type *at, type value)                                                          \
    {                                                                                                                  \
        emulator_saw(at, sizeof *at, EMULATOR_ATOMIC);                                                                 \
        type old = *at;                                                                                                \
        *at = (type)(expression);                                                                                      \
        return old;                                                                                                    \
    }
#define CS_EMULATOR_ATOMICS(type)                                                                                      \
    CS_EMULATOR_ATOMIC(atomicAdd, type, old + value)                                                                   \
    CS_EMULATOR_ATOMIC(atomicMax, type, old > value ? old : value)                                                     \
    CS_EMULATOR_ATOMIC(atomicMin, type, old < value ? old : value)                                                     \
    CS_EMULATOR_ATOMIC(atomicAnd, type, old &value)                                                                    \
    CS_EMULATOR_ATOMIC(atomicOr, type, old | value)                                                                    \
    CS_EMULATOR_ATOMIC(atomicXor, type, old ^ value)                                                                   \
    CS_EMULATOR_ATOMIC(atomicExch, type, value)                                                                        \
    CS_EMULATOR_UNSEEN inline type atomicCAS(type *at, type expected, type value)                                      \
    {                                                                                                                  \
        emulator_saw(at, sizeof *at, EMULATOR_ATOMIC);                                                                 \
        type old = *at;                                                                                                \
        if (old == expected)                                                                                           \
            *at = value;                                                                                               \
        return old;                                                                                                    \
    }
CS_EMULATOR_ATOMICS(int)
CS_EMULATOR_ATOMICS(unsigned)
CS_EMULATOR_ATOMICS(unsigned long long)
CS_EMULATOR_ATOMIC(atomicSub, int, old - value)
CS_EMULATOR_ATOMIC(atomicSub, unsigned, old - value)
CS_EMULATOR_ATOMIC(atomicInc, unsigned, old >= value ? 0 : old + 1)
CS_EMULATOR_ATOMIC(atomicAdd, float, old + value)
CS_EMULATOR_ATOMIC(atomicAdd, double, old + value)
CS_EMULATOR_ATOMIC(atomicExch, float, value)

/* ---- bits ---- */

template <typename To, typename From> To emulator_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

inline unsigned __float_as_uint(float x)
{
    return emulator_bits<unsigned>(x);
}
inline int __float_as_int(float x)
{
    return emulator_bits<int>(x);
}
inline float __uint_as_float(unsigned x)
{
    return emulator_bits<float>(x);
}
inline float __int_as_float(int x)
{
    return emulator_bits<float>(x);
}
inline long long __double_as_longlong(double x)
{
    return emulator_bits<long long>(x);
}
inline double __longlong_as_double(long long x)
{
    return emulator_bits<double>(x);
}
inline int __double2hiint(double x)
{
    return (int)(__double_as_longlong(x) >> 32);
}
inline int __double2loint(double x)
{
    return (int)__double_as_longlong(x);
}
inline double __hiloint2double(int high, int low)
{
    return __longlong_as_double((long long)((unsigned long long)(unsigned)high << 32 | (unsigned)low));
}
inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
inline int __popcll(unsigned long long x)
{
    return __builtin_popcountll(x);
}
inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
inline int __clzll(long long x)
{
    return x ? __builtin_clzll((unsigned long long)x) : 64;
}
inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
inline int __ffsll(long long x)
{
    return __builtin_ffsll(x);
}
inline unsigned __brev(unsigned x)
{
    unsigned reversed = 0;
    for (int i = 0; i < 32; i++)
        reversed |= (x >> i & 1u) << (31 - i);
    return reversed;
}
inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((unsigned long long)a * b >> 32);
}
inline int __mulhi(int a, int b)
{
    return (int)((long long)a * b >> 32);
}
__extension__ typedef unsigned __int128 emulator_wide;
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    return (unsigned long long)((emulator_wide)a * b >> 64);
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift)
{
    return (unsigned)(((unsigned long long)high << 32 | low) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift)
{
    return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector)
{
    unsigned long long both = (unsigned long long)y << 32 | x;
    unsigned out = 0;
    for (unsigned i = 0; i < 4; i++)
        out |= (unsigned)(both >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
    return out;
}

/* ---- arithmetic: functions that end in _rn are not fused into multiply-adds ---- */

template <typename T> T emulator_alone(T x)
{
    asm volatile("" : "+m"(x));
    return x;
}

inline float __fadd_rn(float a, float b)
{
    return emulator_alone(a + b);
}
inline float __fsub_rn(float a, float b)
{
    return emulator_alone(a - b);
}
inline float __fmul_rn(float a, float b)
{
    return emulator_alone(a * b);
}
inline float __fdiv_rn(float a, float b)
{
    return emulator_alone(a / b);
}
inline float __fmaf_rn(float a, float b, float c)
{
    return fmaf(a, b, c);
}
inline float __frcp_rn(float a)
{
    return 1.0f / a;
}
inline float __fsqrt_rn(float a)
{
    return sqrtf(a);
}
inline float __frsqrt_rn(float a)
{
    return (float)(1.0 / std::sqrt((double)a));
}
inline double __dadd_rn(double a, double b)
{
    return emulator_alone(a + b);
}
inline double __dsub_rn(double a, double b)
{
    return emulator_alone(a - b);
}
inline double __dmul_rn(double a, double b)
{
    return emulator_alone(a * b);
}
inline double __ddiv_rn(double a, double b)
{
    return emulator_alone(a / b);
}
inline double __dsqrt_rn(double a)
{
    return std::sqrt(a);
}
inline double __fma_rn(double a, double b, double c)
{
    return fma(a, b, c);
}
inline float rsqrtf(float x)
{
    return 1.0f / sqrtf(x);
}
inline double rsqrt(double x)
{
    return 1.0 / std::sqrt(x);
}
inline float __expf(float x)
{
    return expf(x);
}
inline float __exp10f(float x)
{
    return powf(10, x);
}
inline float __logf(float x)
{
    return logf(x);
}
inline float __log2f(float x)
{
    return log2f(x);
}
inline float __log10f(float x)
{
    return log10f(x);
}
inline float __powf(float x, float y)
{
    return powf(x, y);
}
inline float __sinf(float x)
{
    return sinf(x);
}
inline float __cosf(float x)
{
    return cosf(x);
}
inline void __sincosf(float x, float *s, float *c)
{
    *s = sinf(x), *c = cosf(x);
}
inline float __fdividef(float a, float b)
{
    return a / b;
}
inline float __saturatef(float x)
{
    return x > 0 ? (x < 1 ? x : 1) : 0;
}
inline float fdividef(float a, float b)
{
    return a / b;
}
inline float sinpif(float x)
{
    return (float)std::sin(3.14159265358979323846 * (double)x);
}
inline float cospif(float x)
{
    return (float)std::cos(3.14159265358979323846 * (double)x);
}
inline void sincospif(float x, float *s, float *c)
{
    *s = sinpif(x), *c = cospif(x);
}

inline int __float2int_rn(float x)
{
    return (int)nearbyintf(x);
}
inline int __float2int_rz(float x)
{
    return (int)x;
}
inline int __float2int_rd(float x)
{
    return (int)floorf(x);
}
inline int __float2int_ru(float x)
{
    return (int)ceilf(x);
}
inline unsigned __float2uint_rn(float x)
{
    return (unsigned)nearbyintf(x);
}
inline long long __float2ll_rn(float x)
{
    return (long long)nearbyintf(x);
}
inline long long __double2ll_rn(double x)
{
    return (long long)std::nearbyint(x);
}
inline long long __double2ll_rz(double x)
{
    return (long long)x;
}
inline int __double2int_rn(double x)
{
    return (int)std::nearbyint(x);
}
inline float __double2float_rn(double x)
{
    return (float)x;
}
inline float __int2float_rn(int x)
{
    return (float)x;
}
inline float __uint2float_rn(unsigned x)
{
    return (float)x;
}
inline float __ll2float_rn(long long x)
{
    return (float)x;
}
inline double __ll2double_rn(long long x)
{
    return (double)x;
}
inline float __ull2float_rn(unsigned long long x)
{
    return (float)x;
}
inline double __ull2double_rn(unsigned long long x)
{
    return (double)x;
}

#define CS_EMULATOR_LESSER(type)                                                                                       \
    inline type min(type a, type b)                                                                                    \
    {                                                                                                                  \
        return b < a ? b : a;                                                                                          \
    }                                                                                                                  \
    inline type max(type a, type b)                                                                                    \
    {                                                                                                                  \
        return a < b ? b : a;                                                                                          \
    }
CS_EMULATOR_LESSER(int)
CS_EMULATOR_LESSER(unsigned)
CS_EMULATOR_LESSER(long)
CS_EMULATOR_LESSER(unsigned long)
CS_EMULATOR_LESSER(long long)
CS_EMULATOR_LESSER(unsigned long long)
inline float min(float a, float b)
{
    return fminf(a, b);
}
inline float max(float a, float b)
{
    return fmaxf(a, b);
}
inline double min(double a, double b)
{
    return fmin(a, b);
}
inline double max(double a, double b)
{
    return fmax(a, b);
}

/* ---- loads and stores with a hint for the caches ---- */

template <typename T> T __ldg(const T *at)
{
    return *at;
}
template <typename T> T __ldcs(const T *at)
{
    return *at;
}
template <typename T> T __ldcg(const T *at)
{
    return *at;
}
template <typename T> T __ldca(const T *at)
{
    return *at;
}
template <typename T> T __ldlu(const T *at)
{
    return *at;
}
template <typename T> void __stcs(T *at, T value)
{
    *at = value;
}
template <typename T> void __stcg(T *at, T value)
{
    *at = value;
}
template <typename T> void __stwb(T *at, T value)
{
    *at = value;
}
template <typename T> void __stwt(T *at, T value)
{
    *at = value;
}

#endif
