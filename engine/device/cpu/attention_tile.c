/* attention_tile.c - matrix products of tiles (6 x 64 with AVX-512, 6 x 16 with AVX2, 32 x 32 with AMX), and the layouts
 * of their operands. */
#include "device/cpu/attention_tile.h"
#include "device/cpu/tiles.h"

#include <string.h>

#ifdef __AVX512BW__
#include <immintrin.h>
#define HAS_PAIRS 1
#define WITH_PAIRS __attribute__((target("avx512bf16")))
#else
#define HAS_PAIRS 0
#endif

enum { ROWS = CE_STRIP_OF_VECTORS, VECTORS = CE_TILE_VECTORS, LANES = CE_LANES };

#define INLINE static inline __attribute__((always_inline))

/* ---- the tile; `vectors` is a constant where these functions are inlined ---- */

typedef float in_register __attribute__((vector_size(4 * LANES)));
typedef in_register sums[ROWS][VECTORS];

INLINE void load_sums(sums sum, const ce_tile *tile, int64_t from, int vectors)
{
#pragma GCC unroll 6
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            sum[r][v] = tile->add ? (in_register) * (const ce_lanes *)(tile->c + r * tile->c_row + (from + v) * LANES)
                                  : (in_register){ 0 };
}

INLINE void store_sums(sums sum, const ce_tile *tile, int64_t from, int vectors)
{
#pragma GCC unroll 6
    for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            *(ce_lanes *)(tile->c + r * tile->c_row + (from + v) * LANES) = (ce_lanes)sum[r][v];
}

INLINE void multiply_floats(const ce_tile *tile, int64_t from, int vectors)
{
    sums sum;
    in_register right[VECTORS];
    const float *a = tile->a, *b = (const float *)tile->b + from * tile->b_vector;
    load_sums(sum, tile, from, vectors);
    for (int64_t k = 0; k < tile->depth; k++, a += tile->a_step, b += tile->b_step) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            right[v] = (in_register) * (const ce_lanes *)(b + v * tile->b_vector);
#pragma GCC unroll 6
        for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                sum[r][v] += a[r * tile->a_row] * right[v];
    }
    store_sums(sum, tile, from, vectors);
}

static void multiply_columns(const ce_tile *tile, int64_t from, int64_t vectors)
{
    if (vectors == 1)
        multiply_floats(tile, from, 1);
    else if (vectors == 2)
        multiply_floats(tile, from, 2);
#if CE_TILE_VECTORS > 2
    else if (vectors == 3)
        multiply_floats(tile, from, 3);
    else
        multiply_floats(tile, from, 4);
#endif
}

#if HAS_PAIRS
WITH_PAIRS INLINE void multiply_pairs(const ce_tile *tile, int64_t from, int vectors)
{
    sums sum;
    __m512bh right[VECTORS];
    const ce_word *a = tile->a, *b = (const ce_word *)tile->b + from * tile->b_vector;
    load_sums(sum, tile, from, vectors);
    for (int64_t k = 0; k < tile->depth; k++, a += tile->a_step, b += tile->b_step) {
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            right[v] = (__m512bh)_mm512_loadu_si512(b + v * tile->b_vector);
#pragma GCC unroll 6
        for (int r = 0; r < ROWS; r++) {
            __m512bh left = (__m512bh)_mm512_set1_epi32((int)a[r * tile->a_row]);
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                sum[r][v] = (in_register)_mm512_dpbf16_ps((__m512)sum[r][v], left, right[v]);
        }
    }
    store_sums(sum, tile, from, vectors);
}

WITH_PAIRS static void multiply_columns_of_pairs(const ce_tile *tile, int64_t from, int64_t vectors)
{
    if (vectors == 1)
        multiply_pairs(tile, from, 1);
    else if (vectors == 2)
        multiply_pairs(tile, from, 2);
    else if (vectors == 3)
        multiply_pairs(tile, from, 3);
    else
        multiply_pairs(tile, from, 4);
}
#else
static void multiply_columns_of_pairs(const ce_tile *tile, int64_t from, int64_t vectors)
{
    (void)tile, (void)from, (void)vectors;
}
#endif

/* Computes 32 columns of c in four tiles; the first of them is column `from` vectors. */
static void multiply_tiles(const ce_tile *tile, int64_t from)
{
    float *c = tile->c + from * LANES, *low = c + CE_TILE_ROWS * tile->c_row;
    int64_t c_bytes = tile->c_row * 4, a_bytes = tile->a_row * 4, b_bytes = tile->b_step * 4;
    const ce_word *a = tile->a, *b = (const ce_word *)tile->b + from * tile->b_vector;
    if (tile->add) {
        CE_TILES_LOAD(0, c, c_bytes);
        CE_TILES_LOAD(1, c + LANES, c_bytes);
        CE_TILES_LOAD(2, low, c_bytes);
        CE_TILES_LOAD(3, low + LANES, c_bytes);
    } else {
        CE_TILES_ZERO(0);
        CE_TILES_ZERO(1);
        CE_TILES_ZERO(2);
        CE_TILES_ZERO(3);
    }
    for (int64_t k = 0; k < tile->depth; k += LANES, a += tile->a_step, b += LANES * tile->b_step) {
        CE_TILES_LOAD(4, a, a_bytes);
        CE_TILES_LOAD(6, b, b_bytes);
        CE_TILES_LOAD(7, b + tile->b_vector, b_bytes);
        CE_TILES_MULTIPLY(0, 4, 6);
        CE_TILES_LOAD(5, a + CE_TILE_ROWS * tile->a_row, a_bytes);
        CE_TILES_MULTIPLY(1, 4, 7);
        CE_TILES_MULTIPLY(2, 5, 6);
        CE_TILES_MULTIPLY(3, 5, 7);
    }
    CE_TILES_STORE(0, c, c_bytes);
    CE_TILES_STORE(1, c + LANES, c_bytes);
    CE_TILES_STORE(2, low, c_bytes);
    CE_TILES_STORE(3, low + LANES, c_bytes);
}

void ce_tile_multiply(const ce_tile *tile, ce_attention_way way)
{
    /* the vectors are divided evenly, because a product of one vector waits for its own sums */
    int64_t groups = (tile->vectors + VECTORS - 1) / VECTORS, vectors;
    for (int64_t from = 0; way == CE_BY_TILES && from < tile->vectors; from += 2)
        multiply_tiles(tile, from);
    for (int64_t from = 0; way != CE_BY_TILES && from < tile->vectors; from += vectors, groups--) {
        vectors = (tile->vectors - from + groups - 1) / groups;
        if (way == CE_BY_PAIRS)
            multiply_columns_of_pairs(tile, from, vectors);
        else
            multiply_columns(tile, from, vectors);
    }
}

/* ---- layouts of operands ---- */

#if CE_LANES == 16
#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#else
#define ZIP_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define ZIP_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#endif

/* Does one of the log2(LANES) rounds that transpose a matrix of LANES x LANES words. A round interleaves lines i and i
 * + LANES / 2. */
INLINE void zip_round(ce_lane_bits to[LANES], const ce_lane_bits from[LANES])
{
#pragma GCC unroll 8
    for (int i = 0; i < LANES / 2; i++) {
        to[2 * i] = ZIP_LOW(from[i], from[i + LANES / 2]);
        to[2 * i + 1] = ZIP_HIGH(from[i], from[i + LANES / 2]);
    }
}

static void transpose(ce_word *to, const ce_word *from, int64_t stride, int64_t lines)
{
    ce_lane_bits a[LANES], b[LANES];
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        a[i] = *(const ce_lane_bits *)(from + i * stride);
    zip_round(b, a);
    zip_round(a, b);
    zip_round(b, a);
    if (LANES == 16)
        zip_round(a, b);
    for (int64_t i = 0; i < lines; i++)
        *(ce_lane_bits *)(to + i * LANES) = LANES == 16 ? a[i] : b[i];
}

void ce_tile_panels(void *panels, const void *rows, int64_t count, int64_t depth, int64_t stride)
{
    ce_word *to = panels;
    const ce_word *from = rows;
    for (int64_t row = 0; row < count; row += LANES, from += LANES * stride, to += LANES * depth)
        for (int64_t k = 0; k < depth; k += LANES)
            transpose(to + k * LANES, from + k, stride, depth - k < LANES ? depth - k : LANES);
}

void ce_tile_layers(void *layers, const void *rows, int64_t count, int64_t width)
{
    ce_word *restrict to = layers;
    for (int64_t row = 0; row < count; row += 2, to += width) {
        const uint16_t *restrict first = (const uint16_t *)rows + row * width, *restrict second = first + width;
        for (int64_t d = 0; d < width; d++)
            to[d] = (uint32_t)first[d] | (uint32_t)second[d] << 16;
    }
}

bool ce_tile_has_pairs(void)
{
#if HAS_PAIRS
    return __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}
