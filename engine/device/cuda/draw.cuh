/* draw.cuh - the random bits of dropout, a run at a time: eight elements are one counter of Philox (ops.h). */
#ifndef CS_DEVICE_DRAW_CUH
#define CS_DEVICE_DRAW_CUH

#include "base/rng.h"
#include "device/cuda/run.cuh"

#include <math.h>

/* A dropout as kernels take it; keys NULL: off. */
struct cs_draw {
    const uint64_t *keys; /* (B) of the device */
    uint64_t place;
    int64_t sample;     /* elements of one */
    uint32_t threshold; /* an element is kept where its bits are not below it */
    float scale;
};

/* Of a tensor of `count` elements. */
inline cs_draw cs_draw_of(cs_dropout dropout, int64_t count)
{
    if (dropout.rate <= 0)
        return cs_draw{};
    return cs_draw{ dropout.keys, dropout.place, count / dropout.batch, (uint32_t)lrintf(dropout.rate * 65536.0f),
                    1 / (1 - dropout.rate) };
}

/* values[i] is element first + i of a sample, where first is a multiple of 8. */
__device__ inline void cs_draw_apply(float *values, cs_draw draw, int64_t sample, int64_t first)
{
    cs_rng_block block = cs_rng_philox(cs_rng_mix(draw.keys[sample], draw.place), (uint64_t)first / CS_RUN);
#pragma unroll
    for (int i = 0; i < CS_RUN; i++) {
        uint32_t bits = block.word[i / 2] >> i % 2 * 16 & 0xffff;
        values[i] = bits >= draw.threshold ? values[i] * draw.scale : 0.0f;
    }
}

/* values[i] is element first + i of the tensor, wherever that lies, and `end` is behind the last that counts. */
__device__ inline void cs_draw_apply_anywhere(float *values, cs_draw draw, int64_t first, int64_t end)
{
    int64_t sample = first / draw.sample, element = first % draw.sample;
    if (element % CS_RUN == 0 && element + CS_RUN <= draw.sample) {
        cs_draw_apply(values, draw, sample, element);
        return;
    }
#pragma unroll
    for (int i = 0; i < CS_RUN && first + i < end; i++) {
        int64_t own = (first + i) % draw.sample;
        uint64_t key = cs_rng_mix(draw.keys[(first + i) / draw.sample], draw.place);
        cs_rng_block block = cs_rng_philox(key, (uint64_t)own / CS_RUN);
        int part = (int)(own % CS_RUN);
        uint32_t word = block.word[0]; /* chosen, since an array with an index of run time lies in memory */
        for (int w = 1; w < CS_RUN / 2; w++)
            word = part / 2 == w ? block.word[w] : word;
        uint32_t bits = word >> part % 2 * 16 & 0xffff;
        values[i] = bits >= draw.threshold ? values[i] * draw.scale : 0.0f;
    }
}

#endif
