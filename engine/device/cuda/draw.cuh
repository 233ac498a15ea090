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
    /* Each sample has `rows` rows of `columns` elements, which are columns [from, from + columns) of rows of `width`
     * columns. If `width` is 0, a sample is one row. */
    int64_t rows, columns, from, width;
};

/* Returns the parameters of the dropout of a tensor. */
inline ce_draw ce_draw_of(cs_dropout dropout, cs_tensor x)
{
    if (dropout.rate <= 0)
        return ce_draw{};
    int64_t sample = cs_count(x) / dropout.batch;
    ce_draw draw = { dropout.keys,
                     dropout.place,
                     sample,
                     (uint32_t)lrintf(dropout.rate * 65536.0f),
                     1 / (1 - dropout.rate),
                     1,
                     sample,
                     0,
                     0 };
    if (dropout.width) {
        draw.rows = cs_rows(x) / dropout.batch;
        draw.columns = cs_columns(x);
        draw.from = dropout.from;
        draw.width = dropout.width;
    }
    return draw;
}

/* Applies dropout to eight values. values[i] is element first + i of the sample, and `first` is a multiple of 8. */
__device__ inline void ce_draw_apply(float *values, ce_draw draw, int64_t sample, int64_t first)
{
    ce_rng_block block = cs_rng_philox(cs_rng_mix(draw.keys[sample], draw.place), (uint64_t)first / CE_RUN);
#pragma unroll
    for (int i = 0; i < CE_RUN; i++) {
        uint32_t bits = block.word[i / 2] >> i % 2 * 16 & 0xffff;
        values[i] = bits >= draw.threshold ? values[i] * draw.scale : 0.0f;
    }
}

/* Returns bits: bit n is set if dropout keeps element 8 * counter + n. */
__device__ inline uint32_t ce_draw_kept_by(uint64_t key, uint64_t counter, uint32_t threshold)
{
    ce_rng_block block = cs_rng_philox(key, counter);
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

/* Like ce_draw_apply, but for any `first`, which is an index into the whole tensor. The values may belong to several
 * rows or samples. Values from index `end` on are undefined afterwards. */
__device__ inline void ce_draw_apply_anywhere(float *values, const ce_draw &draw, int64_t first, int64_t end)
{
    uint32_t kept = 0;
    for (int done = 0, count; done < CE_RUN && first + done < end; done += count) {
        int64_t row = (first + done) / draw.columns, column = (first + done) % draw.columns;
        int64_t sample = draw.width ? row / draw.rows : row;
        int64_t element = (row - sample * draw.rows) * draw.width + draw.from + column;
        uint32_t bits = ce_draw_kept(cs_rng_mix(draw.keys[sample], draw.place), (uint64_t)element, draw.threshold);
        count = (int)min((int64_t)(CE_RUN - done), draw.columns - column);
        kept |= (bits & ((1u << count) - 1)) << done;
    }
#pragma unroll
    for (int i = 0; i < CE_RUN; i++)
        values[i] = kept >> i & 1 ? values[i] * draw.scale : 0.0f;
}

#endif
