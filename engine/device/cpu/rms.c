/* rms.c - RMSNorm of rows, or of heads within rows. The rows are divided into parts. Each part computes its own partial
 * sums of the gradient of the weight. At the end, the partial sums of all parts are added in order. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

#include <math.h>

typedef struct {
    cs_tensor y, stats, x, dy, dx;
    /* for columns that are divided over ranks: for each row, the sum over all ranks that forward or backward needs; else
     * absent */
    cs_tensor sums;
    const float *weight; /* an fp32 copy, `width` elements */
    /* Scratch memory: ROWS rows for each part. Forward uses two of the rows: y, and x as fp32. Backward uses all four:
     * dx, x and dy as fp32, and the gradient of the weight. */
    float *rows;
    float epsilon;
    int64_t width, first, heads;
    int64_t whole; /* number of elements that are normalized together: `width`, or the columns of all ranks */
} rms_job;

enum { MIN_ROWS = 8, OUT = 0, WIDE_X, WIDE_DY, SUM, ROWS };

static rms_job make_job(cs_device *device, cs_tensor stats, cs_tensor x, cs_tensor weight, int64_t width, int64_t first)
{
    int64_t padded = ce_round_up(width, 16);
    int64_t parts = ce_cpu_parts(device, cs_rows(x), MIN_ROWS);
    float *scratch = ce_cpu_workspace(device, CE_CPU_SCRATCH, (size_t)(padded * (1 + ROWS * parts)) * sizeof(float));
    if (weight.data)
        ce_elements_widen(scratch, weight.data, weight.dtype, width);
    return (rms_job){ .stats = stats,
                      .x = x,
                      .weight = scratch,
                      .rows = scratch + padded,
                      .width = width,
                      .whole = width,
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
    const float *sums = all->sums.data;
    for (int64_t item = range.from * all->heads; item < range.to * all->heads; item++) {
        int64_t place = place_of(all, item / all->heads, item % all->heads);
        const float *x = ce_elements_read(all->x, place, all->width, row_of(all, part, WIDE_X));
        float sum = sums ? sums[item] : ce_elements_dot(x, x, all->width);
        float rstd = 1 / sqrtf(sum / (float)all->whole + all->epsilon);
        stats[item] = rstd;
        scale_head(out, x, all->weight, all->width, rstd);
        ce_elements_write(all->y, place, all->width, out);
    }
}

void ce_cpu_rms(cs_device *device, cs_tensor y, cs_tensor stats, cs_tensor x, cs_tensor weight, int64_t first,
                float epsilon)
{
    rms_job all = make_job(device, stats, x, weight, cs_count(weight), first);
    all.y = y;
    all.epsilon = epsilon;
    ce_cpu_walk(device, cs_rows(x), MIN_ROWS, rms_rows, &all);
}

void ce_cpu_rms_apply(cs_device *device, cs_tensor y, cs_tensor stats, cs_tensor sums, cs_tensor x, cs_tensor weight,
                      int64_t first, int64_t whole, float epsilon)
{
    rms_job all = make_job(device, stats, x, weight, cs_count(weight), first);
    all.y = y;
    all.sums = sums;
    all.whole = whole;
    all.epsilon = epsilon;
    ce_cpu_walk(device, cs_rows(x), MIN_ROWS, rms_rows, &all);
}

static void sums_rows(void *argument, ce_range range, int part)
{
    const rms_job *all = argument;
    float *out = row_of(all, part, OUT);
    for (int64_t row = range.from; row < range.to; row++) {
        int64_t place = place_of(all, row, 0);
        const float *x = ce_elements_read(all->x, place, all->width, row_of(all, part, WIDE_X)), *other = x;
        if (all->dy.data) {
            const float *dy = ce_elements_read(all->dy, place, all->width, row_of(all, part, WIDE_DY));
            scale_head(out, dy, all->weight, all->width, 1);
            other = out;
        }
        ((float *)all->stats.data)[row] = ce_elements_dot(other, x, all->width);
    }
}

void ce_cpu_rms_sums(cs_device *device, cs_tensor sums, cs_tensor dy, cs_tensor x, cs_tensor weight, int64_t first,
                     int64_t columns)
{
    rms_job all = make_job(device, sums, x, weight, columns, first);
    all.dy = dy;
    ce_cpu_walk(device, cs_rows(x), MIN_ROWS, sums_rows, &all);
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
    const float *stats = all->stats.data, *dots = all->sums.data;
    float *out = row_of(all, part, OUT), *dweight = row_of(all, part, SUM);
    memset(dweight, 0, (size_t)all->width * sizeof(float));
    for (int64_t item = range.from * all->heads; item < range.to * all->heads; item++) {
        int64_t place = place_of(all, item / all->heads, item % all->heads);
        float rstd = stats[item];
        const float *x = ce_elements_read(all->x, place, all->width, row_of(all, part, WIDE_X));
        const float *dy = ce_elements_read(all->dy, place, all->width, row_of(all, part, WIDE_DY));
        first_half(out, dweight, x, dy, all->weight, all->width, rstd);
        float dot = dots ? dots[item] : ce_elements_dot(out, x, all->width);
        float mean = dot * rstd / (float)all->whole;
        second_half(out, x, all->width, rstd, mean * rstd);
        ce_elements_write(all->dx, place, all->width, out);
    }
}

static void run_grad(cs_device *device, rms_job *all, cs_tensor dweight)
{
    ce_cpu_walk(device, cs_rows(all->x), MIN_ROWS, rms_grad_rows, all);
    for (int part = 0; part < ce_cpu_parts(device, cs_rows(all->x), MIN_ROWS); part++)
        ce_elements_grow(dweight, row_of(all, part, SUM), part == 0);
}

void ce_cpu_rms_grad(cs_device *device, cs_tensor dx, cs_tensor dweight, cs_tensor dy, cs_tensor x, cs_tensor stats,
                     cs_tensor weight, int64_t first)
{
    rms_job all = make_job(device, stats, x, weight, cs_count(weight), first);
    all.dx = dx;
    all.dy = dy;
    run_grad(device, &all, dweight);
}

void ce_cpu_rms_grad_apply(cs_device *device, cs_tensor dx, cs_tensor dweight, cs_tensor dots, cs_tensor dy,
                           cs_tensor x, cs_tensor stats, cs_tensor weight, int64_t first, int64_t whole)
{
    rms_job all = make_job(device, stats, x, weight, cs_count(weight), first);
    all.dx = dx;
    all.dy = dy;
    all.sums = dots;
    all.whole = whole;
    run_grad(device, &all, dweight);
}
