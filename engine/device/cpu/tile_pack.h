/* tile_pack.h - copies of operands in the order in which tiles are loaded (tiles.h).
 *
 * Lines are rows of a or columns of b. 32 lines are a strip. A step of a strip is 32 inner indices: two tiles for each
 * part, one for each 16 lines. The tiles of a strip follow each other in memory, step by step. What lies outside the
 * matrix is 0.
 *
 * A bf16 operand has one part. An fp32 operand is the sum of two or three bf16 parts: each part is the rest that the
 * parts before it leave, rounded to nearest. */
#ifndef CE_DEVICE_CPU_TILE_PACK_H
#define CE_DEVICE_CPU_TILE_PACK_H

#include "base/range.h"
#include "device/cpu/tiles.h"

enum { CE_TILE_PACK_SIDE = 32, CE_TILE_PACK_STEP = 2 * CE_TILE_BYTES, CE_TILE_PACK_PARTS = 3 };

/* If `along` is true, a line in memory runs along the inner dimension; if not, all elements of a line in memory have the
 * same inner index. */
typedef struct {
    const void *data; /* bf16 if `parts` is 1, otherwise fp32 */
    int64_t leading;
    bool along, is_b;
    int parts; /* 1 to CE_TILE_PACK_PARTS */
} ce_tile_operand;

/* Packs the given lines and inner indices: ce_tile_pack_bytes(lines, inner, parts) bytes, aligned to 64. */
void ce_tile_pack(char *to, const ce_tile_operand *from, ce_range lines, ce_range inner);

static inline int64_t ce_tile_pack_bytes(int64_t lines, int64_t inner, int parts)
{
    return ce_divide_up(lines, CE_TILE_PACK_SIDE) * ce_divide_up(inner, CE_TILE_PACK_SIDE) * parts * CE_TILE_PACK_STEP;
}

#endif
