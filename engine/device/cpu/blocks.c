/* blocks.c - encodes and decodes optimizer state in blocks. */
#include "device/cpu/blocks.h"
#include "optim/optim.h"

static int64_t block_at(int64_t at, int64_t count)
{
    return count - at < CE_OPTIM_BLOCK ? count - at : CE_OPTIM_BLOCK;
}

void ce_blocks_decode(float *restrict to, const uint8_t *restrict codes, const float *restrict scales, int64_t count,
                      const ce_dynamic_map *map)
{
    for (int64_t at = 0; at < count; at += CE_OPTIM_BLOCK)
        for (int64_t i = at; i < at + block_at(at, count); i++)
            to[i] = map->value[codes[i]] * scales[at / CE_OPTIM_BLOCK];
}

/* The greatest bits of absolute values are those of a NaN, if there is one, else of the greatest value. */
static float scale_of(const float *from, int64_t count)
{
    uint32_t most = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = ce_float_bits(from[i]) & 0x7fffffff;
        most = bits > most ? bits : most;
    }
    return ce_bits_float(most);
}

void ce_blocks_encode(uint8_t *restrict codes, float *restrict scales, const float *restrict from, int64_t count,
                      const ce_dynamic_map *map)
{
    for (int64_t at = 0; at < count; at += CE_OPTIM_BLOCK) {
        float scale = scale_of(from + at, block_at(at, count)), divisor = scale > 0 ? scale : 1;
        scales[at / CE_OPTIM_BLOCK] = scale;
        for (int64_t i = at; i < at + block_at(at, count); i++)
            codes[i] = ce_dynamic_code(map, from[i] / divisor);
    }
}
