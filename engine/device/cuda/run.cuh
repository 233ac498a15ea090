/* run.cuh - vectorized access to runs: eight consecutive elements of a tensor of any float type.
 *
 * A kernel first loads one run of each tensor, so that several loads are in flight at the same time. Then the kernel
 * converts the runs to fp32, computes, and stores a run. A run whose address is aligned to 16 bytes is accessed 16
 * bytes at a time. Kernels get the types of tensors at run time, so a kernel is compiled once and not once for each
 * combination of types. A branch on the type costs a few instructions for eight elements; all lanes of a warp take the
 * same branch. Elements outside the requested range are loaded as 0 and are not stored. So each element is computed by
 * the same instructions whatever its position is. */
#ifndef CE_DEVICE_RUN_CUH
#define CE_DEVICE_RUN_CUH

#include "device/cuda/kernel.cuh"

#include <string.h>

enum { CE_RUN = 8, CE_RUN_THREADS = 256 };

/* The elements of a tensor. If `data` is NULL, the tensor is absent. */
struct ce_view {
    unsigned char *data;
    cs_dtype dtype;
};

/* Eight elements in their storage type. Elements of 32 bits fill word[0] to word[7], elements of 16 bits word[0] to
 * word[3]. */
struct ce_run {
    uint32_t word[CE_RUN];
};

struct alignas(16) ce_run_quad {
    uint32_t word[4];
};

inline ce_view ce_run_view(cs_tensor x)
{
    return ce_view{ (unsigned char *)x.data, x.dtype };
}

__device__ inline int ce_run_size(cs_dtype dtype)
{
    return dtype == CS_F32 ? 4 : 2;
}

/* Returns the view that begins at element number `element` of x. */
__device__ inline ce_view ce_run_from(ce_view x, int64_t element)
{
    return ce_view{ x.data + element * ce_run_size(x.dtype), x.dtype };
}

/* Returns whether the run can be accessed 16 bytes at a time: the run must be inside the range and aligned. */
__device__ inline bool ce_run_is_wide(const unsigned char *place, int64_t at, ce_range within)
{
    return at >= within.from && at + CE_RUN <= within.to && (uintptr_t)place % sizeof(ce_run_quad) == 0;
}

__device__ inline bool ce_run_has(int64_t element, ce_range within)
{
    return element >= within.from && element < within.to;
}

/* Loads the elements `at` to `at` + 7 of x. Elements outside of the range `within` are 0. */
__device__ inline ce_run ce_run_load(ce_view x, int64_t at, ce_range within)
{
    ce_run run = {};
    int size = ce_run_size(x.dtype);
    const unsigned char *place = x.data + at * size;
    if (ce_run_is_wide(place, at, within)) {
        ce_run_quad quad = ((const ce_run_quad *)place)[0];
        memcpy(run.word, &quad, sizeof quad);
        if (size == 4) {
            quad = ((const ce_run_quad *)place)[1];
            memcpy(run.word + 4, &quad, sizeof quad);
        }
        return run;
    }
#pragma unroll
    for (int i = 0; i < CE_RUN; i++) {
        if (!ce_run_has(at + i, within))
            continue;
        if (size == 4)
            run.word[i] = ((const uint32_t *)place)[i];
        else
            run.word[i / 2] |= (uint32_t)((const uint16_t *)place)[i] << i % 2 * 16;
    }
    return run;
}

template <typename To, typename From> __device__ inline To ce_run_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "bits are read as they are");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}

/* Converts a run of the given storage type to fp32. */
__device__ inline void ce_run_widen(float *to, ce_run run, cs_dtype dtype)
{
#pragma unroll
    for (int i = 0; i < CE_RUN; i++) {
        uint16_t half = (uint16_t)(run.word[i / 2] >> i % 2 * 16);
        if (dtype == CS_F32)
            to[i] = ce_run_bits<float>(run.word[i]);
        else if (dtype == CS_BF16)
            to[i] = ce_run_bits<float>((uint32_t)half << 16);
        else
            to[i] = ce_wide(ce_run_bits<half_t>(half));
    }
}

/* Converts fp32 values to a run of type dtype; rounds to nearest, ties to even. */
__device__ inline ce_run ce_run_narrow(const float *from, cs_dtype dtype)
{
    ce_run run = {};
#pragma unroll
    for (int i = 0; i < CE_RUN; i++) {
        if (dtype == CS_F32) {
            run.word[i] = ce_run_bits<uint32_t>(from[i]);
            continue;
        }
        uint16_t half = dtype == CS_BF16 ? ce_run_bits<uint16_t>(ce_narrow<bf16>(from[i]))
                                         : ce_run_bits<uint16_t>(ce_narrow<half_t>(from[i]));
        run.word[i / 2] |= (uint32_t)half << i % 2 * 16;
    }
    return run;
}

/* Stores the elements of a run that are inside the range `within`, without conversion. */
__device__ inline void ce_run_put(ce_view y, int64_t at, ce_range within, ce_run run)
{
    int size = ce_run_size(y.dtype);
    unsigned char *place = y.data + at * size;
    if (ce_run_is_wide(place, at, within)) {
        ce_run_quad quad;
        memcpy(&quad, run.word, sizeof quad);
        ((ce_run_quad *)place)[0] = quad;
        if (size == 4) {
            memcpy(&quad, run.word + 4, sizeof quad);
            ((ce_run_quad *)place)[1] = quad;
        }
        return;
    }
#pragma unroll
    for (int i = 0; i < CE_RUN; i++) {
        if (!ce_run_has(at + i, within))
            continue;
        if (size == 4)
            ((uint32_t *)place)[i] = run.word[i];
        else
            ((uint16_t *)place)[i] = (uint16_t)(run.word[i / 2] >> i % 2 * 16);
    }
}

/* Rounds eight values to y's type and stores the values that are inside the range `within`. */
__device__ inline void ce_run_store(ce_view y, int64_t at, ce_range within, const float *from)
{
    ce_run_put(y, at, within, ce_run_narrow(from, y.dtype));
}

/* Loads a run and converts it to fp32. */
__device__ inline void ce_run_read(float *to, ce_view x, int64_t at, ce_range within)
{
    ce_run_widen(to, ce_run_load(x, at, within), x.dtype);
}

/* Adds runs of a storage type to the fp32 run `sum`, one after another. */
template <int count> __device__ inline void ce_run_add(float *sum, const ce_run (&runs)[count], cs_dtype dtype)
{
#pragma unroll
    for (int k = 0; k < count; k++) {
        float wide[CE_RUN];
        ce_run_widen(wide, runs[k], dtype);
        for (int i = 0; i < CE_RUN; i++)
            sum[i] += wide[i];
    }
}

/* ---- single elements ---- */

/* Loads element number `at` of x and converts it to fp32. */
__device__ inline float ce_run_read_one(ce_view x, int64_t at)
{
    if (x.dtype == CS_F32)
        return ((const float *)x.data)[at];
    if (x.dtype == CS_BF16)
        return ce_wide(((const bf16 *)x.data)[at]);
    return ce_wide(((const half_t *)x.data)[at]);
}

/* Rounds a value to y's type and stores it as element number `at`. */
__device__ inline void ce_run_store_one(ce_view y, int64_t at, float value)
{
    if (y.dtype == CS_F32)
        ((float *)y.data)[at] = value;
    else if (y.dtype == CS_BF16)
        ((bf16 *)y.data)[at] = ce_narrow<bf16>(value);
    else
        ((half_t *)y.data)[at] = ce_narrow<half_t>(value);
}

/* ---- flat tensors: the first run begins at element -lead, so that runs are aligned even if element 0 is not ---- */

struct ce_flat {
    int64_t lead, count;
};

inline ce_flat ce_run_flat(cs_tensor x)
{
    return ce_flat{ (int64_t)((uintptr_t)x.data / cs_dtype_bytes(x.dtype) % CE_RUN), cs_count(x) };
}

/* Returns a launch configuration with one thread for each run. */
inline ce_shape ce_run_shape(ce_flat flat)
{
    int64_t runs = ce_divide_up(flat.lead + flat.count, CE_RUN);
    int64_t blocks = ce_divide_up(runs, CE_RUN_THREADS);
    if (flat.count == 0)
        blocks = 0;
    return ce_shape{ dim3(ce_bounded_grid(blocks)), dim3(CE_RUN_THREADS) };
}

__device__ inline int64_t ce_run_first(ce_flat flat)
{
    return ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * CE_RUN - flat.lead;
}

__device__ inline int64_t ce_run_step()
{
    return (int64_t)gridDim.x * blockDim.x * CE_RUN;
}

__device__ inline ce_range ce_run_all(ce_flat flat)
{
    return ce_range{ 0, flat.count };
}

/* ---- rows: one block for each row, whose threads process one run at a time ---- */

inline ce_shape ce_run_rows_shape(int64_t rows, int64_t columns)
{
    int64_t runs = ce_divide_up(columns, CE_RUN);
    int64_t threads = ce_round_up(runs, CE_WARP);
    return ce_shape{ dim3(ce_bounded_grid(rows)),
                     dim3((unsigned)(threads < CE_RUN_THREADS ? threads : (int64_t)CE_RUN_THREADS)) };
}

#endif
