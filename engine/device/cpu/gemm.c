/* gemm.c - matrix products for CPUs with AVX2: packed blocks and a tile of 6 x 16 in registers (Goto & van de Geijn
 * 2008).
 *
 * 16-bit operands are converted to fp32 while they are packed, so the conversion does not read the operands a second
 * time. The terms of an element of c are added in one order, however c is divided among threads. A block of b takes a
 * part of the third-level cache, a block of a takes the second-level cache, and a strip of b (DEPTH x COLUMNS) takes
 * the first-level cache. bench_ops prints which fraction of the measured peak rate a product reaches. */
#include "device/cpu/gemm.h"
#include "device/cpu/elements.h"

enum { LANES = 8, ROWS = 6, COLUMNS = 2 * LANES, DEPTH = 256, BLOCK_ROWS = 192, BLOCK_COLUMNS = 1536 };

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t eight __attribute__((vector_size(4 * LANES)));

/* One operand of a product. If `along` is true, a line in memory runs along the inner dimension. If `along` is false,
 * all elements of a line have the same inner index. */
typedef struct {
    const void *data;
    cs_dtype dtype;
    int64_t leading;
    bool along;
} operand;

bool ce_gemm_fits(void)
{
#if defined(__AVX2__) && !defined(__AVX512F__)
    return true;
#else
    return false;
#endif
}

size_t ce_gemm_scratch(void)
{
    return (size_t)(DEPTH * (BLOCK_ROWS + BLOCK_COLUMNS)) * sizeof(float);
}

/* ---- packing: strips of `width` lines, padded with zeros; a strip has `width` elements for each inner index ---- */

static const float *line_of(const operand *from, int64_t line, int64_t at, int64_t count, float *copy)
{
    cs_tensor flat = { .data = (char *)(uintptr_t)from->data, .dtype = from->dtype };
    return ce_elements_read(flat, line * from->leading + at, count, copy);
}

/* Transposes elements [at, at + 8) of eight lines. */
static inline void transpose(float *restrict to, int64_t stride, const float *const *from, int64_t at)
{
    lanes a[8], b[8];
    for (int i = 0; i < 8; i++)
        a[i] = *(const lanes *)(from[i] + at);
    /* in three steps, elements change places between pairs of lines, between pairs of pairs, and between halves */
    for (int i = 0; i < 4; i++) {
        b[2 * i] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        b[2 * i + 1] = __builtin_shufflevector(a[2 * i], a[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4) {
        for (int j = 0; j < 2; j++) {
            a[i + 2 * j] = __builtin_shufflevector(b[i + j], b[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            a[i + 2 * j + 1] = __builtin_shufflevector(b[i + j], b[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    }
    for (int i = 0; i < 4; i++) {
        *(lanes *)(to + i * stride) = __builtin_shufflevector(a[i], a[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        *(lanes *)(to + (i + 4) * stride) = __builtin_shufflevector(a[i], a[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* Packs lines that are contiguous in the inner dimension: the strip is their transpose. */
static inline void pack_along(float *restrict to, int width, const operand *from, ce_range lines, int64_t at,
                              int64_t depth)
{
    float copy[COLUMNS][DEPTH];
    const float *line[COLUMNS];
    int count = (int)ce_range_length(lines), turned = count / 8 * 8;
    for (int i = 0; i < count; i++)
        line[i] = line_of(from, lines.from + i, at, depth, copy[i]);
    for (int i = 0; i < turned; i += 8)
        for (int64_t k = 0; k + 8 <= depth; k += 8)
            transpose(to + k * width + i, width, line + i, k);
    for (int64_t k = 0; k < depth; k++) {
        for (int i = k < depth / 8 * 8 ? turned : 0; i < count; i++)
            to[k * width + i] = line[i][k];
        for (int i = count; i < width; i++)
            to[k * width + i] = 0;
    }
}

/* Packs lines whose elements all have the same inner index: each line becomes one row of the strip. */
static inline void pack_across(float *restrict to, int width, const operand *from, ce_range lines, int64_t at,
                               int64_t depth)
{
    int count = (int)ce_range_length(lines);
    for (int64_t k = 0; k < depth; k++) {
        float copy[COLUMNS];
        const float *line = line_of(from, at + k, lines.from, count, copy);
        if (count == width) {
            for (int i = 0; i < width; i++)
                to[k * width + i] = line[i];
        } else {
            for (int i = 0; i < width; i++)
                to[k * width + i] = i < count ? line[i] : 0;
        }
    }
}

static inline void pack(float *to, int width, const operand *from, ce_range lines, int64_t at, int64_t depth)
{
    for (int64_t i = lines.from; i < lines.to; i += width, to += width * depth) {
        ce_range strip = { i, i + width < lines.to ? i + width : lines.to };
        if (from->along)
            pack_along(to, width, from, strip, at, depth);
        else
            pack_across(to, width, from, strip, at, depth);
    }
}

/* ---- the tile ---- */

static void multiply_tile(float *restrict c, int64_t ldc, const float *restrict a, const float *restrict b,
                          int64_t depth, bool add)
{
    lanes sum[ROWS][2] = { 0 };
#pragma GCC unroll 6
    for (int i = 0; i < ROWS; i++)
        __builtin_prefetch(c + i * ldc, 1);
    for (int64_t k = 0; k < depth; k++, a += ROWS, b += COLUMNS) {
        lanes left = *(const lanes *)b, right = *(const lanes *)(b + LANES);
#pragma GCC unroll 6
        for (int i = 0; i < ROWS; i++) {
            sum[i][0] += a[i] * left;
            sum[i][1] += a[i] * right;
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < ROWS; i++) {
        lanes *row = (lanes *)(void *)(c + i * ldc);
        if (add) {
            sum[i][0] += row[0];
            sum[i][1] += row[1];
        }
        row[0] = sum[i][0];
        row[1] = sum[i][1];
    }
}

/* Computes a tile that extends beyond the edge of c. The result goes to a buffer, from which the elements inside c are
 * copied. */
static void multiply_edge(float *c, int64_t ldc, const float *a, const float *b, int64_t depth, bool add, int64_t rows,
                          int64_t columns)
{
    float whole[ROWS * COLUMNS];
    multiply_tile(whole, COLUMNS, a, b, depth, false);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            c[i * ldc + j] = add ? c[i * ldc + j] + whole[i * COLUMNS + j] : whole[i * COLUMNS + j];
}

static void multiply_block(float *c, int64_t ldc, const float *a, const float *b, int64_t depth, bool add, int64_t rows,
                           int64_t columns)
{
    for (int64_t j = 0; j < columns; j += COLUMNS) {
        for (int64_t i = 0; i < rows; i += ROWS) {
            float *at = c + i * ldc + j;
            const float *strip = a + i * depth, *other = b + j * depth;
            if (i + ROWS <= rows && j + COLUMNS <= columns)
                multiply_tile(at, ldc, strip, other, depth, add);
            else
                multiply_edge(at, ldc, strip, other, depth, add, rows - i < ROWS ? rows - i : ROWS,
                              columns - j < COLUMNS ? columns - j : COLUMNS);
        }
    }
}

void ce_gemm_run(const ce_panel *panel, cs_dtype dtype, const void *a, const void *b, float *c, float *scratch)
{
    operand left = { a, dtype, panel->lda, !panel->transpose_a };
    operand right = { b, dtype, panel->ldb, panel->transpose_b };
    float *packed_a = scratch, *packed_b = scratch + BLOCK_ROWS * DEPTH;
    for (int64_t j = 0; j < panel->n; j += BLOCK_COLUMNS) {
        ce_range columns = { j, ce_gemm_end(j, BLOCK_COLUMNS, panel->n) };
        for (int64_t k = 0; k < panel->k; k += DEPTH) {
            int64_t depth = ce_gemm_end(k, DEPTH, panel->k) - k;
            bool add = k > 0 || panel->beta != 0;
            pack(packed_b, COLUMNS, &right, columns, k, depth);
            for (int64_t i = 0; i < panel->m; i += BLOCK_ROWS) {
                ce_range rows = { i, ce_gemm_end(i, BLOCK_ROWS, panel->m) };
                pack(packed_a, ROWS, &left, rows, k, depth);
                multiply_block(c + i * panel->ldc + j, panel->ldc, packed_a, packed_b, depth, add,
                               ce_range_length(rows), ce_range_length(columns));
            }
        }
    }
}
