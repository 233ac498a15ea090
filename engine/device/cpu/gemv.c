/* gemv.c - matrix products with few rows (gemv), as text generation makes them: they are bound by the bandwidth with
 * which the weights are read.
 *
 * Each weight is read once for all rows of a. A thread reads a range of lines of b as a few streams. Each stream is a
 * range of consecutive lines, as long as possible, because the CPU's prefetcher starts anew where a stream ends. If b
 * is (inner, columns), the threads divide the inner dimension, and the partial sums of all threads are added at the
 * end, in order.
 *
 * Weights are converted to fp32 in registers, or, on CPUs with AVX512_BF16, multiplied as pairs of bf16 elements. The
 * terms of an element of c are added in one order, whatever the number of rows is. So a generated text is the same
 * alone and in a batch of texts. */
#include "device/cpu/gemm.h"
#include "device/cpu/elements.h"
#include "device/cpu/lanes.h"

#ifdef __AVX512F__
enum { LINES = 4 };
#else
enum { LINES = 2 };
#endif
enum { MAX_ROWS = 8, COLUMNS = 256, STREAMS = 8, MIN_LINES = 64, MIN_SUMS = 8192 };

/* What a 32-bit word of the matrices `a` and `b` holds while it is multiplied. FROM_...: one fp32 element; the elements
 * of `b` have the named type in memory, and are converted to fp32. PAIRS: a pair of bf16 elements. */
typedef enum { FROM_F32 = CS_F32, FROM_BF16 = CS_BF16, FROM_F16 = CS_F16, PAIRS } word_form;

typedef struct {
    const ce_product *product;
    word_form form;
    const uint32_t *a;           /* the elements of a in words, (rows, stride); each row is padded with zeros */
    int64_t rows, inner, stride; /* `stride`: number of words in a row of `a` */
    /* partial sums (parts, rows, columns), used if the inner dimension is divided into parts */
    float *sums;
    int parts;
} job;

bool ce_gemv_fits(const ce_product *product)
{
    return !product->transpose_a && !product->pitch && cs_rows(product->c) <= MAX_ROWS;
}

/* Returns sum + x b, where x and b have fp32 elements or pairs of bf16 elements. */
static inline ce_lanes multiply_add(ce_lanes sum, ce_lanes x, ce_lanes b, word_form form)
{
#ifdef __AVX512F__
    if (form == PAIRS) {
        /* This is inline assembly, because only this instruction belongs to a higher set of instructions than the rest
         * of this file. */
        __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(b), "v"(x));
        return sum;
    }
#endif
    (void)form;
    return sum + x * b;
}

/* ---- b (inner, columns): the lines of b are added up, each multiplied by its element of a ---- */

/* One line of b for each stream, and the words of a that multiply these lines. */
typedef struct {
    const void *line[STREAMS];
    uint32_t x[MAX_ROWS][STREAMS];
    int64_t rows;
} slab;

/* Returns CE_LANES columns, from column `at` on, of line w. If words are pairs, returns pairs of these columns of lines
 * 2 w and 2 w + 1. */
static inline ce_lanes load_across(const slab *all, int w, int64_t at, word_form form)
{
    if (form != PAIRS)
        return ce_lanes_load(all->line[w], at, (cs_dtype)form);
    ce_lane_words low = (ce_lane_words)ce_lanes_load(all->line[2 * w], at, CS_BF16);
    ce_lane_words high = (ce_lane_words)ce_lanes_load(all->line[2 * w + 1], at, CS_BF16);
    return (ce_lanes)(low >> 16 | high);
}

/* Adds the products of a slab (one line of each stream) to columns [from, to) of `sum`. `leading` is the leading
 * dimension of `sum`. */
static inline void add_slab(float *restrict sum, int64_t leading, const slab *all, int64_t from, int64_t to,
                            word_form form)
{
    const int depth = STREAMS / (form == PAIRS ? 2 : 1);
    for (int64_t j = from; j < to; j += CE_LANES) {
        ce_lanes b[STREAMS];
        for (int w = 0; w < depth; w++)
            b[w] = load_across(all, w, j, form);
        for (int64_t i = 0; i < all->rows; i++) {
            ce_lanes s = *(ce_lanes *)(sum + i * leading + j);
            for (int w = 0; w < depth; w++)
                s = multiply_add(s, (ce_lanes)((ce_lane_words){ 0 } + all->x[i][w]), b[w], form);
            *(ce_lanes *)(sum + i * leading + j) = s;
        }
    }
}

static void add_slab_of(float *sum, int64_t leading, const slab *all, int64_t from, int64_t to, word_form form)
{
    if (form == FROM_F32)
        add_slab(sum, leading, all, from, to, FROM_F32);
    else if (form == FROM_BF16)
        add_slab(sum, leading, all, from, to, FROM_BF16);
    else if (form == FROM_F16)
        add_slab(sum, leading, all, from, to, FROM_F16);
    else
        add_slab(sum, leading, all, from, to, PAIRS);
}

/* Adds the products for the last columns, whose number is less than CE_LANES, by means of padded copies. */
static void add_edge(float *sum, int64_t leading, const slab *all, int64_t from, int64_t count, const job *of)
{
    slab edge = *all;
    float copy[STREAMS][CE_LANES] = { 0 }, part[MAX_ROWS][CE_LANES] = { 0 };
    size_t bytes = cs_dtype_bytes(of->product->b.dtype);
    for (int k = 0; k < STREAMS; k++) {
        memcpy(copy[k], (const char *)all->line[k] + (size_t)from * bytes, (size_t)count * bytes);
        edge.line[k] = copy[k];
    }
    for (int64_t i = 0; i < all->rows; i++)
        memcpy(part[i], sum + i * leading + from, (size_t)count * sizeof(float));
    add_slab_of(part[0], CE_LANES, &edge, 0, CE_LANES, of->form);
    for (int64_t i = 0; i < all->rows; i++)
        memcpy(sum + i * leading + from, part[i], (size_t)count * sizeof(float));
}

/* Selects line number `line` of b for stream k. If the stream has ended, the line may be any line, because it is
 * multiplied by 0. */
static void select_line(const job *all, slab *next, int k, int64_t line, bool ended)
{
    next->line[k] = ce_elements_at(all->product->b, line * cs_columns(all->product->b));
    for (int64_t i = 0; i < all->rows; i++) {
        const uint32_t *row = all->a + i * all->stride;
        if (all->form != PAIRS)
            next->x[i][k] = ended ? 0 : row[line];
        else
            ((uint16_t *)(void *)next->x[i])[k] = ended ? 0 : ((const uint16_t *)(const void *)row)[line];
    }
}

/* Adds up a range of lines of b, each multiplied by its element of a. */
static void across(void *argument, ce_range lines, int part)
{
    const job *all = argument;
    int64_t columns = cs_columns(all->product->b), whole = columns / CE_LANES * CE_LANES;
    int64_t length = ce_divide_up(ce_range_length(lines), STREAMS);
    float *sum = all->sums + part * all->rows * columns;
    memset(sum, 0, (size_t)(all->rows * columns) * sizeof *sum);
    slab next = { .rows = all->rows };
    for (int64_t at = 0; at < length; at++) {
        for (int k = 0; k < STREAMS; k++) {
            int64_t line = lines.from + k * length + at;
            select_line(all, &next, k, line < lines.to ? line : lines.from, line >= lines.to);
        }
        add_slab_of(sum, columns, &next, 0, whole, all->form);
        if (whole < columns)
            add_edge(sum, columns, &next, whole, columns - whole, all);
    }
}

/* ---- b (columns, inner): an element of c is the dot product of two lines ---- */

/* Pairs of 16-bit elements; the first pair of a line may begin at any element. */
typedef float pairs __attribute__((vector_size(4 * CE_LANES), aligned(2), may_alias));

static inline ce_lanes load_along(const void *line, int64_t word, word_form form)
{
    if (form == PAIRS)
        return *(const pairs *)((const uint16_t *)line + 2 * word);
    return ce_lanes_load(line, word, (cs_dtype)form);
}

/* One line of b for each stream, and copies of the last words of these lines, padded with zeros. */
typedef struct {
    const void *line[LINES];
    uint32_t tail[LINES][CE_LANES];
    int64_t whole; /* number of words of a line that come before the copied words */
} bundle;

/* Computes the products of rows [first, first + rows) of a and of all lines of b. `rows` is a constant in each call. */
static inline void dot_rows(float sum[MAX_ROWS][LINES], const job *all, const bundle *b, int64_t first, int rows,
                            word_form form)
{
    ce_lanes part[MAX_ROWS][LINES] = { 0 };
    const uint32_t *a = all->a + first * all->stride;
    for (int64_t w = 0; w < b->whole; w += CE_LANES) {
        ce_lanes right[LINES];
        for (int t = 0; t < LINES; t++)
            right[t] = load_along(b->line[t], w, form);
        for (int i = 0; i < rows; i++)
            for (int t = 0; t < LINES; t++)
                part[i][t] = multiply_add(part[i][t], *(const ce_lanes *)(a + i * all->stride + w), right[t], form);
    }
    if (b->whole < all->stride)
        for (int i = 0; i < rows; i++)
            for (int t = 0; t < LINES; t++)
                part[i][t] = multiply_add(part[i][t], *(const ce_lanes *)(a + i * all->stride + b->whole),
                                          load_along(b->tail[t], 0, form), form);
    for (int i = 0; i < rows; i++)
        for (int t = 0; t < LINES; t++)
            sum[first + i][t] = ce_lanes_sum(part[i][t]);
}

static inline void dot_all_rows(float sum[MAX_ROWS][LINES], const job *all, const bundle *b, word_form form)
{
    int64_t i = 0;
    for (; i + 4 <= all->rows; i += 4)
        dot_rows(sum, all, b, i, 4, form);
    for (; i < all->rows; i++)
        dot_rows(sum, all, b, i, 1, form);
}

static void dot_bundle(float sum[MAX_ROWS][LINES], const job *all, const int64_t columns[LINES])
{
    cs_tensor b = all->product->b;
    int64_t each = all->form == PAIRS ? 2 : 1; /* number of elements in a word */
    bundle some = { .whole = all->inner / each / CE_LANES * CE_LANES };
    int64_t rest = all->inner - some.whole * each;
    for (int t = 0; t < LINES; t++) {
        some.line[t] = ce_elements_at(b, columns[t] * all->inner);
        memcpy(some.tail[t], ce_elements_at(b, (columns[t] + 1) * all->inner - rest),
               (size_t)rest * cs_dtype_bytes(b.dtype));
    }
    if (all->form == FROM_F32)
        dot_all_rows(sum, all, &some, FROM_F32);
    else if (all->form == FROM_BF16)
        dot_all_rows(sum, all, &some, FROM_BF16);
    else if (all->form == FROM_F16)
        dot_all_rows(sum, all, &some, FROM_F16);
    else
        dot_all_rows(sum, all, &some, PAIRS);
}

/* ---- c ---- */

/* Writes `count` elements of each row of c, from `column` on: the sum plus the bias. If the product is added to c, the
 * old value of c is added too. */
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

/* Computes a range of columns of c. A stream that has ended computes its last column again. */
static void along(void *argument, ce_range range, int part)
{
    (void)part;
    const job *all = argument;
    float sum[LINES][MAX_ROWS][COLUMNS], some[MAX_ROWS][LINES];
    int64_t length = ce_divide_up(ce_range_length(range), LINES), columns[LINES];
    for (int64_t from = 0, to; from < length; from = to) {
        to = from + COLUMNS < length ? from + COLUMNS : length;
        for (int64_t at = from; at < to; at++) {
            for (int t = 0; t < LINES; t++) {
                int64_t column = range.from + t * length + at;
                columns[t] = column < range.to ? column : range.to - 1;
            }
            dot_bundle(some, all, columns);
            for (int t = 0; t < LINES; t++)
                for (int64_t i = 0; i < all->rows; i++)
                    sum[t][i][at - from] = some[i][t];
        }
        for (int t = 0; t < LINES; t++) {
            ce_range left = { range.from + t * length + from, range.from + t * length + to };
            left.to = left.to < range.to ? left.to : range.to;
            if (left.from < left.to)
                write_rows(all, left.from, ce_range_length(left), sum[t]);
        }
    }
}

/* Adds the partial sums of all parts in order, and writes the totals to c. */
static void add_parts(void *argument, ce_range range, int part)
{
    (void)part;
    const job *all = argument;
    int64_t columns = cs_columns(all->product->c);
    float sum[MAX_ROWS][COLUMNS];
    for (int64_t column = range.from; column < range.to; column += COLUMNS) {
        int64_t count = range.to - column < COLUMNS ? range.to - column : COLUMNS;
        for (int64_t i = 0; i < all->rows; i++) {
            const float *from = all->sums + i * columns + column;
            memcpy(sum[i], from, (size_t)count * sizeof(float));
            for (int p = 1; p < all->parts; p++)
                for (int64_t j = 0; j < count; j++)
                    sum[i][j] += from[p * all->rows * columns + j];
        }
        write_rows(all, column, count, sum);
    }
}

/* ---- the product ---- */

static word_form form_of(const cs_device *device, cs_dtype dtype)
{
#ifdef __AVX512F__
    if (dtype == CS_BF16 && device->isa >= CE_ISA_AVX512_BF16)
        return PAIRS;
#endif
    (void)device;
    return (word_form)dtype;
}

static void copy_a(job *all, uint32_t *to)
{
    cs_tensor a = all->product->a;
    memset(to, 0, (size_t)(all->rows * all->stride) * sizeof *to);
    for (int64_t i = 0; i < all->rows; i++) {
        const void *row = ce_elements_at(a, i * all->inner);
        if (all->form == PAIRS)
            memcpy(to + i * all->stride, row, (size_t)all->inner * cs_dtype_bytes(a.dtype));
        else
            ce_elements_widen((float *)(void *)(to + i * all->stride), row, a.dtype, all->inner);
    }
    all->a = to;
}

void ce_gemv_run(cs_device *device, const ce_product *product)
{
    int64_t columns = cs_columns(product->c);
    job all = { .product = product, .rows = cs_rows(product->c), .inner = cs_columns(product->a) };
    all.form = form_of(device, product->a.dtype);
    all.stride = ce_round_up(all.form == PAIRS ? (all.inner + 1) / 2 : all.inner, CE_LANES);
    copy_a(&all, ce_cpu_workspace(device, CE_CPU_LEFT, (size_t)(all.rows * all.stride) * sizeof *all.a));
    if (product->transpose_b) {
        ce_cpu_walk(device, columns, MIN_LINES, along, &all);
        return;
    }
    all.parts = ce_cpu_parts(device, all.inner, MIN_LINES);
    all.sums = ce_cpu_workspace(device, CE_CPU_SCRATCH, (size_t)(all.parts * all.rows * columns) * sizeof(float));
    ce_cpu_walk(device, all.inner, MIN_LINES, across, &all);
    ce_cpu_walk(device, columns, MIN_SUMS / all.rows, add_parts, &all);
}
