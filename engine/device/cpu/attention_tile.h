/* attention_tile.h - matrix products of small tiles, for attention, and the layouts of their operands.
 *
 * The operands consist of words of 32 bits. A word is one fp32 element, or a pair of bf16 elements that are adjacent in
 * the inner dimension. AVX512_BF16 (vdpbf16ps) and AMX (tdpbf16ps) multiply two pairs and add the products in fp32.
 * Counts and strides are in words, so attention is written once for all kinds of products. The layouts are:
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

/* How the products multiply: fp32 elements in vectors, pairs in vectors, or pairs in the tile registers of AMX (tiles.h). A
 * strip is the number of rows of a product. */
typedef enum { CE_BY_FLOATS, CE_BY_PAIRS, CE_BY_TILES } ce_attention_way;
enum { CE_STRIP_OF_VECTORS = 6, CE_STRIP_OF_TILES = 32 };

typedef uint32_t ce_word __attribute__((may_alias));

/* Computes c = a b, or c += a b if `add` is true; c has as many rows as a strip, and vectors * CE_LANES columns. Element
 * (r, k) of a is the word at r * a_row + k * a_step. With tiles it is the word at r * a_row + k / CE_LANES * a_step + k %
 * CE_LANES, `depth` is a multiple of CE_LANES, and `vectors` is even. Vector v of line k of b begins at the word at v *
 * b_vector + k * b_step. */
typedef struct {
    const void *a, *b;
    int64_t a_row, a_step, b_vector, b_step;
    float *c;
    int64_t c_row;
    int64_t depth; /* number of words in the inner dimension */
    int64_t vectors;
    bool add;
} ce_tile;

/* Returns true if the CPU and these kernels multiply bf16 pairs. */
bool ce_tile_has_pairs(void);
void ce_tile_multiply(const ce_tile *tile, ce_attention_way way);

/* Writes `count` rows of `depth` words as panels. In memory, a row begins `stride` words after the previous row. Word k
 * of row p * CE_LANES + l goes to index (p * depth + k) * CE_LANES + l, in panel p. `count` is a multiple of CE_LANES;
 * `stride` is at least `depth` rounded up to a multiple of CE_LANES. */
void ce_tile_panels(void *panels, const void *rows, int64_t count, int64_t depth, int64_t stride);
/* Writes `count` rows of `width` bf16 elements as layers of pairs: word d of layer t is the pair of element d of row 2t
 * and element d of row 2t + 1. */
void ce_tile_layers(void *layers, const void *rows, int64_t count, int64_t width);

#endif
