/* draw.cuh - dropout inside kernels: random bits for runs of eight elements, which share one Philox counter (ops.h). */
#ifndef CS_DEVICE_DRAW_CUH
#define CS_DEVICE_DRAW_CUH

#include "base/rng.h"
#include "device/cuda/run.cuh"

#include <math.h>

/* Parameters of a dropout. keys NULL: no dropout. */
struct ce_draw {
    const uint64_t *keys; /* (B) random keys in device memory, one for each sample */
    uint64_t place;
    int64_t sample;     /* elements of one sample */
    uint32_t threshold; /* an element is kept if its 16 random bits are not below this */
    float scale;
};

/* The parameters for a tensor of `count` elements. */
inline ce_draw ce_draw_of(cs_dropout dropout, int64_t count)
{
    if (dropout.rate <= 0)
        return ce_draw{};
    return ce_draw{ dropout.keys, dropout.place, count / dropout.batch, (uint32_t)lrintf(dropout.rate * 65536.0f),
                    1 / (1 - dropout.rate) };
}

/* Applies dropout to eight values; values[i] is element first + i of the sample; first is a multiple of 8. */
__device__ inline void ce_draw_apply(float *values, ce_draw draw, int64_t sample, int64_t first)
{
    ce_rng_block block = cs_rng_philox(cs_rng_mix(draw.keys[sample], draw.place), (uint64_t)first / CS_RUN);
#pragma unroll
    for (int i = 0; i < CS_RUN; i++) {
        uint32_t bits = block.word[i / 2] >> i % 2 * 16 & 0xffff;
        values[i] = bits >= draw.threshold ? values[i] * draw.scale : 0.0f;
    }
}

/* Like ce_draw_apply, but for any `first`, which is an index into the whole tensor: the values may be unaligned and may
 * belong to two samples. Values at or after `end` may be left unchanged. */
__device__ inline void ce_draw_apply_anywhere(float *values, ce_draw draw, int64_t first, int64_t end)
{
    int64_t sample = first / draw.sample, element = first % draw.sample;
    if (element % CS_RUN == 0 && element + CS_RUN <= draw.sample) {
        ce_draw_apply(values, draw, sample, element);
        return;
    }
#pragma unroll
    for (int i = 0; i < CS_RUN && first + i < end; i++) {
        int64_t index = (first + i) % draw.sample;
        uint64_t key = cs_rng_mix(draw.keys[(first + i) / draw.sample], draw.place);
        ce_rng_block block = cs_rng_philox(key, (uint64_t)index / CS_RUN);
        int part = (int)(index % CS_RUN);
        uint32_t word = block.word[0]; /* selected by a loop: an array with a runtime index would be in local memory */
        for (int w = 1; w < CS_RUN / 2; w++)
            word = part / 2 == w ? block.word[w] : word;
        uint32_t bits = word >> part % 2 * 16 & 0xffff;
        values[i] = bits >= draw.threshold ? values[i] * draw.scale : 0.0f;
    }
}

#endif
