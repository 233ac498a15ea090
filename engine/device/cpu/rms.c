/* rms.c - RMSNorm of rows, or of heads within rows. The rows are divided into parts. Each part computes its own partial
 * sums of the gradient of the weight. At the end, the partial sums of all parts are added in order. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

#include <math.h>

typedef struct {
    cs_tensor y, stats, x, dy, dx;
    const float *weight; /* an fp32 copy, `width` elements */
    /* Scratch memory: ROWS rows for each part. Forward uses two of the rows: y, and x as fp32. Backward uses all four:
     * dx, x and dy as fp32, and the gradient of the weight. */
    float *rows;
    float epsilon;
    int64_t width, first, heads;
} rms_job;

enum { MIN_ROWS = 8, OUT = 0, WIDE_X, WIDE_DY, SUM, ROWS };

static rms_job make_job(cs_device *device, cs_tensor stats, cs_tensor x, cs_tensor weight, int64_t first)
{
    int64_t width = cs_count(weight), padded = ce_round_up(width, 16);
    int64_t parts = ce_cpu_parts(device, cs_rows(x), MIN_ROWS);
    float *scratch = ce_cpu_workspace(device, CE_CPU_SCRATCH, (size_t)(padded * (1 + ROWS * parts)) * sizeof(float));
    ce_elements_widen(scratch, weight.data, weight.dtype, width);
    return (rms_job){ .stats = stats,
                      .x = x,
                      .weight = scratch,
                      .rows = scratch + padded,
                      .width = width,
                      .first = first,
                      .heads = cs_columns(stats) };
}

static float *row_of(const rms_job *all, int part, int which)
{
    return all->rows + (part * ROWS + which) * ce_round_up(all->width, 16);
}

static int64_t place_of(const rms_job *all, int64_t row, int64_t head)
{
    return row * cs_columns(all->x) + all->first + head * all->width;
}

static void scale_head(float *restrict y, const float *restrict x, const float *restrict weight, int64_t width,
                       float rstd)
{
    for (int64_t i = 0; i < width; i++)
        y[i] = x[i] * rstd * weight[i];
}

static void rms_rows(void *argument, ce_range range, int part)
{
    const rms_job *all = argument;
    float *stats = all->stats.data, *out = row_of(all, part, OUT);
    for (int64_t item = range.from * all->heads; item < range.to * all->heads; item++) {
        int64_t place = place_of(all, item / all->heads, item % all->heads);
        const float *x = ce_elements_read(all->x, place, all->width, row_of(all, part, WIDE_X));
        float rstd = 1 / sqrtf(ce_elements_dot(x, x, all->width) / (float)all->width + all->epsilon);
        stats[item] = rstd;
        scale_head(out, x, all->weight, all->width, rstd);
        ce_elements_write(all->y, place, all->width, out);
    }
}

void ce_cpu_rms(cs_device *device, cs_tensor y, cs_tensor stats, cs_tensor x, cs_tensor weight, int64_t first,
                float epsilon)
{
    rms_job all = make_job(device, stats, x, weight, first);
    all.y = y;
    all.epsilon = epsilon;
    ce_cpu_walk(device, cs_rows(x), MIN_ROWS, rms_rows, &all);
}

/* First half of backward. With n = x rstd and g = dy weight, adds dy n to dweight and writes g to `out`. */
static void first_half(float *restrict out, float *restrict dweight, const float *restrict x, const float *restrict dy,
                       const float *restrict weight, int64_t width, float rstd)
{
    for (int64_t i = 0; i < width; i++) {
        dweight[i] += dy[i] * (x[i] * rstd);
        out[i] = dy[i] * weight[i];
    }
}

/* Second half of backward: computes dx = rstd (g - n mean of g n); `slope` is rstd times that mean. */
static void second_half(float *restrict out, const float *restrict x, int64_t width, float rstd, float slope)
{
    for (int64_t i = 0; i < width; i++)
        out[i] = rstd * (out[i] - x[i] * slope);
}

static void rms_grad_rows(void *argument, ce_range range, int part)
{
    const rms_job *all = argument;
    const float *stats = all->stats.data;
    float *out = row_of(all, part, OUT), *dweight = row_of(all, part, SUM);
    memset(dweight, 0, (size_t)all->width * sizeof(float));
    for (int64_t item = range.from * all->heads; item < range.to * all->heads; item++) {
        int64_t place = place_of(all, item / all->heads, item % all->heads);
        float rstd = stats[item];
        const float *x = ce_elements_read(all->x, place, all->width, row_of(all, part, WIDE_X));
        const float *dy = ce_elements_read(all->dy, place, all->width, row_of(all, part, WIDE_DY));
        first_half(out, dweight, x, dy, all->weight, all->width, rstd);
        float mean = ce_elements_dot(out, x, all->width) * rstd / (float)all->width;
        second_half(out, x, all->width, rstd, mean * rstd);
        ce_elements_write(all->dx, place, all->width, out);
    }
}

void ce_cpu_rms_grad(cs_device *device, cs_tensor dx, cs_tensor dweight, cs_tensor dy, cs_tensor x, cs_tensor stats,
                     cs_tensor weight, int64_t first)
{
    rms_job all = make_job(device, stats, x, weight, first);
    all.dx = dx;
    all.dy = dy;
    ce_cpu_walk(device, cs_rows(x), MIN_ROWS, rms_grad_rows, &all);
    for (int part = 0; part < ce_cpu_parts(device, cs_rows(x), MIN_ROWS); part++)
        ce_elements_grow(dweight, row_of(&all, part, SUM), part == 0);
}
