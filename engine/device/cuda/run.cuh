/* run.cuh - eight neighbours of a tensor of any float type, in 16-byte accesses where their address allows it.
 *
 * A kernel reads a run of each tensor, then widens, computes, and writes a run: the reads are under way together. Types
 * are known at run time: a warp takes one way, so what that costs is a few instructions for eight elements, and a
 * kernel is compiled once and not for every mix of types. What of a run lies outside the range that is asked for reads
 * as zero and is not written, so that every element is computed by the same instructions wherever it lies. */
#ifndef CS_DEVICE_RUN_CUH
#define CS_DEVICE_RUN_CUH

#include "base/range.h"
#include "device/cuda/kernel.cuh"

#include <string.h>

enum { CS_RUN = 8, CS_RUN_THREADS = 256 };

/* A tensor's elements; data NULL: absent. */
struct cs_view {
    unsigned char *data;
    cs_dtype dtype;
};

/* As they are stored; 16-bit elements fill the first half. */
struct cs_run {
    uint32_t word[CS_RUN];
};

struct alignas(16) cs_run_quad {
    uint32_t word[4];
};

inline cs_view cs_run_view(cs_tensor x)
{
    return cs_view{ (unsigned char *)x.data, x.dtype };
}

__device__ inline int cs_run_size(cs_dtype dtype)
{
    return dtype == CS_F32 ? 4 : 2;
}

/* From an element on. */
__device__ inline cs_view cs_run_from(cs_view x, int64_t element)
{
    return cs_view{ x.data + element * cs_run_size(x.dtype), x.dtype };
}

__device__ inline bool cs_run_is_wide(const unsigned char *place, int64_t at, cs_range within)
{
    return at >= within.from && at + CS_RUN <= within.to && (uintptr_t)place % sizeof(cs_run_quad) == 0;
}

__device__ inline bool cs_run_has(int64_t element, cs_range within)
{
    return element >= within.from && element < within.to;
}

/* Elements at .. at + 7 of x. */
__device__ inline cs_run cs_run_load(cs_view x, int64_t at, cs_range within)
{
    cs_run run = {};
    int size = cs_run_size(x.dtype);
    const unsigned char *place = x.data + at * size;
    if (cs_run_is_wide(place, at, within)) {
        cs_run_quad quad = ((const cs_run_quad *)place)[0];
        memcpy(run.word, &quad, sizeof quad);
        if (size == 4) {
            quad = ((const cs_run_quad *)place)[1];
            memcpy(run.word + 4, &quad, sizeof quad);
        }
        return run;
    }
#pragma unroll
    for (int i = 0; i < CS_RUN; i++) {
        if (!cs_run_has(at + i, within))
            continue;
        if (size == 4)
            run.word[i] = ((const uint32_t *)place)[i];
        else
            run.word[i / 2] |= (uint32_t)((const uint16_t *)place)[i] << i % 2 * 16;
    }
    return run;
}

template <typename To, typename From> __device__ inline To cs_run_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "bits are read as they are");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

__device__ inline void cs_run_widen(float *to, cs_run run, cs_dtype dtype)
{
#pragma unroll
    for (int i = 0; i < CS_RUN; i++) {
        uint16_t half = (uint16_t)(run.word[i / 2] >> i % 2 * 16);
        if (dtype == CS_F32)
            to[i] = cs_run_bits<float>(run.word[i]);
        else if (dtype == CS_BF16)
            to[i] = cs_run_bits<float>((uint32_t)half << 16);
        else
            to[i] = cs_wide(cs_run_bits<half_t>(half));
    }
}

/* Rounded to nearest even. */
__device__ inline cs_run cs_run_narrow(const float *from, cs_dtype dtype)
{
    cs_run run = {};
#pragma unroll
    for (int i = 0; i < CS_RUN; i++) {
        if (dtype == CS_F32) {
            run.word[i] = cs_run_bits<uint32_t>(from[i]);
            continue;
        }
        uint16_t half = dtype == CS_BF16 ? cs_run_bits<uint16_t>(cs_narrow<bf16>(from[i]))
                                         : cs_run_bits<uint16_t>(cs_narrow<half_t>(from[i]));
        run.word[i / 2] |= (uint32_t)half << i % 2 * 16;
    }
    return run;
}

/* A run as it is stored. */
__device__ inline void cs_run_put(cs_view y, int64_t at, cs_range within, cs_run run)
{
    int size = cs_run_size(y.dtype);
    unsigned char *place = y.data + at * size;
    if (cs_run_is_wide(place, at, within)) {
        cs_run_quad quad;
        memcpy(&quad, run.word, sizeof quad);
        ((cs_run_quad *)place)[0] = quad;
        if (size == 4) {
            memcpy(&quad, run.word + 4, sizeof quad);
            ((cs_run_quad *)place)[1] = quad;
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < CS_RUN; i++) {
        if (!cs_run_has(at + i, within))
            continue;
        if (size == 4)
            ((uint32_t *)place)[i] = run.word[i];
        else
            ((uint16_t *)place)[i] = (uint16_t)(run.word[i / 2] >> i % 2 * 16);
    }
}

__device__ inline void cs_run_store(cs_view y, int64_t at, cs_range within, const float *from)
{
    cs_run_put(y, at, within, cs_run_narrow(from, y.dtype));
}

__device__ inline void cs_run_read(float *to, cs_view x, int64_t at, cs_range within)
{
    cs_run_widen(to, cs_run_load(x, at, within), x.dtype);
}

/* ---- flat: `count` elements, whose runs begin at -lead, so that they are aligned where x[0] is not ---- */

struct cs_flat {
    int64_t lead, count;
};

inline cs_flat cs_run_flat(cs_tensor x)
{
    return cs_flat{ (int64_t)((uintptr_t)x.data / cs_dtype_bytes(x.dtype) % CS_RUN), cs_count(x) };
}

/* A thread a run. */
inline cs_shape cs_run_shape(cs_flat flat)
{
    int64_t runs = (flat.lead + flat.count + CS_RUN - 1) / CS_RUN;
    int64_t blocks = (runs + CS_RUN_THREADS - 1) / CS_RUN_THREADS;
    if (flat.count == 0)
        blocks = 0;
    return cs_shape{ dim3((unsigned)(blocks < 1 << 24 ? blocks : 1 << 24)), dim3(CS_RUN_THREADS) };
}

__device__ inline int64_t cs_run_first(cs_flat flat)
{
    return ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * CS_RUN - flat.lead;
}

__device__ inline int64_t cs_run_step()
{
    return (int64_t)gridDim.x * blockDim.x * CS_RUN;
}

__device__ inline cs_range cs_run_all(cs_flat flat)
{
    return cs_range{ 0, flat.count };
}

/* ---- rows: a block a row, a thread a run at a time ---- */

inline cs_shape cs_run_rows_shape(int64_t rows, int64_t columns)
{
    int64_t runs = (columns + CS_RUN - 1) / CS_RUN;
    int64_t threads = (runs + CS_WARP - 1) / CS_WARP * CS_WARP;
    return cs_shape{ dim3((unsigned)(rows < 1 << 24 ? rows : 1 << 24)),
                     dim3((unsigned)(threads < CS_RUN_THREADS ? threads : (int64_t)CS_RUN_THREADS)) };
}

#endif
