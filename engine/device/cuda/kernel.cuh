/* kernel.cuh - what kernels are written with: launching, wide loads, the two 16-bit types, sums over a warp and a
 * block.
 *
 * Kernels are C++17 templates over what is stored (float, bf16, half); arithmetic is fp32. They keep to what both nvcc
 * and tests/emulator compile: launched by cs_launch, static shared memory declared with CS_SHARED, dynamic shared
 * memory from cs_shared_memory(), every lane of a warp taking part in every warp-wide call, every thread of a block in
 * every __syncthreads; instructions that need assembly are in tensor.cuh alone. */
#ifndef CS_DEVICE_KERNEL_CUH
#define CS_DEVICE_KERNEL_CUH

#include "base/rng.h"
#include "device/cuda/cuda.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <string.h>
#include <type_traits>

using bf16 = __nv_bfloat16;
using half_t = __half;

#ifdef CS_EMULATOR
#define CS_SHARED static
#else
#define CS_SHARED __shared__
__device__ inline unsigned char *cs_shared_memory()
{
    extern __shared__ __align__(128) unsigned char cs_dynamic_shared[];
    return cs_dynamic_shared;
}
#endif

enum { CS_WARP = 32 };

/* In kernels, on in release too: the driver prints the condition with file and line, and the run ends. */
extern "C" __device__ void __assertfail(const char *condition, const char *file, unsigned line, const char *function,
                                        size_t character);
#define CS_KERNEL_ASSERT(condition)                                                                                    \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            __assertfail(#condition, __FILE__, __LINE__, __func__, sizeof(char));                                      \
    } while (0)

struct cs_shape {
    dim3 grid, block;
    size_t shared = 0; /* bytes of dynamic shared memory */
};

/* What of an argument tells a launch from others: all of it, but of a structure that may have gaps the pointer that it
 * begins with. */
template <typename T> uint64_t cs_launch_mark(uint64_t mark, const T &argument)
{
    constexpr bool whole = std::is_scalar_v<T> || std::has_unique_object_representations_v<T>;
    constexpr size_t bytes = whole ? sizeof(T) : sizeof(void *);
    static_assert(bytes <= sizeof(T), "a structure that kernels are given begins with a pointer");
    uint64_t words[(bytes + 7) / 8] = {};
    memcpy(words, &argument, bytes);
    for (uint64_t word : words)
        mark = cs_rng_mix(mark, word);
    return mark;
}

/* Nothing is launched for an empty grid. */
template <typename... Wanted, typename... Given>
void cs_launch_at(const char *file, int line, cudaStream_t stream, cs_shape shape, void (*kernel)(Wanted...),
                  Given... given)
{
    if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0)
        return;
    uint64_t mark = cs_launch_mark(cs_launch_mark((uint64_t)(uintptr_t)stream, kernel), shape);
    ((mark = cs_launch_mark(mark, static_cast<Wanted>(given))), ...);
    if (cs_cuda_replays(mark))
        return;
    /* A kernel has 48 KiB without asking, of static and dynamic shared memory together. */
    if (shape.shared > 0)
        cs_cuda_check(cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),
                                           cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shape.shared),
                      "shared memory of a kernel", file, line);
    cudaLaunchConfig_t config = {};
    config.gridDim = shape.grid;
    config.blockDim = shape.block;
    config.dynamicSmemBytes = shape.shared;
    config.stream = stream;
    cs_cuda_check(cudaLaunchKernelEx(&config, kernel, static_cast<Wanted>(given)...), "launching a kernel", file, line);
}
#define cs_launch(stream, shape, ...) cs_launch_at(__FILE__, __LINE__, stream, shape, __VA_ARGS__)

/* ---- elements ---- */

__device__ inline float cs_wide(float value)
{
    return value;
}

__device__ inline float cs_wide(bf16 value)
{
    return __bfloat162float(value);
}

__device__ inline float cs_wide(half_t value)
{
    return __half2float(value);
}

/* Rounds to nearest even. */
template <typename T> __device__ inline T cs_narrow(float value)
{
    if constexpr (std::is_same_v<T, bf16>)
        return __float2bfloat16_rn(value);
    else if constexpr (std::is_same_v<T, half_t>)
        return __float2half_rn(value);
    else
        return value;
}

/* `count` neighbours, loaded and stored in one access where their address is a multiple of their size. */
template <typename T, int count> struct alignas(sizeof(T) * count) cs_pack {
    T element[count];
};

/* 16 bytes of T. */
template <typename T> constexpr int cs_pack_of = 16 / (int)sizeof(T);

/* Calls body(T{}) with T the type of dtype. */
template <typename Body> void cs_by_type(cs_dtype dtype, Body body)
{
    if (dtype == CS_BF16)
        body(bf16{});
    else if (dtype == CS_F16)
        body(half_t{});
    else
        body(float{});
}

/* ---- sums: in a fixed order, so that the bits are the same from run to run ---- */

template <typename T> __device__ inline T cs_warp_sum(T value)
{
    for (int apart = CS_WARP / 2; apart > 0; apart /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, apart);
    return value;
}

__device__ inline float cs_warp_max(float value)
{
    for (int apart = CS_WARP / 2; apart > 0; apart /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, apart));
    return value;
}

/* Of all threads, known to all; `seats` are as many as the block has warps. May be called again at once. */
template <typename T> __device__ inline T cs_block_sum(T value, T *seats)
{
    int lane = (int)threadIdx.x % CS_WARP, warp = (int)threadIdx.x / CS_WARP, warps = (int)blockDim.x / CS_WARP;
    value = cs_warp_sum(value);
    __syncthreads();
    if (lane == 0)
        seats[warp] = value;
    __syncthreads();
    T sum = seats[0];
    for (int i = 1; i < warps; i++)
        sum += seats[i];
    return sum;
}

__device__ inline float cs_block_max(float value, float *seats)
{
    int lane = (int)threadIdx.x % CS_WARP, warp = (int)threadIdx.x / CS_WARP, warps = (int)blockDim.x / CS_WARP;
    value = cs_warp_max(value);
    __syncthreads();
    if (lane == 0)
        seats[warp] = value;
    __syncthreads();
    float max = seats[0];
    for (int i = 1; i < warps; i++)
        max = fmaxf(max, seats[i]);
    return max;
}

#endif
