/* init.cu - initial values of parameters: random numbers that depend only on the parameter's key and on the index of
 * the element, as in device/cpu/init.c.
 *
 * Each thread computes the four values of a Philox counter. Zeros, ones and uniform values equal the CPU's bit for bit,
 * because they need only integer arithmetic and products with powers of two. Normal values are computed in double, as
 * on the CPU, and rounded to float. CUDA's log, sine and cosine are within 2 units in the last place of a double, but
 * may differ from the CPU's. So about one value in 2^27, whose double is close to the middle of two floats, differs
 * from the CPU's by one unit in the last place of a float. The kernel is bound by arithmetic in double; it runs only
 * when a training begins. */
#include "base/rng.h"
#include "device/cuda/kernel.cuh"

enum { TOGETHER = 4, THREADS = 256 };

/* Computes four normal numbers by the Box-Muller transform. */
static __device__ void draw_normals(float *four, uint64_t key, uint64_t counter)
{
    ce_rng_block block = ce_rng_philox(key, counter);
#pragma unroll
    for (int pair = 0; pair < 2; pair++) {
        double angle = 6.283185307179586 * ((double)block.word[2 * pair] * 0x1p-32), sine, cosine;
        double reach = sqrt(-2 * log(((double)block.word[2 * pair + 1] + 0.5) * 0x1p-32));
        sincos(angle, &sine, &cosine);
        four[2 * pair] = (float)(reach * cosine);
        four[2 * pair + 1] = (float)(reach * sine);
    }
}

static __device__ float uniform_at(uint64_t key, uint64_t element)
{
    ce_rng_block block = ce_rng_philox(key, element);
    uint64_t bits = (uint64_t)block.word[1] << 32 | block.word[0];
    return (float)(2 * ((double)(bits >> 11) * 0x1p-53) - 1);
}

static __device__ void draw(float *four, cs_init init, uint64_t key, uint64_t counter)
{
    if (init.how == cs_init::CS_NORMAL)
        draw_normals(four, key, counter);
#pragma unroll
    for (int i = 0; i < TOGETHER; i++) {
        if (init.how == cs_init::CS_UNIFORM)
            four[i] = uniform_at(key, counter * TOGETHER + (uint64_t)i);
        four[i] = init.how == cs_init::CS_ONES ? 1 : init.how == cs_init::CS_ZEROS ? 0 : init.std * four[i];
    }
}

/* Returns the number of groups that a run of elements overlaps at most. */
CE_HOST_DEVICE int64_t groups_of(ce_state_places places)
{
    return places.run / TOGETHER + 2;
}

/* Writes the elements of the parameter that `places` says to `out`. A thread computes groups of four elements: the four
 * elements of one Philox counter, of which those outside of the run are not written. */
static __global__ void __launch_bounds__(THREADS)
    init_groups(float *out, cs_init init, uint64_t key, ce_state_places places, int64_t count)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x, each = groups_of(places);
    for (int64_t item = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; item / each * places.run < count;
         item += step) {
        int64_t run = item / each, from = places.from + run * places.stride;
        int64_t group = from / TOGETHER + item % each, length = min(places.run, count - run * places.run);
        float four[TOGETHER] = {};
        draw(four, init, key, (uint64_t)group);
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            int64_t inside = group * TOGETHER + i - from;
            if (inside >= 0 && inside < length)
                out[run * places.run + inside] = four[i];
        }
    }
}

extern "C" void ce_cuda_init(cs_stream *stream, float *out, cs_init init, uint64_t key, ce_state_places places,
                             int64_t count)
{
    if (count == 0)
        return;
    places.run = places.run ? places.run : count;
    int64_t blocks = ce_divide_up(ce_divide_up(count, places.run) * groups_of(places), THREADS);
    ce_launch(ce_cuda_stream(stream), ce_shape{ dim3(ce_bounded_grid(blocks)), dim3(THREADS) }, init_groups, out, init,
              key, places, count);
}
