/* draw.cuh - dropout inside kernels: random bits for runs of eight elements. One Philox counter gives the bits of one
 * run (ops.h). */
#ifndef CE_DEVICE_DRAW_CUH
#define CE_DEVICE_DRAW_CUH

#include "base/rng.h"
#include "device/cuda/run.cuh"

#include <math.h>

/* The parameters of a dropout. If `keys` is NULL, there is no dropout. */
struct ce_draw {
    const uint64_t *keys; /* keys (B): random keys in device memory, one for each sample */
    uint64_t place;
    int64_t sample;     /* number of elements of one sample */
    uint32_t threshold; /* an element is kept if its 16 random bits are at least this number */
    float scale;
};

/* Returns the parameters of the dropout of a tensor of `count` elements. */
inline ce_draw ce_draw_of(cs_dropout dropout, int64_t count)
{
    if (dropout.rate <= 0)
        return ce_draw{};
    return ce_draw{ dropout.keys, dropout.place, count / dropout.batch, (uint32_t)lrintf(dropout.rate * 65536.0f),
                    1 / (1 - dropout.rate) };
}

/* Applies dropout to eight values. values[i] is element first + i of the sample, and `first` is a multiple of 8. */
__device__ inline void ce_draw_apply(float *values, ce_draw draw, int64_t sample, int64_t first)
{
    ce_rng_block block = ce_rng_philox(ce_rng_mix(draw.keys[sample], draw.place), (uint64_t)first / CE_RUN);
#pragma unroll
    for (int i = 0; i < CE_RUN; i++) {
        uint32_t bits = block.word[i / 2] >> i % 2 * 16 & 0xffff;
        values[i] = bits >= draw.threshold ? values[i] * draw.scale : 0.0f;
    }
}

/* Returns bits: bit n is set if dropout keeps element 8 * counter + n. */
__device__ inline uint32_t ce_draw_kept_by(uint64_t key, uint64_t counter, uint32_t threshold)
{
    ce_rng_block block = ce_rng_philox(key, counter);
    uint32_t kept = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        kept |= (uint32_t)((block.word[i] & 0xffffu) >= threshold) << 2 * i;
        kept |= (uint32_t)(block.word[i] >> 16 >= threshold) << (2 * i + 1);
    }
    return kept;
}

/* Returns bits: bit n is set if dropout keeps element + n, for any `element` and n < 8. */
__device__ inline uint8_t ce_draw_kept(uint64_t key, uint64_t element, uint32_t threshold)
{
    uint32_t bits = ce_draw_kept_by(key, element / 8, threshold);
    if (element % 8)
        bits |= ce_draw_kept_by(key, element / 8 + 1, threshold) << 8;
    return (uint8_t)(bits >> element % 8);
}

/* Like ce_draw_apply, but for any `first`, which is an index into the whole tensor. The values may be unaligned and may
 * belong to two samples. Values from index `end` on may be left unchanged. */
__device__ inline void ce_draw_apply_anywhere(float *values, ce_draw draw, int64_t first, int64_t end)
{
    int64_t sample = first / draw.sample, element = first % draw.sample;
    if (element % CE_RUN == 0 && element + CE_RUN <= draw.sample) {
        ce_draw_apply(values, draw, sample, element);
        return;
    }
#pragma unroll
    for (int i = 0; i < CE_RUN && first + i < end; i++) {
        int64_t index = (first + i) % draw.sample;
        uint64_t key = ce_rng_mix(draw.keys[(first + i) / draw.sample], draw.place);
        ce_rng_block block = ce_rng_philox(key, (uint64_t)index / CE_RUN);
        int part = (int)(index % CE_RUN);
        /* a loop selects the word, because an array with an index known only at run time would be in local memory */
        uint32_t word = block.word[0];
        for (int w = 1; w < CE_RUN / 2; w++)
            word = part / 2 == w ? block.word[w] : word;
        uint32_t bits = word >> part % 2 * 16 & 0xffff;
        values[i] = bits >= draw.threshold ? values[i] * draw.scale : 0.0f;
    }
}

#endif
