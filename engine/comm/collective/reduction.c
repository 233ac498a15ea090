/* reduction.c - the reduction kernels: sum, average, product, minimum and maximum over the ranks' vectors in tree
 * order, eight floats at a time.
 *
 * The macro KERNEL makes a kernel from a vector type and four macros, which load, store, combine and finish a vector.
 * On x86-64 each kernel is compiled twice: for any CPU, and for CPUs with AVX2. The last vector may be shorter; it is
 * padded and computed with the same instructions. */
#include "comm/collective/reduction.h"

#include "base/half.h"

#include <string.h>

typedef float f32 __attribute__((vector_size(32)));
typedef uint32_t u32 __attribute__((vector_size(32)));
typedef int32_t i32 __attribute__((vector_size(32)));
typedef uint64_t u64 __attribute__((vector_size(32)));
typedef int64_t i64 __attribute__((vector_size(32)));
typedef uint8_t u8 __attribute__((vector_size(32)));
typedef uint16_t u16 __attribute__((vector_size(16)));

enum { STACK_DEPTH = 32 }; /* log2 of the maximum number of ranks, plus 1 */

#define INLINE static inline __attribute__((always_inline))

#if defined(__x86_64__)
#define FOR_AVX2 __attribute__((target("avx2")))
#define HAS_AVX2 __builtin_cpu_supports("avx2")
#else
#define FOR_AVX2
#define HAS_AVX2 false
#endif

/* Vectors are passed by pointer. If they were passed by value, the calling convention would depend on the instruction
 * set. */
INLINE void pick(u32 *value, const i32 *mask, const u32 *yes, const u32 *no)
{
    *value = ((u32)*mask & *yes) | (~(u32)*mask & *no);
}

INLINE void load_bf16(f32 *value, const void *from)
{
    u16 half;
    memcpy(&half, from, sizeof half);
    *value = (f32)(__builtin_convertvector(half, u32) << 16);
}

INLINE void store_bf16(void *to, const f32 *value)
{
    u32 bits = (u32)*value;
    u32 quiet = (bits >> 16) | 0x40;
    u32 round = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    i32 nan = (i32)((bits & 0x7fffffff) > 0x7f800000);
    pick(&round, &nan, &quiet, &round);
    u16 half = __builtin_convertvector(round & 0xffff, u16);
    memcpy(to, &half, sizeof half);
}

INLINE void load_f16(f32 *value, const void *from)
{
    u16 half;
    memcpy(&half, from, sizeof half);
    u32 wide = __builtin_convertvector(half, u32);
    u32 rest = wide & 0x7fff;
    u32 normal = (rest << 13) + 0x38000000;
    u32 endless = 0x7f800000 | (rest & 0x3ff) << 13; /* the fp32 form of an infinity or a NaN */
    u32 small = (u32)(__builtin_convertvector((i32)rest, f32) * 0x1p-24f);
    i32 is_endless = (i32)(rest >= 0x7c00), is_small = (i32)(rest < 0x400);
    pick(&normal, &is_endless, &endless, &normal);
    pick(&normal, &is_small, &small, &normal);
    *value = (f32)(normal | (wide & 0x8000) << 16);
}

INLINE void store_f16(void *to, const f32 *value)
{
    u32 bits = (u32)*value;
    u32 rest = bits & 0x7fffffff;
    u32 result = (rest - 0x38000000 + 0xfff + (rest >> 13 & 1)) >> 13;
    /* For a value below 2^-14: adding 0.5 rounds it to a multiple of 2^-24 and leaves this multiple in the low bits. */
    u32 small = (u32)((f32)rest + 0.5f) - 0x3f000000;
    u32 endless = rest * 0 + 0x7c00, quiet = rest * 0 + 0x7e00;
    i32 is_small = (i32)(rest < 0x38800000), is_endless = (i32)(rest >= 0x477ff000), is_nan = (i32)(rest > 0x7f800000);
    pick(&result, &is_small, &small, &result);
    pick(&result, &is_endless, &endless, &result);
    pick(&result, &is_nan, &quiet, &result);
    u16 half = __builtin_convertvector((result | (bits >> 16 & 0x8000)) & 0xffff, u16);
    memcpy(to, &half, sizeof half);
}

#define LOAD_PLAIN(value, from) memcpy(value, from, sizeof *(value))
#define STORE_PLAIN(to, value) memcpy(to, value, sizeof *(value))

#define ADD(sum, a, b) ((sum) = (a) + (b))
#define MULTIPLY(sum, a, b) ((sum) = (a) * (b))
#define CHOOSE(sum, a, b, mask)                                                                                        \
    ((sum) = (__typeof__(sum))(((mask) & (__typeof__(mask))(a)) | (~(mask) & (__typeof__(mask))(b))))
#define MINIMUM(sum, a, b) CHOOSE(sum, a, b, ((a) < (b)))
#define MAXIMUM(sum, a, b) CHOOSE(sum, a, b, ((a) > (b)))
/* The test (a != a) chooses `a` if it is NaN. If `b` is NaN, all comparisons are false, so `b` is chosen. */
#define FLOAT_MIN(sum, a, b) CHOOSE(sum, a, b, (((a) < (b)) | ((a) != (a))))
#define FLOAT_MAX(sum, a, b) CHOOSE(sum, a, b, (((a) > (b)) | ((a) != (a))))

/* The last operation on the result of all ranks: LEAVE changes nothing, DIVIDE divides by the number of ranks. */
#define LEAVE(value, ranks) (void)(ranks)
#define DIVIDE(value, ranks) (*(value) = *(value) / (float)(ranks))
#define DIVIDE_U8(value, ranks)                                                                                        \
    do {                                                                                                               \
        for (int e = 0; e < (int)sizeof *(value); e++)                                                                 \
            (*(value))[e] = (uint8_t)((*(value))[e] / (unsigned)(ranks));                                              \
    } while (0)
#define DIVIDE_I32(value, ranks) (*(value) = (u32)((i32) * (value) / (int32_t)(ranks)))
#define DIVIDE_I64(value, ranks) (*(value) = (u64)((i64) * (value) / (int64_t)(ranks)))

/* In a kernel, NAME_fetch loads a vector of which only `bytes` bytes exist, NAME_tree reduces one vector of each rank,
 * and NAME_body is the loop over vectors. */
#define KERNEL(NAME, VECTOR, BYTES, LOAD, STORE, COMBINE, FINISH)                                                      \
    INLINE void NAME##_fetch(VECTOR *value, const void *from, size_t bytes)                                            \
    {                                                                                                                  \
        char padded[BYTES] = { 0 };                                                                                    \
        if (bytes < (BYTES))                                                                                           \
            memcpy(padded, from, bytes);                                                                               \
        LOAD(value, bytes < (BYTES) ? (const void *)padded : from);                                                    \
    }                                                                                                                  \
    INLINE void NAME##_tree(void *const *out, int outs, const void *const *in, int ranks, size_t at, size_t bytes)     \
    {                                                                                                                  \
        VECTOR stack[STACK_DEPTH];                                                                                     \
        int depth = 0;                                                                                                 \
        if (ranks < 1)                                                                                                 \
            __builtin_unreachable();                                                                                   \
        if (ranks == 2 || ranks == 4) {                                                                                \
            for (int r = 0; r < ranks; r++)                                                                            \
                NAME##_fetch(&stack[r], (const char *)in[r] + at, bytes);                                              \
            COMBINE(stack[0], stack[0], stack[1]);                                                                     \
            if (ranks == 4) {                                                                                          \
                COMBINE(stack[2], stack[2], stack[3]);                                                                 \
                COMBINE(stack[0], stack[0], stack[2]);                                                                 \
            }                                                                                                          \
        } else {                                                                                                       \
            for (int r = 0; r < ranks; r++) {                                                                          \
                NAME##_fetch(&stack[depth++], (const char *)in[r] + at, bytes);                                        \
                for (int n = r + 1; n % 2 == 0; n /= 2, depth--)                                                       \
                    COMBINE(stack[depth - 2], stack[depth - 2], stack[depth - 1]);                                     \
            }                                                                                                          \
            for (; depth > 1; depth--)                                                                                 \
                COMBINE(stack[depth - 2], stack[depth - 2], stack[depth - 1]);                                         \
        }                                                                                                              \
        FINISH(&stack[0], ranks);                                                                                      \
        char result[BYTES];                                                                                            \
        if (bytes < (BYTES))                                                                                           \
            STORE(result, &stack[0]);                                                                                  \
        for (int o = 0; o < outs; o++) {                                                                               \
            if (bytes < (BYTES))                                                                                       \
                memcpy((char *)out[o] + at, result, bytes);                                                            \
            else                                                                                                       \
                STORE((char *)out[o] + at, &stack[0]);                                                                 \
        }                                                                                                              \
    }                                                                                                                  \
    INLINE void NAME##_body(void *const *out, int outs, const void *const *in, int ranks, size_t bytes)                \
    {                                                                                                                  \
        size_t at = 0;                                                                                                 \
        for (; at + (BYTES) <= bytes; at += (BYTES))                                                                   \
            NAME##_tree(out, outs, in, ranks, at, BYTES);                                                              \
        if (at < bytes)                                                                                                \
            NAME##_tree(out, outs, in, ranks, at, bytes - at);                                                         \
    }                                                                                                                  \
    INLINE void NAME##_any(void *const *out, int outs, const void *const *in, int ranks, size_t bytes)                 \
    {                                                                                                                  \
        if (ranks == 2 && outs == 1)                                                                                   \
            NAME##_body(out, 1, (const void *[]){ in[0], in[1] }, 2, bytes);                                           \
        else if (ranks == 2 && outs == 2)                                                                              \
            NAME##_body((void *[]){ out[0], out[1] }, 2, (const void *[]){ in[0], in[1] }, 2, bytes);                  \
        else if (ranks == 4 && outs == 1)                                                                              \
            NAME##_body(out, 1, (const void *[]){ in[0], in[1], in[2], in[3] }, 4, bytes);                             \
        else if (ranks == 4 && outs == 4)                                                                              \
            NAME##_body((void *[]){ out[0], out[1], out[2], out[3] }, 4,                                               \
                        (const void *[]){ in[0], in[1], in[2], in[3] }, 4, bytes);                                     \
        else                                                                                                           \
            NAME##_body(out, outs, in, ranks, bytes);                                                                  \
    }                                                                                                                  \
    static void NAME##_plain(void *const *out, int outs, const void *const *in, int ranks, size_t bytes)               \
    {                                                                                                                  \
        NAME##_any(out, outs, in, ranks, bytes);                                                                       \
    }                                                                                                                  \
    FOR_AVX2 static void NAME##_avx2(void *const *out, int outs, const void *const *in, int ranks, size_t bytes)       \
    {                                                                                                                  \
        NAME##_any(out, outs, in, ranks, bytes);                                                                       \
    }

KERNEL(f32_sum, f32, 32, LOAD_PLAIN, STORE_PLAIN, ADD, LEAVE)
KERNEL(f32_min, f32, 32, LOAD_PLAIN, STORE_PLAIN, FLOAT_MIN, LEAVE)
KERNEL(f32_max, f32, 32, LOAD_PLAIN, STORE_PLAIN, FLOAT_MAX, LEAVE)
KERNEL(f32_avg, f32, 32, LOAD_PLAIN, STORE_PLAIN, ADD, DIVIDE)
KERNEL(f32_prod, f32, 32, LOAD_PLAIN, STORE_PLAIN, MULTIPLY, LEAVE)
KERNEL(bf16_sum, f32, 16, load_bf16, store_bf16, ADD, LEAVE)
KERNEL(bf16_min, f32, 16, load_bf16, store_bf16, FLOAT_MIN, LEAVE)
KERNEL(bf16_max, f32, 16, load_bf16, store_bf16, FLOAT_MAX, LEAVE)
KERNEL(bf16_avg, f32, 16, load_bf16, store_bf16, ADD, DIVIDE)
KERNEL(bf16_prod, f32, 16, load_bf16, store_bf16, MULTIPLY, LEAVE)
KERNEL(f16_sum, f32, 16, load_f16, store_f16, ADD, LEAVE)
KERNEL(f16_min, f32, 16, load_f16, store_f16, FLOAT_MIN, LEAVE)
KERNEL(f16_max, f32, 16, load_f16, store_f16, FLOAT_MAX, LEAVE)
KERNEL(f16_avg, f32, 16, load_f16, store_f16, ADD, DIVIDE)
KERNEL(f16_prod, f32, 16, load_f16, store_f16, MULTIPLY, LEAVE)
KERNEL(i32_sum, u32, 32, LOAD_PLAIN, STORE_PLAIN, ADD, LEAVE)
KERNEL(i32_min, i32, 32, LOAD_PLAIN, STORE_PLAIN, MINIMUM, LEAVE)
KERNEL(i32_max, i32, 32, LOAD_PLAIN, STORE_PLAIN, MAXIMUM, LEAVE)
KERNEL(i32_avg, u32, 32, LOAD_PLAIN, STORE_PLAIN, ADD, DIVIDE_I32)
KERNEL(i32_prod, u32, 32, LOAD_PLAIN, STORE_PLAIN, MULTIPLY, LEAVE)
KERNEL(i64_sum, u64, 32, LOAD_PLAIN, STORE_PLAIN, ADD, LEAVE)
KERNEL(i64_min, i64, 32, LOAD_PLAIN, STORE_PLAIN, MINIMUM, LEAVE)
KERNEL(i64_max, i64, 32, LOAD_PLAIN, STORE_PLAIN, MAXIMUM, LEAVE)
KERNEL(i64_avg, u64, 32, LOAD_PLAIN, STORE_PLAIN, ADD, DIVIDE_I64)
KERNEL(i64_prod, u64, 32, LOAD_PLAIN, STORE_PLAIN, MULTIPLY, LEAVE)
KERNEL(u8_sum, u8, 32, LOAD_PLAIN, STORE_PLAIN, ADD, LEAVE)
KERNEL(u8_min, u8, 32, LOAD_PLAIN, STORE_PLAIN, MINIMUM, LEAVE)
KERNEL(u8_max, u8, 32, LOAD_PLAIN, STORE_PLAIN, MAXIMUM, LEAVE)
KERNEL(u8_avg, u8, 32, LOAD_PLAIN, STORE_PLAIN, ADD, DIVIDE_U8)
KERNEL(u8_prod, u8, 32, LOAD_PLAIN, STORE_PLAIN, MULTIPLY, LEAVE)

typedef void (*kernel)(void *const *out, int outs, const void *const *in, int ranks, size_t bytes);

#define ROW(TYPE, ISA)                                                                                                 \
    {                                                                                                                  \
        TYPE##_sum_##ISA, TYPE##_min_##ISA, TYPE##_max_##ISA, TYPE##_avg_##ISA, TYPE##_prod_##ISA                      \
    }
#define ROWS(ISA)                                                                                                      \
    {                                                                                                                  \
        ROW(f32, ISA), ROW(bf16, ISA), ROW(f16, ISA), ROW(i32, ISA), ROW(i64, ISA), ROW(u8, ISA)                       \
    }

static const kernel plain[][CS_PROD + 1] = ROWS(plain), avx2[][CS_PROD + 1] = ROWS(avx2);

void ce_reduce(void *const *outputs, int output_count, const void *const *inputs, int ranks, int64_t count,
               cs_dtype dtype, cs_reduce_op op)
{
    const kernel(*table)[CS_PROD + 1] = HAS_AVX2 ? avx2 : plain;
    table[dtype][op](outputs, output_count, inputs, ranks, (size_t)count * cs_dtype_bytes(dtype));
}

void ce_reduce_divide(void *data, int64_t count, cs_dtype dtype, int ranks)
{
    float *reals = data;
    int32_t *words = data;
    int64_t *longs = data;
    uint8_t *bytes = data;
    uint16_t *halves = data;
    for (int64_t i = 0; i < count; i++)
        if (dtype == CS_F32)
            reals[i] /= (float)ranks;
        else if (dtype == CS_I32)
            words[i] /= ranks;
        else if (dtype == CS_I64)
            longs[i] /= ranks;
        else if (dtype == CS_BF16)
            halves[i] = ce_float_to_bf16(ce_bf16_to_float(halves[i]) / (float)ranks);
        else if (dtype == CS_F16)
            halves[i] = ce_float_to_f16(ce_f16_to_float(halves[i]) / (float)ranks);
        else
            bytes[i] = (uint8_t)(bytes[i] / ranks);
}
