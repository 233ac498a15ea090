/* blocks.h - optimizer state in blocks: 8-bit codes with one scale for each block (optim/optim.h). */
#ifndef CE_DEVICE_CPU_BLOCKS_H
#define CE_DEVICE_CPU_BLOCKS_H

#include "base/dynamic_map.h"

/* `codes` and `scales` are those of `count` consecutive elements, of which the first begins a block. Encoding computes the
 * scales. A block with an infinity or a NaN has a scale that is not finite, so its values become NaN. */
void ce_blocks_decode(float *restrict to, const uint8_t *restrict codes, const float *restrict scales, int64_t count,
                      const ce_dynamic_map *map);
void ce_blocks_encode(uint8_t *restrict codes, float *restrict scales, const float *restrict from, int64_t count,
                      const ce_dynamic_map *map);

#endif
