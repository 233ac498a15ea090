/* product.c - matrix products: cut into one panel a thread, widened where the CPU cannot multiply the type.
 *
 * A panel is rows of c, or columns where rows are few. Rows of a panel do not depend on other panels' rows, and a sum over the
 * inner width is never cut, so that the threads change nothing but who computes. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

#include <math.h>
#include <time.h>

enum { FEW_ROWS = 64 }; /* a thread; below, columns are cut */

typedef struct {
    cs_device        *device;
    const cs_product *product;
    cs_panel          whole;
    int               parts;
    bool              by_columns, native;
    const float      *a, *b;  /* fp32, whole; their leading dimensions are whole's */
    float            *result; /* fp32, whole, where c is not */
} job;

static cs_panel whole_of(const cs_product *product)
{
    return (cs_panel){
        .transpose_a = product->transpose_a,
        .transpose_b = product->transpose_b,
        .m           = cs_rows(product->c),
        .n           = cs_columns(product->c),
        .k           = product->transpose_a ? cs_rows(product->a) : cs_columns(product->a),
        .lda         = cs_columns(product->a),
        .ldb         = cs_columns(product->b),
        .ldc         = cs_columns(product->c),
        .beta        = product->add ? 1.0f : 0.0f,
    };
}

/* Where a panel begins in each matrix. */
typedef struct {
    cs_panel panel;
    int64_t  a, b, c, column;
} piece;

static piece piece_of(const job *all, int index)
{
    const cs_panel *whole = &all->whole;
    piece           part  = { .panel = *whole };
    int64_t         step  = all->by_columns ? 16 : 4; /* whole vectors */
    int64_t         width = all->by_columns ? whole->n : whole->m;
    cs_range        units = cs_range_part((width + step - 1) / step, index, all->parts);
    int64_t         from = units.from * step, to = units.to * step < width ? units.to * step : width;
    if (all->by_columns) {
        part.panel.n = to - from;
        part.b       = whole->transpose_b ? from * whole->ldb : from;
        part.c = part.column = from;
    } else {
        part.panel.m = to - from;
        part.a       = whole->transpose_a ? from : from * whole->lda;
        part.c       = from * whole->ldc;
    }
    return part;
}

/* c = result + bias, rounded once. */
static void finish(const job *all, const piece *part)
{
    const cs_product *product = all->product;
    float             bias[CS_CHUNK], wide[CS_CHUNK];
    for (int64_t column = 0; column < part->panel.n; column += CS_CHUNK) {
        int64_t count = part->panel.n - column < CS_CHUNK ? part->panel.n - column : CS_CHUNK;
        if (product->bias.data)
            cs_elements_widen(bias, cs_elements_at(product->bias, part->column + column), product->bias.dtype, count);
        for (int64_t row = 0; row < part->panel.m; row++) {
            int64_t at   = part->c + row * part->panel.ldc + column;
            float  *line = all->result + at;
            if (product->bias.data)
                for (int64_t i = 0; i < count; i++)
                    wide[i] = line[i] + bias[i];
            cs_elements_write(product->c, at, count, product->bias.data ? wide : line);
        }
    }
}

static void run_piece(void *argument, int index, int thread)
{
    const job        *all     = argument;
    const cs_product *product = all->product;
    piece             part    = piece_of(all, index);
    if (all->native) {
        const void *bias = product->bias.data ? cs_elements_at(product->bias, part.column) : NULL;
        cs_matmul_run(cs_cpu_of(all->device)->matmul, &part.panel, product->a.dtype, product->c.dtype,
                      cs_elements_at(product->a, part.a), cs_elements_at(product->b, part.b), bias,
                      cs_elements_at(product->c, part.c), thread);
        return;
    }
    cs_matmul_sgemm(&part.panel, all->a + part.a, all->b + part.b, all->result + part.c);
    if (product->bias.data || product->c.dtype != CS_F32)
        finish(all, &part);
}

typedef struct {
    cs_tensor from;
    float    *to;
} widening;

static void widen_part(void *argument, cs_range range, int part)
{
    (void)part;
    const widening *all = argument;
    cs_elements_widen(all->to + range.from, cs_elements_at(all->from, range.from), all->from.dtype,
                      cs_range_length(range));
}

static const float *widened(cs_device *device, cs_cpu_use use, cs_tensor x)
{
    if (x.dtype == CS_F32)
        return x.data;
    widening all = { x, cs_cpu_workspace(device, use, (size_t)cs_count(x) * sizeof(float)) };
    cs_cpu_walk(device, cs_count(x), 16384, widen_part, &all);
    return all.to;
}

void cs_cpu_product(cs_device *device, const cs_product *product)
{
    cs_cpu *cpu    = cs_cpu_of(device);
    job     all    = { .device = device, .product = product, .whole = whole_of(product) };
    all.by_columns = all.whole.m < FEW_ROWS * device->threads && all.whole.n > all.whole.m;
    all.parts      = cs_cpu_parts(device, all.by_columns ? all.whole.n : all.whole.m, 16);
    all.native     = cs_matmul_native(cpu->matmul, product->a.dtype);
    if (all.native) {
        for (int i = 0; i < all.parts; i++) {
            piece part = piece_of(&all, i);
            cs_matmul_prepare(cpu->matmul, &part.panel, product->a.dtype, product->c.dtype, product->bias.data);
        }
    } else {
        all.a      = widened(device, CS_CPU_LEFT, product->a);
        all.b      = widened(device, CS_CPU_RIGHT, product->b);
        all.result = product->c.dtype == CS_F32 ? product->c.data
                                                : cs_cpu_workspace(device, CS_CPU_RESULT,
                                                                   (size_t)cs_count(product->c) * sizeof(float));
    }
    cs_team_run(cpu->team, all.parts, run_piece, &all);
}

/* ---- bias gradients ---- */

typedef struct {
    cs_tensor sums, x;
} column_job;

enum { STRIP = 64, BLOCK_ROWS = 64 };

/* Rows are added in order, a block of them at a time, so that long sums stay accurate. */
static void sum_strip(const column_job *all, int64_t column, int64_t width)
{
    float *sums = (float *)all->sums.data + column;
    int64_t rows = cs_rows(all->x), columns = cs_columns(all->x);
    for (int64_t from = 0; from < rows; from += BLOCK_ROWS) {
        float   part[STRIP] = { 0 }, wide[STRIP];
        int64_t to          = from + BLOCK_ROWS < rows ? from + BLOCK_ROWS : rows;
        for (int64_t row = from; row < to; row++) {
            const float *x = cs_elements_read(all->x, row * columns + column, width, wide);
            for (int64_t i = 0; i < width; i++)
                part[i] += x[i];
        }
        for (int64_t i = 0; i < width; i++)
            sums[i] += part[i];
    }
}

static void sum_columns(void *argument, cs_range range, int part)
{
    (void)part;
    for (int64_t column = range.from; column < range.to; column += STRIP)
        sum_strip(argument, column, range.to - column < STRIP ? range.to - column : STRIP);
}

void cs_cpu_column_sums(cs_device *device, cs_tensor sums, cs_tensor x)
{
    cs_cpu_walk(device, cs_columns(x), STRIP, sum_columns, &(column_job){ sums, x });
}

/* ---- the roof ---- */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double cs_cpu_roof(cs_device *device, cs_dtype dtype)
{
    enum { SIDE = 1024 };
    size_t    bytes = (size_t)SIDE * SIDE * cs_dtype_bytes(dtype);
    void     *memory[3];
    cs_tensor matrix[3];
    for (int i = 0; i < 3; i++) {
        memory[i] = cs_device_alloc(device, bytes);
        matrix[i] = cs_matrix(memory[i], dtype, SIDE, SIDE);
        cs_cpu_fill(device, matrix[i], 0.5f);
    }
    double best = INFINITY, begin = seconds();
    for (int round = 0; round < 3 || seconds() - begin < 0.05; round++) {
        double from = seconds();
        cs_cpu_product(device, &(cs_product){ .c = matrix[0], .a = matrix[1], .b = matrix[2] });
        best = fmin(best, seconds() - from);
    }
    for (int i = 0; i < 3; i++)
        cs_device_free(device, memory[i]);
    return 2.0 * SIDE * SIDE * SIDE / best;
}
