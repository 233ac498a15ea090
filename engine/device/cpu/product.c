/* product.c - matrix products, split into one panel for each thread. All panels of a product are computed by one
 * method: the method that was chosen for the product's class, or the method of the rule FIXED.
 *
 * A panel is a range of rows of c, or of columns if c has more columns than rows. The rows of a panel do not depend on
 * other panels, and the sum over the inner dimension is never split between threads. The methods are those of
 * device/products.h: NATIVE, oneDNN's primitives (matmul.c); PACKED, our own product (gemm.c); TILES, X6 and X3, our own
 * products on tile registers (tile_product.c); SGEMM, oneDNN's sgemm, on fp32 copies of 16-bit operands. On CPUs for
 * which gemm.c is compiled, FIXED is PACKED for 16-bit operands, and for fp32 panels that are small in one dimension,
 * for which sgemm is slow; everything else is SGEMM. If c is 16-bit, SGEMM and PACKED compute c one strip at a time.
 * gemv.c computes the products in which c has few rows.
 *
 * On CPUs with AMX, oneDNN's fast bf16 products need a c whose rows are adjacent, so there NATIVE is cut by rows. */
#include "device/cpu/cpu.h"
#include "base/clock.h"
#include "device/cpu/elements.h"
#include "device/cpu/gemm.h"
#include "device/cpu/tile_product.h"

#include <math.h>
#include <string.h>

enum { TINY = 48, SMALL = 384, STRIP_ROWS = 1024, STRIP_COLUMNS = 1536, STEADY_WIDTH = 128, ENOUGH_ROWS = 64 };

typedef struct {
    cs_device *device;
    const ce_product *product;
    ce_panel whole;
    ce_method how;
    int parts;
    bool by_columns;
    int64_t step; /* the product is cut into panels at multiples of this number of rows or columns: borders of tiles */
    cs_tensor a, b; /* the product's operands, or fp32 copies of them */
    float *strips;  /* strips of results in fp32, one for each thread, if c is 16-bit */
    /* scratch memory for methods other than SGEMM: thread t has the `stride` bytes that begin at t * stride */
    char *scratch;
    size_t stride;
} job;

static ce_panel whole_of(const ce_product *product)
{
    return (ce_panel){
        .transpose_a = product->transpose_a,
        .transpose_b = product->transpose_b,
        .m = cs_rows(product->c),
        .n = cs_columns(product->c),
        .k = product->transpose_a ? cs_rows(product->a) : cs_columns(product->a),
        .lda = cs_columns(product->a),
        .ldb = cs_columns(product->b),
        .ldc = product->pitch ? product->pitch : cs_columns(product->c),
        .beta = product->add ? 1.0f : 0.0f,
    };
}

/* A panel of a product, the index of the panel's first element in each of the matrices a, b and c, and its first
 * column. */
typedef struct {
    ce_panel panel;
    int64_t a, b, c, column;
} piece;

static piece cut(piece from, ce_range rows, ce_range columns)
{
    const ce_panel *panel = &from.panel;
    from.a += panel->transpose_a ? rows.from : rows.from * panel->lda;
    from.b += panel->transpose_b ? columns.from * panel->ldb : columns.from;
    from.c += rows.from * panel->ldc + columns.from;
    from.column += columns.from;
    from.panel.m = ce_range_length(rows);
    from.panel.n = ce_range_length(columns);
    return from;
}

static piece piece_of(const job *all, int index)
{
    int64_t m = all->whole.m, n = all->whole.n, width = all->by_columns ? n : m;
    ce_range part = ce_range_part(ce_divide_up(width, all->step), index, all->parts);
    part = (ce_range){ part.from * all->step, part.to * all->step < width ? part.to * all->step : width };
    piece whole = { .panel = all->whole };
    return all->by_columns ? cut(whole, (ce_range){ 0, m }, part) : cut(whole, part, (ce_range){ 0, n });
}

static void multiply(const job *all, const piece *part, float *c, int thread)
{
    const void *a = ce_elements_at(all->a, part->a), *b = ce_elements_at(all->b, part->b);
    if (all->how == CE_METHOD_PACKED)
        ce_gemm_run(&part->panel, all->a.dtype, a, b, c,
                    (float *)(void *)(all->scratch + (size_t)thread * all->stride));
    else
        ce_matmul_sgemm(&part->panel, a, b, c);
}

/* Sets c to result + bias, and rounds each element once. `result` has its own leading dimension, and may be the same
 * memory as c. */
static void finish(const job *all, const piece *part, const float *result, int64_t leading)
{
    const ce_product *product = all->product;
    float bias[CE_CHUNK], wide[CE_CHUNK];
    for (int64_t column = 0; column < part->panel.n; column += CE_CHUNK) {
        int64_t count = ce_elements_chunk(column, part->panel.n);
        if (product->bias.data)
            ce_elements_widen(bias, ce_elements_at(product->bias, part->column + column), product->bias.dtype, count);
        for (int64_t row = 0; row < part->panel.m; row++) {
            const float *line = result + row * leading + column;
            if (product->bias.data)
                for (int64_t i = 0; i < count; i++)
                    wide[i] = line[i] + bias[i];
            ce_elements_write(product->c, part->c + row * part->panel.ldc + column, count,
                              product->bias.data ? wide : line);
        }
    }
}

static void run_strips(const job *all, const piece *part, int thread)
{
    float *result = all->strips + (int64_t)thread * STRIP_ROWS * STRIP_COLUMNS;
    for (int64_t column = 0; column < part->panel.n; column += STRIP_COLUMNS) {
        for (int64_t row = 0; row < part->panel.m; row += STRIP_ROWS) {
            piece strip = cut(*part, (ce_range){ row, ce_gemm_end(row, STRIP_ROWS, part->panel.m) },
                              (ce_range){ column, ce_gemm_end(column, STRIP_COLUMNS, part->panel.n) });
            piece beside = strip;
            beside.panel.ldc = strip.panel.n;
            multiply(all, &beside, result, thread);
            finish(all, &strip, result, strip.panel.n);
        }
    }
}

static ce_matmul_shape native_shape(const job *all, const ce_panel *panel)
{
    const ce_product *product = all->product;
    return (ce_matmul_shape){ *panel, product->a.dtype, product->c.dtype, product->bias.data };
}

static void run_native(const job *all, const piece *part, int thread)
{
    const ce_product *product = all->product;
    ce_matmul_shape shape = native_shape(all, &part->panel);
    ce_matmul_operands with = {
        .a = ce_elements_at(product->a, part->a),
        .b = ce_elements_at(product->b, part->b),
        .bias = product->bias.data ? ce_elements_at(product->bias, part->column) : NULL,
        .c = ce_elements_at(product->c, part->c),
        .scratch = all->scratch + (size_t)thread * all->stride,
    };
    ce_matmul_run(ce_cpu_of(all->device)->matmul, &shape, &with, thread);
}

static bool on_tiles(ce_method how)
{
    return how == CE_METHOD_TILES || how == CE_METHOD_X6 || how == CE_METHOD_X3;
}

static int tile_parts(ce_method how)
{
    return how == CE_METHOD_TILES ? 1 : how == CE_METHOD_X3 ? 2 : 3;
}

static void run_tiles(const job *all, const piece *part, int thread)
{
    const ce_product *product = all->product;
    const ce_panel *panel = &part->panel;
    int parts = tile_parts(all->how);
    ce_tile_product run = {
        .m = panel->m,
        .n = panel->n,
        .k = panel->k,
        .a = { ce_elements_at(product->a, part->a), panel->lda, !panel->transpose_a, false, parts },
        .b = { ce_elements_at(product->b, part->b), panel->ldb, panel->transpose_b, true, parts },
        .c = product->c,
        .ldc = panel->ldc,
        .add = panel->beta != 0,
        .bias = product->bias,
    };
    run.c.data = ce_elements_at(product->c, part->c);
    if (product->bias.data)
        run.bias.data = ce_elements_at(product->bias, part->column);
    ce_tile_product_run(&run, all->scratch + (size_t)thread * all->stride);
}

static void run_piece(void *argument, int index, int thread)
{
    const job *all = argument;
    const ce_product *product = all->product;
    piece part = piece_of(all, index);
    if (all->how == CE_METHOD_NATIVE) {
        run_native(all, &part, thread);
    } else if (on_tiles(all->how)) {
        run_tiles(all, &part, thread);
    } else if (product->c.dtype != CS_F32) {
        run_strips(all, &part, thread);
    } else {
        float *c = (float *)product->c.data + part.c;
        multiply(all, &part, c, thread);
        if (product->bias.data)
            finish(all, &part, c, part.panel.ldc);
    }
}

typedef struct {
    cs_tensor from;
    float *to;
} widening;

static void widen_part(void *argument, ce_range range, int part)
{
    (void)part;
    const widening *all = argument;
    ce_elements_widen(all->to + range.from, ce_elements_at(all->from, range.from), all->from.dtype,
                      ce_range_length(range));
}

static cs_tensor widened(cs_device *device, ce_cpu_use use, cs_tensor x)
{
    if (x.dtype == CS_F32)
        return x;
    widening all = { x, ce_cpu_workspace(device, use, (size_t)cs_count(x) * sizeof(float)) };
    ce_cpu_walk(device, cs_count(x), 16384, widen_part, &all);
    x.data = all.to;
    x.dtype = CS_F32;
    return x;
}

ce_method ce_cpu_fixed_method(const ce_panel *panel, cs_dtype dtype)
{
    bool weak = panel->m >= TINY && (panel->m < SMALL || panel->n < SMALL);
    return ce_gemm_fits() && (dtype != CS_F32 || weak) ? CE_METHOD_PACKED : CE_METHOD_SGEMM;
}

/* The choice of methods is measured with many tokens. So products of few fp32 rows, as in text generation, use FIXED
 * and not the chosen method. */
static ce_method choose(const job *all)
{
    const ce_product_choice *choice = &ce_cpu_of(all->device)->choice;
    cs_dtype dtype = all->product->a.dtype;
    ce_panel panel = piece_of(all, 0).panel;
    ce_product_class of = ce_product_class_of(all->product);
    bool measured = choice->count > 0, few = dtype == CS_F32 && panel.m < TINY;
    ce_method how = dtype == choice->dtype && !(measured && few) ? ce_products_method(choice, &of) : CE_METHOD_FIXED;
    return how == CE_METHOD_FIXED ? ce_cpu_fixed_method(&panel, dtype) : how;
}

/* Panels of one product differ in size, so their primitives need scratch memory of different sizes. Each thread gets
 * the largest of these sizes. */
static size_t prepare_native(const job *all)
{
    size_t max = 0;
    for (int i = 0; i < all->parts; i++) {
        ce_panel panel = piece_of(all, i).panel;
        ce_matmul_shape shape = native_shape(all, &panel);
        size_t bytes = ce_matmul_prepare(ce_cpu_of(all->device)->matmul, &shape);
        max = bytes > max ? bytes : max;
    }
    return max;
}

/* The first panel is the largest one. */
static size_t prepare_tiles(const job *all)
{
    ce_panel panel = piece_of(all, 0).panel;
    return ce_tile_product_scratch(panel.m, panel.n, panel.k, tile_parts(all->how));
}

static void prepare(job *all)
{
    const ce_product *product = all->product;
    size_t threads = (size_t)all->device->threads;
    all->a = product->a;
    all->b = product->b;
    if (all->how == CE_METHOD_SGEMM) {
        all->a = widened(all->device, CE_CPU_LEFT, product->a);
        all->b = widened(all->device, CE_CPU_RIGHT, product->b);
    } else {
        size_t bytes = all->how == CE_METHOD_NATIVE ? prepare_native(all)
                       : on_tiles(all->how)         ? prepare_tiles(all)
                                                    : ce_gemm_scratch();
        all->stride = (size_t)ce_round_up((int64_t)bytes + (bytes == 0), 64);
        all->scratch = ce_cpu_workspace(all->device, CE_CPU_SCRATCH, all->stride * threads);
    }
    if ((all->how == CE_METHOD_SGEMM || all->how == CE_METHOD_PACKED) && product->c.dtype != CS_F32)
        all->strips = ce_cpu_workspace(all->device, CE_CPU_RESULT,
                                       (size_t)(STRIP_ROWS * STRIP_COLUMNS) * sizeof(float) * threads);
}

/* Divides a product into panels of rows, or of columns, at multiples of `step`: at most one panel for each thread. */
static void divide(job *all, bool by_columns, int64_t step)
{
    all->by_columns = by_columns;
    all->step = step;
    all->parts = ce_cpu_parts(all->device, by_columns ? all->whole.n : all->whole.m, step > 16 ? step : 16);
}

/* Computes a product by the method `how`. CE_METHODS stands for the method that the device has chosen for this
 * product. */
static void run_job(job *all, ce_method how)
{
    bool wide = all->whole.n > all->whole.m;
    divide(all, wide, wide ? 16 : 6);
    all->how = how == CE_METHODS ? choose(all) : how;
    if (on_tiles(all->how))
        divide(all, wide, CE_TILE_PRODUCT_CUT);
    else if (all->how == CE_METHOD_NATIVE && all->device->isa == CE_ISA_AMX && all->product->a.dtype == CS_BF16)
        divide(all, wide && all->whole.m < ENOUGH_ROWS * all->device->threads, 16);
    prepare(all);
    ce_team_run(ce_cpu_of(all->device)->team, all->parts, run_piece, all);
}

/* As run_job, but gemv.c computes the product if c has few rows. */
static void run_product(cs_device *device, const ce_product *product, ce_method how)
{
    job all = { .device = device, .product = product, .whole = whole_of(product) };
    if (ce_gemv_fits(product))
        ce_gemv_run(device, product);
    else
        run_job(&all, how);
}

void ce_cpu_product(cs_device *device, const ce_product *product)
{
    run_product(device, product, CE_METHODS);
}

/* Products on tiles have the same bits however they are cut, and for any number of rows. */
static ce_method steady_method(const cs_device *device, const ce_product *product)
{
    const ce_product_choice *choice = &((const ce_cpu *)device->private_data)->choice;
    if (choice->dtype == product->a.dtype)
        for (int how = CE_METHOD_TILES; how < CE_METHODS; how++)
            if (ce_products_methods(choice) & 1u << how)
                return (ce_method)how;
    return ce_gemm_fits() ? CE_METHOD_PACKED : CE_METHOD_SGEMM;
}

void ce_cpu_reserve_steady(cs_device *device, const ce_product *most)
{
    ce_method how = steady_method(device, most);
    ce_panel whole = whole_of(most);
    if (on_tiles(how))
        ce_cpu_workspace(device, CE_CPU_SCRATCH,
                         (size_t)device->threads * ce_tile_product_scratch(whole.m, whole.n, whole.k, tile_parts(how)));
}

void ce_cpu_steady_product(cs_device *device, const ce_product *product)
{
    if (ce_gemv_fits(product) && product->transpose_b) {
        ce_gemv_run(device, product);
        return;
    }
    job all = {
        .device = device, .product = product, .whole = whole_of(product), .how = steady_method(device, product)
    };
    all.by_columns = all.whole.n > all.whole.m;
    all.step = on_tiles(all.how) ? CE_TILE_PRODUCT_CUT : all.by_columns ? 16 : 6;
    int64_t parts = (all.by_columns ? all.whole.n : all.whole.m) / STEADY_WIDTH;
    all.parts = parts < 1 ? 1 : (int)parts;
    prepare(&all);
    ce_team_run(ce_cpu_of(device)->team, all.parts, run_piece, &all);
}

void ce_cpu_product_panel(cs_device *device, const ce_product *product, const ce_panel *panel, ce_method method)
{
    run_job(&(job){ .device = device, .product = product, .whole = *panel }, method);
}

/* ---- bias gradients ---- */

typedef struct {
    cs_tensor sums, x;
} column_job;

enum { STRIP = 64, BLOCK_ROWS = 64 };

/* Rows are added in order, one block of rows at a time, so that long sums stay accurate. */
static void sum_strip(const column_job *all, int64_t column, int64_t width)
{
    float *sums = (float *)all->sums.data + column;
    int64_t rows = cs_rows(all->x), columns = cs_columns(all->x);
    if (all->sums.overwrite)
        memset(sums, 0, (size_t)width * sizeof *sums);
    for (int64_t from = 0; from < rows; from += BLOCK_ROWS) {
        float part[STRIP] = { 0 }, wide[STRIP];
        int64_t to = from + BLOCK_ROWS < rows ? from + BLOCK_ROWS : rows;
        for (int64_t row = from; row < to; row++) {
            const float *x = ce_elements_read(all->x, row * columns + column, width, wide);
            for (int64_t i = 0; i < width; i++)
                part[i] += x[i];
        }
        for (int64_t i = 0; i < width; i++)
            sums[i] += part[i];
    }
}

static void sum_columns(void *argument, ce_range range, int part)
{
    (void)part;
    for (int64_t column = range.from; column < range.to; column += STRIP)
        sum_strip(argument, column, range.to - column < STRIP ? range.to - column : STRIP);
}

void ce_cpu_column_sums(cs_device *device, cs_tensor sums, cs_tensor x)
{
    ce_cpu_walk(device, cs_columns(x), STRIP, sum_columns, &(column_job){ sums, x });
}

/* ---- the peak rate of products (the roof) ---- */

/* The sides of the square matrices. They are no powers of two, because rows whose bytes are a power of two would compete
 * for the same cache sets. */
enum { SIDE = 1056, TRIAL_SIDE = 528 };

/* Multiplies square matrices of `side` rows twice or more often, for at least `seconds` seconds. Returns the best rate
 * in FLOP/s. */
static double square_rate(cs_device *device, void *const memory[3], cs_dtype dtype, int side, ce_method how,
                          double seconds)
{
    ce_product product = { .c = cs_matrix(memory[0], dtype, side, side),
                           .a = cs_matrix(memory[1], dtype, side, side),
                           .b = cs_matrix(memory[2], dtype, side, side) };
    double best = INFINITY, begin = ce_clock_seconds();
    for (int round = 0; round < 2 || ce_clock_seconds() - begin < seconds; round++) {
        double from = ce_clock_seconds();
        run_product(device, &product, how);
        best = fmin(best, ce_clock_seconds() - from);
    }
    return 2.0 * side * side * side / best;
}

double ce_cpu_roof(cs_device *device, cs_dtype dtype)
{
    size_t bytes = (size_t)SIDE * SIDE * cs_dtype_bytes(dtype);
    unsigned methods = ce_cpu_methods(device, dtype, false);
    ce_method fastest = CE_METHOD_FIXED;
    double best = 0;
    void *memory[3];
    for (int i = 0; i < 3; i++) {
        memory[i] = ce_device_alloc(device, bytes);
        ce_cpu_fill(device, cs_matrix(memory[i], dtype, SIDE, SIDE), 0.5f);
    }
    for (int how = CE_METHOD_NATIVE; how < CE_METHODS; how++) {
        double rate = methods & 1u << how ? square_rate(device, memory, dtype, TRIAL_SIDE, (ce_method)how, 0.004) : 0;
        fastest = rate > best ? (ce_method)how : fastest;
        best = fmax(best, rate);
    }
    best = fmax(best, square_rate(device, memory, dtype, SIDE, fastest, 0.03));
    for (int i = 0; i < 3; i++)
        ce_device_free(device, memory[i]);
    return best;
}
