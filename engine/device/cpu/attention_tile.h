/* attention_tile.h - matrix products of small tiles in registers, for attention, and the layouts that they read.
 *
 * The operands are made of words of 32 bits. A word is one fp32 element, or a pair of bf16 elements that are adjacent
 * in the inner dimension. AVX512_BF16 multiplies two pairs and adds the products in fp32 (vdpbf16ps). Both kinds have
 * the same layouts, and counts and strides are in words, so attention is written once for both:
 * - rows: a matrix as it is in memory, its lines padded with zeros to whole vectors;
 * - panels: rows transposed, LANES lines at a time, so that the lines are contiguous;
 * - layers: for each inner index, its row; or, for each pair of inner indices, their two rows with elements
 *   interleaved. */
#ifndef CS_DEVICE_CPU_ATTENTION_TILE_H
#define CS_DEVICE_CPU_ATTENTION_TILE_H

#include <stdbool.h>
#include <stdint.h>

#include "device/cpu/lanes.h"

#ifdef __AVX512F__
#define CS_TILE_VECTORS 4
#else
#define CS_TILE_VECTORS 2
#endif
enum { CS_TILE_ROWS = 6 };

typedef uint32_t ce_word __attribute__((may_alias));

/* c (CS_TILE_ROWS, vectors * CS_LANES) = a b, or c + a b if `add`. Element (r, k) of a is the word r * a_row + k *
 * a_step; vector v of line k of b begins at the word v * b_vector + k * b_step. */
typedef struct {
    const void *a, *b;
    int64_t a_row, a_step, b_vector, b_step;
    float *c;
    int64_t c_row;
    int64_t depth; /* words of the inner dimension */
    int64_t vectors;
    bool add;
} ce_tile;

bool ce_tile_has_pairs(void); /* whether this CPU multiplies pairs */
void ce_tile_multiply(const ce_tile *tile, bool pairs);

/* Panels from `count` rows of `depth` words with the given stride: panel p has word k of row p * CS_LANES + l at (p *
 * depth + k) * CS_LANES + l. `count` is a multiple of CS_LANES; `stride` is at least `depth` rounded up to a multiple
 * of CS_LANES. */
void ce_tile_panels(void *panels, const void *rows, int64_t count, int64_t depth, int64_t stride);
/* Layers of pairs from `count` rows of `width` bf16 elements: word d of layer t is (row 2t, row 2t + 1)[d]. */
void ce_tile_layers(void *layers, const void *rows, int64_t count, int64_t width);
/* Make bf16 pairs from fp32 elements: _along of adjacent elements of one row, _across of the elements with the same
 * index in two rows. `count`, the elements of a row, is a multiple of CS_LANES. To be called only if
 * ce_tile_has_pairs(). */
void ce_tile_pairs_along(void *pairs, const float *row, int64_t count);
void ce_tile_pairs_across(void *pairs, const float *first, const float *second, int64_t count);

#endif
