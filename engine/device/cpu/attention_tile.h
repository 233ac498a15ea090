/* attention_tile.h - matrix products of small tiles in registers, for attention, and the layouts of their operands.
 *
 * The operands consist of words of 32 bits. A word is one fp32 element, or a pair of bf16 elements that are adjacent in
 * the inner dimension. AVX512_BF16 multiplies two pairs and adds the products in fp32 (vdpbf16ps). Counts and strides
 * are in words, so attention is written once for both kinds of words. The layouts are:
 *
 * - "rows": a matrix as it is in memory, its lines padded with zeros to whole vectors;
 * - "panels": the matrix in the layout "rows", transposed, LANES lines at a time, so that the words of LANES lines with
 *   one inner index are contiguous;
 * - "layers", if a word is one element: for each inner index, the row of the matrix with this index;
 * - "layers", if a word is a pair: for each two adjacent inner indices, the two rows of the matrix with these indices;
 *   each word is a pair of one element of the first row and the element of the second row in the same column. */
#ifndef CE_DEVICE_CPU_ATTENTION_TILE_H
#define CE_DEVICE_CPU_ATTENTION_TILE_H

#include <stdbool.h>
#include <stdint.h>

#include "device/cpu/lanes.h"

#ifdef __AVX512F__
#define CE_TILE_VECTORS 4
#else
#define CE_TILE_VECTORS 2
#endif
enum { CE_TILE_ROWS = 6 };

typedef uint32_t ce_word __attribute__((may_alias));

/* Computes c = a b, or c += a b if `add` is true; c has CE_TILE_ROWS rows and vectors * CE_LANES columns. Element (r,
 * k) of a is the word at r * a_row + k * a_step. Vector v of line k of b begins at the word at v * b_vector + k *
 * b_step. */
typedef struct {
    const void *a, *b;
    int64_t a_row, a_step, b_vector, b_step;
    float *c;
    int64_t c_row;
    int64_t depth; /* number of words in the inner dimension */
    int64_t vectors;
    bool add;
} ce_tile;

bool ce_tile_has_pairs(void); /* returns true if this CPU multiplies bf16 pairs */
void ce_tile_multiply(const ce_tile *tile, bool pairs);

/* Writes `count` rows of `depth` words as panels. In memory, a row begins `stride` words after the previous row. Word k
 * of row p * CE_LANES + l goes to index (p * depth + k) * CE_LANES + l, in panel p. `count` is a multiple of CE_LANES;
 * `stride` is at least `depth` rounded up to a multiple of CE_LANES. */
void ce_tile_panels(void *panels, const void *rows, int64_t count, int64_t depth, int64_t stride);
/* Writes `count` rows of `width` bf16 elements as layers of pairs: word d of layer t is the pair of element d of row 2t
 * and element d of row 2t + 1. */
void ce_tile_layers(void *layers, const void *rows, int64_t count, int64_t width);
/* ce_tile_pairs_along and ce_tile_pairs_across convert fp32 elements to bf16 pairs. ce_tile_pairs_along makes pairs of
 * adjacent elements of one row; ce_tile_pairs_across makes pairs of the elements with the same index in two rows.
 * `count` is the number of elements of a row, a multiple of CE_LANES. The two functions may only be called if
 * ce_tile_has_pairs() returns true. */
void ce_tile_pairs_along(void *pairs, const float *row, int64_t count);
void ce_tile_pairs_across(void *pairs, const float *first, const float *second, int64_t count);

#endif
