/* norm.c - LayerNorm, row by row. The rows are divided into parts. Each part computes its own partial sums of the
 * gradients of weight and bias. At the end, the partial sums of all parts are added in order. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

#include <math.h>

typedef struct {
    cs_tensor y, stats, x, dy, dx;
    const float *weight, *bias; /* fp32 copies, `columns` elements each */
    /* Scratch memory: ROWS rows for each part. Forward uses two of the rows: x as fp32, and y. Backward uses all six: n
     * and g (see first_half), the gradients of weight and bias, and x and dy as fp32. */
    float *rows;
    float epsilon;
    int64_t columns;
} norm_job;

enum { MIN_ROWS = 8, ROWS = 6 };

/* Allocates memory for fp32 copies of weight and bias, and for ROWS rows for each part. Each of these rows and copies
 * has `columns` floats, rounded up to a multiple of 16. */
static norm_job make_job(cs_device *device, cs_tensor x, cs_tensor weight, cs_tensor bias)
{
    int64_t columns = cs_columns(x), parts = ce_cpu_parts(device, cs_rows(x), MIN_ROWS);
    int64_t padded = ce_round_up(columns, 16);
    float *scratch = ce_cpu_workspace(device, CE_CPU_SCRATCH, (size_t)(padded * (2 + ROWS * parts)) * sizeof(float));
    ce_elements_widen(scratch, weight.data, weight.dtype, columns);
    if (bias.data)
        ce_elements_widen(scratch + padded, bias.data, bias.dtype, columns);
    return (norm_job){
        .x = x, .weight = scratch, .bias = scratch + padded, .rows = scratch + 2 * padded, .columns = columns
    };
}

static float *row_of(const norm_job *all, int part, int which)
{
    return all->rows + (part * ROWS + which) * ce_round_up(all->columns, 16);
}

static void scale_row(float *restrict y, const float *restrict x, const norm_job *all, float mean, float rstd)
{
    const float *restrict weight = all->weight, *restrict bias = all->bias;
    for (int64_t i = 0; i < all->columns; i++)
        y[i] = (x[i] - mean) * rstd * weight[i] + bias[i];
}

static void norm_rows(void *argument, ce_range range, int part)
{
    const norm_job *all = argument;
    int64_t columns = all->columns;
    float *stats = all->stats.data, *wide = row_of(all, part, 0), *out = row_of(all, part, 1);
    for (int64_t row = range.from; row < range.to; row++) {
        const float *x = ce_elements_read(all->x, row * columns, columns, wide);
        float mean = ce_elements_sum(x, columns) / (float)columns;
        float rstd = 1 / sqrtf(ce_elements_spread(x, columns, mean) / (float)columns + all->epsilon);
        stats[2 * row] = mean;
        stats[2 * row + 1] = rstd;
        scale_row(out, x, all, mean, rstd);
        ce_elements_write(all->y, row * columns, columns, out);
    }
}

void ce_cpu_norm(cs_device *device, cs_tensor y, cs_tensor stats, cs_tensor x, cs_tensor weight, cs_tensor bias,
                 float epsilon)
{
    norm_job all = make_job(device, x, weight, bias);
    all.y = y;
    all.stats = stats;
    all.epsilon = epsilon;
    ce_cpu_walk(device, cs_rows(x), MIN_ROWS, norm_rows, &all);
}

/* First half of backward. With n = (x - mean) rstd and g = dy weight, adds dy n to dweight and dy to dbias, and writes
 * g to `out` and n to `normal`. */
static void first_half(float *restrict normal, float *restrict out, float *restrict dweight, float *restrict dbias,
                       const float *restrict x, const float *restrict dy, const float *restrict weight, int64_t columns,
                       float mean, float rstd)
{
    for (int64_t i = 0; i < columns; i++) {
        float n = (x[i] - mean) * rstd;
        normal[i] = n;
        out[i] = dy[i] * weight[i];
        dweight[i] += dy[i] * n;
        dbias[i] += dy[i];
    }
}

/* Second half of backward: computes dx = rstd (g - mean of g - n mean of g n). */
static void second_half(float *restrict out, const float *restrict normal, int64_t columns, float mean_g, float mean_gn,
                        float rstd)
{
    for (int64_t i = 0; i < columns; i++)
        out[i] = rstd * (out[i] - mean_g - normal[i] * mean_gn);
}

static void norm_grad_rows(void *argument, ce_range range, int part)
{
    const norm_job *all = argument;
    int64_t columns = all->columns;
    const float *stats = all->stats.data;
    float *normal = row_of(all, part, 0), *out = row_of(all, part, 1);
    float *dweight = row_of(all, part, 2), *dbias = row_of(all, part, 3);
    memset(dweight, 0, (size_t)columns * sizeof(float));
    memset(dbias, 0, (size_t)columns * sizeof(float));
    for (int64_t row = range.from; row < range.to; row++) {
        float mean = stats[2 * row], rstd = stats[2 * row + 1];
        const float *x = ce_elements_read(all->x, row * columns, columns, row_of(all, part, 4));
        const float *dy = ce_elements_read(all->dy, row * columns, columns, row_of(all, part, 5));
        first_half(normal, out, dweight, dbias, x, dy, all->weight, columns, mean, rstd);
        float mean_g = ce_elements_sum(out, columns) / (float)columns;
        float mean_gn = ce_elements_dot(out, normal, columns) / (float)columns;
        second_half(out, normal, columns, mean_g, mean_gn, rstd);
        ce_elements_write(all->dx, row * columns, columns, out);
    }
}

void ce_cpu_norm_grad(cs_device *device, cs_tensor dx, cs_tensor dweight, cs_tensor dbias, cs_tensor dy, cs_tensor x,
                      cs_tensor stats, cs_tensor weight)
{
    norm_job all = make_job(device, x, weight, (cs_tensor){ 0 });
    all.stats = stats;
    all.dx = dx;
    all.dy = dy;
    ce_cpu_walk(device, cs_rows(x), MIN_ROWS, norm_grad_rows, &all);
    int parts = ce_cpu_parts(device, cs_rows(x), MIN_ROWS);
    for (int part = 0; part < parts; part++) {
        ce_elements_grow(dweight, row_of(&all, part, 2), part == 0);
        ce_elements_grow(dbias, row_of(&all, part, 3), part == 0);
    }
}
