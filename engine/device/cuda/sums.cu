/* sums.cu - exact sums and sums of squares (gradient norms). The results have the same bits as on the CPU (exact.h,
 * device/cpu/vector.c).
 *
 * The squares of a block of 64 elements are added in double: each lane adds eight squares, and a tree adds the sums of
 * eight lanes. The sum of the block is split into digits of 32 bits by integer arithmetic. Each group of eight lanes
 * has its own digits in shared memory. A thread block adds up the digits of its groups, and adds the totals to the
 * result in device memory by integer atomics; the order of the atomics does not matter. The kernel is bound by reading:
 * every lane has eight loads in flight, and digits are added only once for 64 elements. */
#include "device/cuda/kernel.cuh"
#include "base/exact.h"
#include "base/range.h"

#include <string.h>

enum { BLOCK = 64, LANES = 8, THREADS = 256, GROUPS = THREADS / LANES, WORDS = CE_EXACT_DIGITS + 1 };

typedef unsigned long long word;

/* The digits of an exact sum. The last word counts values that were not finite. */
struct digits {
    word of[WORDS];
};

/* Adds a value exactly, as ce_exact_add does on the CPU. The bits of the double give the mantissa and the exponent:
 * |value| = mantissa * 2^(exponent - 1075). */
static __device__ void add_exactly(digits *sum, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    int exponent = (int)(bits >> 52 & 0x7ff),
        place = exponent - 1075 + 352; /* the lowest digit counts units of 2^-352 */
    int digit = place / 32, shift = place % 32;
    if (exponent == 0x7ff || (place >= 0 && digit + 2 >= CE_EXACT_DIGITS)) {
        sum->of[CE_EXACT_DIGITS]++;
        return;
    }
    if (place < 0)
        return;
    uint64_t mantissa = (bits & 0xfffffffffffffu) | 0x10000000000000u;
    uint64_t low = (mantissa & 0xffffffffu) << shift, high = (mantissa >> 32) << shift;
    word sign = bits >> 63 ? ~(word)0 : 1; /* -1 or 1 */
    sum->of[digit] += sign * (low & 0xffffffffu);
    sum->of[digit + 1] += sign * ((low >> 32) + (high & 0xffffffffu));
    sum->of[digit + 2] += sign * (high >> 32);
}

static __device__ void clear_digits(digits *partial, int groups)
{
    for (int i = (int)threadIdx.x; i < groups * WORDS; i += (int)blockDim.x)
        partial[i / WORDS].of[i % WORDS] = 0;
    __syncthreads();
}

/* Adds the digits of all groups of the thread block to *sum, which is in device memory. */
static __device__ void add_to_device_sum(ce_exact *sum, const digits *partial, int groups)
{
    static_assert(sizeof(ce_exact) == WORDS * sizeof(word), "an exact sum is its digits and a count");
    __syncthreads();
    if ((int)threadIdx.x >= WORDS)
        return;
    word all = 0;
    for (int i = 0; i < groups; i++)
        all += partial[i].of[threadIdx.x];
    if (all)
        atomicAdd((word *)sum + threadIdx.x, all);
}

/* Reads the eight elements of a block that belong to a lane: elements at, at + 8, at + 16 and so on of g. An element
 * whose index is not in [0, count) is read as 0. */
template <typename T> static __device__ void read_lane(float *values, const T *g, int64_t at, int64_t count)
{
#pragma unroll
    for (int i = 0; i < BLOCK / LANES; i++) {
        int64_t element = at + i * LANES;
        values[i] = element >= 0 && element < count ? ce_wide(g[element]) : 0;
    }
}

/* Returns the sum of a block's 64 squares to all lanes of the group. */
static __device__ double sum_block_squares(const float *values)
{
    double sum = 0;
#pragma unroll
    for (int i = 0; i < BLOCK / LANES; i++)
        sum += (double)values[i] * (double)values[i];
    for (int apart = 1; apart < LANES; apart *= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, apart);
    return sum;
}

template <typename T>
static __global__ void __launch_bounds__(THREADS)
    sum_squares(ce_exact *sum, const T *g, int64_t lead, int64_t count, double unscale)
{
    CE_SHARED digits partial[GROUPS];
    int lane = (int)threadIdx.x % LANES, group = (int)threadIdx.x / LANES;
    int64_t blocks = ce_divide_up(lead + count, BLOCK);
    word nonfinite = 0;
    clear_digits(partial, GROUPS);
    for (int64_t first = (int64_t)blockIdx.x * GROUPS; first < blocks; first += (int64_t)gridDim.x * GROUPS) {
        float values[BLOCK / LANES];
        read_lane(values, g, (first + group) * BLOCK - lead + lane, count);
        double squares = sum_block_squares(values);
        for (int i = 0; i < BLOCK / LANES; i++)
            nonfinite += isfinite(values[i]) ? 0 : 1;
        if (lane == 0 && isfinite(squares))
            add_exactly(&partial[group], squares * unscale * unscale);
    }
    if (nonfinite)
        atomicAdd((word *)&sum->nonfinite, nonfinite);
    add_to_device_sum(sum, partial, GROUPS);
}

extern "C" void ce_cuda_sum_squares(cs_stream *stream, ce_exact *sum, cs_tensor g, int64_t lead, double unscale)
{
    int64_t count = cs_count(g), together = (int64_t)GROUPS * BLOCK, blocks = ce_divide_up(lead + count, together);
    int64_t max = 8 * (int64_t)ce_cuda_facts_of(stream->device)->processors;
    ce_shape shape = { dim3((unsigned)(blocks < max ? blocks : max)), dim3(THREADS) };
    if (count == 0)
        return;
    ce_by_type(g.dtype, [&](auto zero) {
        using T = decltype(zero);
        ce_launch(ce_cuda_stream(stream), shape, sum_squares<T>, sum, (const T *)g.data, lead, count, unscale);
    });
}

/* Adds values exactly. Each lane of the warp has its own digits in shared memory. */
static __global__ void __launch_bounds__(CE_WARP) sum_values(ce_exact *sum, const float *values, int64_t count)
{
    CE_SHARED digits partial[CE_WARP];
    clear_digits(partial, CE_WARP);
    for (int64_t i = (int64_t)blockIdx.x * CE_WARP + threadIdx.x; i < count; i += (int64_t)gridDim.x * CE_WARP)
        add_exactly(&partial[threadIdx.x], (double)values[i]);
    add_to_device_sum(sum, partial, CE_WARP);
}

extern "C" void ce_cuda_sum(cs_stream *stream, ce_exact *sum, const float *values, int64_t count)
{
    int64_t blocks = (count + 8 * CE_WARP - 1) / (8 * CE_WARP), max = 8 * ce_cuda_facts_of(stream->device)->processors;
    if (count == 0)
        return;
    ce_launch(ce_cuda_stream(stream), ce_shape{ dim3((unsigned)(blocks < max ? blocks : max)), dim3(CE_WARP) },
              sum_values, sum, values, count);
}
