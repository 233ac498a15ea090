/* trial.cu - random test matrices and checksums, by which tune.c compares results of matrix products bit by bit.
 *
 * Both kernels are bound by memory. They run a few times for each new shape. */
#include "device/cuda/kernel.cuh"
#include "device/cuda/open.h"

enum { THREADS = 256 };
static const int64_t max_blocks = 1024;

/* Returns a hash of a word and its index: the finalizer of MurmurHash3. */
__device__ static inline unsigned long long hashed(unsigned long long place, unsigned long long word)
{
    unsigned long long bits = place * 0x9e3779b97f4a7c15ull + word;
    bits ^= bits >> 33;
    bits *= 0xff51afd7ed558ccdull;
    bits ^= bits >> 33;
    bits *= 0xc4ceb9fe1a85ec53ull;
    return bits ^ bits >> 33;
}

/* Adds the hashes of all words to the digest. The order of the additions does not matter, because hashes are
 * integers. */
static __global__ void __launch_bounds__(THREADS)
    digest_words(unsigned long long *digest, const uint16_t *words, int64_t count)
{
    CE_SHARED unsigned long long scratch[THREADS / CE_WARP];
    int64_t step = (int64_t)gridDim.x * THREADS;
    unsigned long long sum = 0;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += step)
        sum += hashed((unsigned long long)i, words[i]);
    sum = ce_block_sum(sum, scratch);
    if (threadIdx.x == 0)
        atomicAdd(digest, sum);
}

/* Fills `data` with uniform random numbers between -1/2 and 1/2. */
template <typename T>
static __global__ void __launch_bounds__(THREADS) fill_noise(T *data, int64_t count, unsigned long long seed)
{
    int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += step)
        data[i] = ce_narrow<T>((float)(hashed((unsigned long long)i, seed) >> 40) * 0x1p-24f - 0.5f);
}

static ce_shape shape_of(int64_t count)
{
    int64_t blocks = ce_divide_up(count, THREADS);
    return ce_shape{ dim3((unsigned)(blocks < max_blocks ? blocks : max_blocks)), dim3(THREADS) };
}

void ce_cuda_digest(cudaStream_t stream, uint64_t *digest, const void *data, int64_t count)
{
    ce_launch(stream, shape_of(count), digest_words, reinterpret_cast<unsigned long long *>(digest),
              static_cast<const uint16_t *>(data), count);
}

void ce_cuda_noise(cudaStream_t stream, void *data, cs_dtype dtype, int64_t count, uint64_t seed)
{
    ce_by_type(dtype, [&](auto zero) {
        using T = decltype(zero);
        ce_launch(stream, shape_of(count), fill_noise<T>, static_cast<T *>(data), count, (unsigned long long)seed);
    });
}
