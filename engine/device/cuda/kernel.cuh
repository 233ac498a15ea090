/* kernel.cuh - helpers for CUDA kernels: launch, vector loads, 16-bit types, reductions over a warp and over a block.
 *
 * Kernels are C++17 templates over the storage type (float, bf16, half); arithmetic is fp32. Both nvcc and the emulator
 * (tests/emulator) compile them, so kernels follow these rules: they are launched by ce_launch; they declare static
 * shared memory with CE_SHARED and get dynamic shared memory from ce_shared_memory(); every lane of a warp takes part
 * in every warp-wide call, and every thread of a block in every __syncthreads; only tensor.cuh contains assembly. */
#ifndef CE_DEVICE_KERNEL_CUH
#define CE_DEVICE_KERNEL_CUH

#include "base/range.h"
#include "base/rng.h"
#include "device/cuda/cuda.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <string.h>
#include <type_traits>

using bf16 = __nv_bfloat16;
using half_t = __half;

#ifdef CE_EMULATOR
#define CE_SHARED static
#else
#define CE_SHARED __shared__
__device__ inline unsigned char *ce_shared_memory()
{
    extern __shared__ __align__(128) unsigned char ce_dynamic_shared[];
    return ce_dynamic_shared;
}
#endif

enum { CE_WARP = 32 };

/* The index of the calling thread in its warp, and of the warp in its block. Blocks have one dimension. */
__device__ inline int ce_lane()
{
    return (int)threadIdx.x % CE_WARP;
}

__device__ inline int ce_warp()
{
    return (int)threadIdx.x / CE_WARP;
}

/* An assertion inside kernels, which is active in release builds too. If it fails, the driver prints the condition with
 * file and line, and the next CUDA call of the host fails. */
extern "C" __device__ void __assertfail(const char *condition, const char *file, unsigned line, const char *function,
                                        size_t character);
#define CE_KERNEL_ASSERT(condition)                                                                                    \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            __assertfail(#condition, __FILE__, __LINE__, __func__, sizeof(char));                                      \
    } while (0)

/* The launch configuration of a kernel: grid, block and dynamic shared memory. */
struct ce_shape {
    dim3 grid, block;
    size_t shared = 0; /* bytes of dynamic shared memory */
};

/* Returns the number of blocks of a kernel whose blocks process several items in a loop: one for each item, but at most
 * 2^24. */
inline unsigned ce_bounded_grid(int64_t items)
{
    return (unsigned)(items < 1 << 24 ? items : 1 << 24);
}

/* Adds a kernel's argument to the hash that identifies a launch when a CUDA graph is replayed (graph.c). All bytes of
 * the argument are added. If the argument is a structure with padding, only its first member, a pointer, is added. */
template <typename T> uint64_t ce_launch_hash(uint64_t hash, const T &argument)
{
    constexpr bool whole = std::is_scalar_v<T> || std::has_unique_object_representations_v<T>;
    constexpr size_t bytes = whole ? sizeof(T) : sizeof(void *);
    static_assert(bytes <= sizeof(T), "a structure that is a kernel's argument begins with a pointer");
    uint64_t words[(bytes + 7) / 8] = {};
    memcpy(words, &argument, bytes);
    for (uint64_t word : words)
        hash = ce_rng_mix(hash, word);
    return hash;
}

/* Launches a kernel. Does nothing if the grid is empty, or if a CUDA graph that contains the launch is being replayed.
 * Errors are fatal and are reported with the caller's file and line. */
template <typename... Wanted, typename... Given>
void ce_launch_at(const char *file, int line, cudaStream_t stream, ce_shape shape, void (*kernel)(Wanted...),
                  Given... given)
{
    if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0)
        return;
    uint64_t hash = ce_launch_hash(ce_launch_hash((uint64_t)(uintptr_t)stream, kernel), shape);
    ((hash = ce_launch_hash(hash, static_cast<Wanted>(given))), ...);
    if (ce_cuda_replays(hash))
        return;
    /* CUDA requires an explicit request for more than 48 KiB of shared memory, static and dynamic together */
    if (shape.shared > 0)
        ce_cuda_check(cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),
                                           cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shape.shared),
                      "shared memory of a kernel", file, line);
    cudaLaunchConfig_t config = {};
    config.gridDim = shape.grid;
    config.blockDim = shape.block;
    config.dynamicSmemBytes = shape.shared;
    config.stream = stream;
    ce_cuda_check(cudaLaunchKernelEx(&config, kernel, static_cast<Wanted>(given)...), "launching a kernel", file, line);
}
#define ce_launch(stream, shape, ...) ce_launch_at(__FILE__, __LINE__, stream, shape, __VA_ARGS__)

/* ---- elements and their types ---- */

__device__ inline float ce_wide(float value)
{
    return value;
}

__device__ inline float ce_wide(bf16 value)
{
    return __bfloat162float(value);
}

__device__ inline float ce_wide(half_t value)
{
    return __half2float(value);
}

/* Converts `value` to T; rounds to nearest, ties to even. */
template <typename T> __device__ inline T ce_narrow(float value)
{
    if constexpr (std::is_same_v<T, bf16>)
        return __float2bfloat16_rn(value);
    else if constexpr (std::is_same_v<T, half_t>)
        return __float2half_rn(value);
    else
        return value;
}

/* `count` consecutive elements, which are loaded or stored in one access. The address must be a multiple of the bytes
 * of `count` elements. */
template <typename T, int count> struct alignas(sizeof(T) * count) ce_pack {
    T element[count];
};

/* The number of elements of T in 16 bytes. */
template <typename T> constexpr int ce_pack_of = 16 / (int)sizeof(T);

/* Calls body(T{}), where T is the storage type that belongs to dtype. */
template <typename Body> void ce_by_type(cs_dtype dtype, Body body)
{
    if (dtype == CS_BF16)
        body(bf16{});
    else if (dtype == CS_F16)
        body(half_t{});
    else
        body(float{});
}

/* ---- reductions: in a fixed order, so that results are bitwise equal from run to run ---- */

/* Returns the sum of `value` over all lanes of a warp to every lane of the warp. */

template <typename T> __device__ inline T ce_warp_sum(T value)
{
    for (int apart = CE_WARP / 2; apart > 0; apart /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, apart);
    return value;
}

__device__ inline float ce_warp_max(float value)
{
    for (int apart = CE_WARP / 2; apart > 0; apart /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, apart));
    return value;
}

/* Returns the sum of `value` over all threads of a block to every thread of the block. `scratch` is shared memory with
 * one element for each warp. The function may be called again at once with the same scratch. */
template <typename T> __device__ inline T ce_block_sum(T value, T *scratch)
{
    int lane = ce_lane(), warp = ce_warp(), warps = (int)blockDim.x / CE_WARP;
    value = ce_warp_sum(value);
    __syncthreads();
    if (lane == 0)
        scratch[warp] = value;
    __syncthreads();
    T sum = scratch[0];
    for (int i = 1; i < warps; i++)
        sum += scratch[i];
    return sum;
}

__device__ inline float ce_block_max(float value, float *scratch)
{
    int lane = ce_lane(), warp = ce_warp(), warps = (int)blockDim.x / CE_WARP;
    value = ce_warp_max(value);
    __syncthreads();
    if (lane == 0)
        scratch[warp] = value;
    __syncthreads();
    float max = scratch[0];
    for (int i = 1; i < warps; i++)
        max = fmaxf(max, scratch[i]);
    return max;
}

#endif
