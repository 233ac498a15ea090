/* gemv.c - matrix products with few rows (gemv), as text generation makes them: they are bound by the bandwidth with
 * which the weights are read.
 *
 * Each weight is read once, and converted to fp32 in registers, for all rows of a. An element of c is the same sum in
 * the same order whatever the number of rows is, so a text is the same alone and in a batch of texts. */
#include "device/cpu/gemm.h"
#include "device/cpu/elements.h"

#include <string.h>

enum { MAX_ROWS = 8, LANES = 16, COLUMNS = 1024, DEPTH = 8, SETS = 2, MIN_COLUMNS = 64 };

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t words __attribute__((vector_size(4 * LANES)));
typedef uint16_t halves __attribute__((vector_size(2 * LANES), aligned(2), may_alias));

typedef struct {
    const ce_product *product;
    const float *a; /* (rows, inner), fp32 */
    int64_t rows, inner;
} job;

bool ce_gemv_fits(const ce_product *product)
{
    return !product->transpose_a && cs_rows(product->c) <= MAX_ROWS;
}

/* Returns LANES elements of a line of weights, from element `at` on. Callers pass a constant dtype. */
static inline lanes load(const void *line, int64_t at, cs_dtype dtype)
{
    if (dtype == CS_F32)
        return *(const lanes *)((const float *)line + at);
    words half = __builtin_convertvector(*(const halves *)((const uint16_t *)line + at), words);
    if (dtype == CS_BF16)
        return (lanes)(half << 16);
    words rest = (half & 0x7fff) << 13; /* fp16: exponents that are smaller by 112, and infinity and NaN as large */
    words finite = (words)((lanes)rest * 0x1p112f), large = (words)(rest >= 0x0f800000);
    return (lanes)((large & (rest | 0x7f800000)) | (~large & finite) | (half & 0x8000) << 16);
}

/* ---- b (inner, columns): the lines of b are added up, each multiplied by its element of a ---- */

/* DEPTH lines of b, from one line and column on; x: the elements of a that multiply them. */
typedef struct {
    const void *line[DEPTH];
    float x[MAX_ROWS][DEPTH];
} slab;

static inline void add_slab(float sum[MAX_ROWS][COLUMNS], const slab *all, int64_t rows, int64_t from, int64_t to,
                            cs_dtype dtype)
{
    for (int64_t j = from; j < to; j += LANES) {
        lanes b[DEPTH];
        for (int k = 0; k < DEPTH; k++)
            b[k] = load(all->line[k], j, dtype);
        for (int64_t i = 0; i < rows; i++) {
            lanes s = *(lanes *)(sum[i] + j);
            for (int k = 0; k < DEPTH; k++)
                s += all->x[i][k] * b[k];
            *(lanes *)(sum[i] + j) = s;
        }
    }
}

static void add_slab_of(float sum[MAX_ROWS][COLUMNS], const slab *all, int64_t rows, int64_t from, int64_t to,
                        cs_dtype dtype)
{
    if (dtype == CS_F32)
        add_slab(sum, all, rows, from, to, CS_F32);
    else if (dtype == CS_BF16)
        add_slab(sum, all, rows, from, to, CS_BF16);
    else
        add_slab(sum, all, rows, from, to, CS_F16);
}

/* Adds the last columns, fewer than LANES, from a padded copy. */
static void add_edge(float sum[MAX_ROWS][COLUMNS], const slab *all, int64_t rows, int64_t from, int64_t count,
                     cs_dtype dtype)
{
    slab edge = *all;
    float copy[DEPTH][LANES] = { 0 };
    size_t bytes = cs_dtype_bytes(dtype);
    for (int k = 0; k < DEPTH; k++) {
        memcpy(copy[k], (const char *)all->line[k] + (size_t)from * bytes, (size_t)count * bytes);
        edge.line[k] = (const char *)copy[k] - (size_t)from * bytes;
    }
    add_slab_of(sum, &edge, rows, from, from + 1, dtype);
}

static void across(const job *all, int64_t column, int64_t count, float sum[MAX_ROWS][COLUMNS])
{
    static const float zeros[COLUMNS];
    cs_tensor b = all->product->b;
    int64_t whole = count / LANES * LANES;
    for (int64_t from = 0; from < all->inner; from += DEPTH) {
        int64_t depth = all->inner - from < DEPTH ? all->inner - from : DEPTH;
        slab part = { 0 };
        for (int64_t k = 0; k < DEPTH; k++)
            part.line[k] = k < depth ? ce_elements_at(b, (from + k) * cs_columns(b) + column) : (const void *)zeros;
        for (int64_t i = 0; i < all->rows; i++)
            memcpy(part.x[i], all->a + i * all->inner + from, (size_t)depth * sizeof(float));
        add_slab_of(sum, &part, all->rows, 0, whole, b.dtype);
        if (whole < count)
            add_edge(sum, &part, all->rows, whole, count - whole, b.dtype);
    }
}

/* ---- b (columns, inner): an element of c is the dot product of two lines ---- */

static float add_lanes(lanes x)
{
    float sum = 0;
    for (int i = 0; i < LANES; i++)
        sum += x[i];
    return sum;
}

/* Callers pass a constant number of rows. */
static inline void dot_line(float *sum, const job *all, const void *line, int64_t first, int64_t rows, cs_dtype dtype)
{
    lanes part[MAX_ROWS][SETS] = { 0 };
    const float *a = all->a + first * all->inner;
    int64_t k = 0;
    for (; k + SETS * LANES <= all->inner; k += SETS * LANES) {
        for (int set = 0; set < SETS; set++) {
            lanes b = load(line, k + set * LANES, dtype);
            for (int64_t i = 0; i < rows; i++)
                part[i][set] += *(const lanes *)(a + i * all->inner + k + set * LANES) * b;
        }
    }
    float tail[SETS * LANES];
    ce_elements_widen(tail, (const char *)line + (size_t)k * cs_dtype_bytes(dtype), dtype, all->inner - k);
    for (int64_t i = 0; i < rows; i++) {
        sum[i * COLUMNS] = add_lanes(part[i][0] + part[i][1]);
        for (int64_t j = k; j < all->inner; j++)
            sum[i * COLUMNS] += a[i * all->inner + j] * tail[j - k];
    }
}

static inline void dot_rows(float *sum, const job *all, const void *line, cs_dtype dtype)
{
    int64_t i = 0;
    for (; i + 4 <= all->rows; i += 4)
        dot_line(sum + i * COLUMNS, all, line, i, 4, dtype);
    for (; i < all->rows; i++)
        dot_line(sum + i * COLUMNS, all, line, i, 1, dtype);
}

static void along(const job *all, int64_t column, int64_t count, float sum[MAX_ROWS][COLUMNS])
{
    cs_tensor b = all->product->b;
    for (int64_t j = 0; j < count; j++) {
        const void *line = ce_elements_at(b, (column + j) * cs_columns(b));
        if (b.dtype == CS_F32)
            dot_rows(sum[0] + j, all, line, CS_F32);
        else if (b.dtype == CS_BF16)
            dot_rows(sum[0] + j, all, line, CS_BF16);
        else
            dot_rows(sum[0] + j, all, line, CS_F16);
    }
}

/* ---- all columns ---- */

/* Writes `count` elements of each row of c, from `column` on: the sum and the bias, and c itself if it is added to. */
static void write_rows(const job *all, int64_t column, int64_t count, float sum[MAX_ROWS][COLUMNS])
{
    const ce_product *product = all->product;
    float wide[COLUMNS];
    for (int64_t i = 0; i < all->rows; i++) {
        int64_t at = i * cs_columns(product->c) + column;
        if (product->bias.data) {
            const float *bias = ce_elements_read(product->bias, column, count, wide);
            for (int64_t j = 0; j < count; j++)
                sum[i][j] += bias[j];
        }
        if (product->add) {
            const float *before = ce_elements_read(product->c, at, count, wide);
            for (int64_t j = 0; j < count; j++)
                sum[i][j] += before[j];
        }
        ce_elements_write(product->c, at, count, sum[i]);
    }
}

static void multiply_columns(void *argument, ce_range range, int part)
{
    (void)part;
    const job *all = argument;
    for (int64_t column = range.from; column < range.to; column += COLUMNS) {
        int64_t count = range.to - column < COLUMNS ? range.to - column : COLUMNS;
        float sum[MAX_ROWS][COLUMNS];
        for (int64_t i = 0; i < all->rows; i++)
            memset(sum[i], 0, sizeof sum[i]);
        (all->product->transpose_b ? along : across)(all, column, count, sum);
        write_rows(all, column, count, sum);
    }
}

void ce_gemv_run(cs_device *device, const ce_product *product)
{
    job all = { .product = product, .rows = cs_rows(product->c), .inner = cs_columns(product->a) };
    all.a = product->a.data;
    if (product->a.dtype != CS_F32) {
        float *wide = ce_cpu_workspace(device, CS_CPU_LEFT, (size_t)cs_count(product->a) * sizeof *wide);
        ce_elements_widen(wide, product->a.data, product->a.dtype, cs_count(product->a));
        all.a = wide;
    }
    ce_cpu_walk(device, cs_columns(product->c), MIN_COLUMNS, multiply_columns, &all);
}
