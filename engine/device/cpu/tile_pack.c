/* tile_pack.c - packs operands for products on tiles.
 *
 * Two of the four cases transpose words, which are pairs of bf16 elements: b along the inner dimension, whose tile has
 * the pairs of one column in one column, and a across it. The other two copy rows, or interleave pairs of rows.
 * Operands across the inner dimension are read in the order of memory: a strip is only 64 bytes wide there, and pieces
 * of 64 bytes at large distances are slow to read. */
#include "device/cpu/tile_pack.h"
#include "device/cpu/lanes.h"

#include <string.h>

enum { SIDE = CE_TILE_PACK_SIDE, STEP = CE_TILE_PACK_STEP, HALF = CE_TILE_ROWS };

typedef uint32_t words __attribute__((vector_size(CE_TILE_ROW_BYTES), aligned(2), may_alias));
typedef uint16_t halves __attribute__((vector_size(CE_TILE_ROW_BYTES / 2), aligned(2), may_alias));

/* Transposes 16 x 16 words in four steps, each of which exchanges words between pairs of rows. */
static inline void transpose(words r[HALF])
{
    words t[HALF];
#define MIX(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
    for (int i = 0; i < HALF; i += 2) {
        t[i] = MIX(r[i], r[i + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
        t[i + 1] = MIX(r[i], r[i + 1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
    }
    for (int i = 0; i < HALF; i += 4)
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = MIX(t[i + j], t[i + j + 2], 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
            r[i + 2 * j + 1] = MIX(t[i + j], t[i + j + 2], 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
        }
    for (int i = 0; i < HALF; i += 8)
        for (int j = 0; j < 4; j++) {
            t[i + j] = MIX(r[i + j], r[i + j + 4], 0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27);
            t[i + j + 4] = MIX(r[i + j], r[i + j + 4], 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31);
        }
    for (int j = 0; j < 8; j++) {
        r[j] = MIX(t[j], t[j + 8], 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
        r[j + 8] = MIX(t[j], t[j + 8], 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31);
    }
#undef MIX
}

static inline void store(char *to, const words r[HALF])
{
    for (int i = 0; i < HALF; i++)
        memcpy(to + i * CE_TILE_ROW_BYTES, &r[i], CE_TILE_ROW_BYTES);
}

/* Returns the pairs of two rows of 16 elements: the element of `even` is the low half of a word. */
static inline words pairs(const uint16_t *even, const uint16_t *odd)
{
    return __builtin_convertvector(*(const halves *)even, words) | __builtin_convertvector(*(const halves *)odd, words)
                                                                       << 16;
}

/* Packs a step of 32 lines: 32 rows of 32 elements in memory, `stride` elements apart. */
static inline void arrange(char *to, const uint16_t *from, int64_t stride, bool along, bool is_b)
{
    for (int half = 0; half < 2; half++, to += CE_TILE_BYTES) {
        words r[HALF];
        for (int i = 0; i < HALF; i++)
            r[i] = along ? *(const words *)(const void *)(from + (half * HALF + i) * stride)
                         : pairs(from + 2 * i * stride + half * HALF, from + (2 * i + 1) * stride + half * HALF);
        if (along == is_b)
            transpose(r);
        store(to, r);
    }
}

/* Splits a row of 32 fp32 elements. `left` holds the rest that the parts leave. */
static void split(uint16_t (*part)[SIDE][SIDE], int parts, int row, float left[SIDE])
{
    for (int p = 0; p < parts; p++)
        for (int j = 0; j < SIDE; j += CE_LANES) {
            ce_lanes *x = (ce_lanes *)(left + j);
            ce_lanes_narrow(&part[p][row][j], *x);
            *x -= ce_lanes_load(part[p][row], j, CS_BF16);
        }
}

/* Packs a step whose elements are copied first, because some of them lie outside the matrix, or because they are fp32.
 * `rows` and `columns` count the elements in memory that exist. */
static void arrange_copy(char *to, const ce_tile_operand *from, int64_t at, int64_t rows, int64_t columns)
{
    uint16_t part[CE_TILE_PACK_PARTS][SIDE][SIDE];
    for (int i = 0; i < SIDE; i++) {
        int64_t place = at + i * from->leading, count = i >= rows ? 0 : columns < SIDE ? columns : SIDE;
        float wide[SIDE] = { 0 };
        memset(part[0][i], 0, sizeof part[0][i]);
        if (from->parts == 1 && count)
            memcpy(part[0][i], (const uint16_t *)from->data + place, (size_t)count * sizeof(uint16_t));
        if (from->parts > 1) {
            if (count)
                memcpy(wide, (const float *)from->data + place, (size_t)count * sizeof(float));
            split(part, from->parts, i, wide);
        }
    }
    for (int p = 0; p < from->parts; p++)
        arrange(to + p * STEP, part[p][0], SIDE, from->along, from->is_b);
}

static void pack_step(char *to, const ce_tile_operand *from, ce_range lines, ce_range inner)
{
    int64_t at = from->along ? lines.from * from->leading + inner.from : inner.from * from->leading + lines.from;
    int64_t rows = ce_range_length(from->along ? lines : inner), columns = ce_range_length(from->along ? inner : lines);
    const uint16_t *data = (const uint16_t *)from->data + at;
    if (from->parts > 1 || rows < SIDE || columns < SIDE)
        arrange_copy(to, from, at, rows, columns);
    else if (from->along && from->is_b)
        arrange(to, data, from->leading, true, true);
    else if (from->along)
        arrange(to, data, from->leading, true, false);
    else if (from->is_b)
        arrange(to, data, from->leading, false, true);
    else
        arrange(to, data, from->leading, false, false);
}

void ce_tile_pack(char *to, const ce_tile_operand *from, ce_range lines, ce_range inner)
{
    int64_t strips = ce_divide_up(ce_range_length(lines), SIDE), steps = ce_divide_up(ce_range_length(inner), SIDE);
    for (int64_t i = 0; i < strips * steps; i++) {
        int64_t strip = from->along ? i / steps : i % strips, step = from->along ? i % steps : i / strips;
        pack_step(to + (strip * steps + step) * from->parts * STEP, from,
                  (ce_range){ lines.from + strip * SIDE, lines.to }, (ce_range){ inner.from + step * SIDE, inner.to });
    }
}
