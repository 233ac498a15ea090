/* broadcast.c - sums and products of a matrix and a matrix, a row, a column or a number; the sums of rows. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

enum { MIN_ELEMENTS = 8192, MIN_ROWS = 8 };

/* Computes `count` elements of y from `at` on. b[i] is element i * step of `b`. */
static void combine(const ce_broadcast *all, int64_t at, int64_t b_at, int64_t step, int64_t count)
{
    float wide_a[CE_CHUNK], wide_b[CE_CHUNK], out[CE_CHUNK], factor = all->factor;
    const float *a = NULL, *b = ce_elements_read(all->b, b_at, step ? count : 1, wide_b);
    if (all->a.data)
        a = ce_elements_read(all->a, at, count, wide_a);
    float one = b[0];
    for (int64_t i = 0; !step && i < count; i++)
        wide_b[i] = one;
    b = step ? b : wide_b;
    for (int64_t i = 0; i < count && !a; i++)
        out[i] = factor * b[i];
    for (int64_t i = 0; i < count && a; i++)
        out[i] = all->multiplies ? a[i] * b[i] : a[i] + factor * b[i];
    ce_elements_write(all->y, at, count, out);
}

static void same_chunk(const void *argument, int64_t at, int64_t count)
{
    combine(argument, at, at, 1, count);
}

static void row_chunk(const void *argument, int64_t row, int64_t at, int64_t count)
{
    const ce_broadcast *all = argument;
    int64_t columns = cs_columns(all->y), b_row = cs_rows(all->b) == 1 ? 0 : row;
    if (cs_columns(all->b) == columns)
        combine(all, row * columns + at, b_row * columns + at, 1, count);
    else
        combine(all, row * columns + at, b_row, 0, count);
}

void ce_cpu_broadcast(cs_device *device, const ce_broadcast *job)
{
    if (cs_count(job->y) == cs_count(job->b))
        ce_cpu_walk_chunks(device, cs_count(job->y), MIN_ELEMENTS, same_chunk, job);
    else
        ce_cpu_walk_rows(device, cs_rows(job->y), cs_columns(job->y), MIN_ROWS, row_chunk, job);
}

typedef struct {
    cs_tensor sums, x;
    float factor;
} sum_job;

static void sum_rows(void *argument, ce_range range, int part)
{
    (void)part;
    const sum_job *all = argument;
    int64_t columns = cs_columns(all->x);
    float wide[CE_CHUNK];
    for (int64_t row = range.from; row < range.to; row++) {
        double sum = 0;
        for (int64_t at = 0; at < columns; at += CE_CHUNK) {
            int64_t count = ce_elements_chunk(at, columns);
            sum += (double)ce_elements_sum(ce_elements_read(all->x, row * columns + at, count, wide), count);
        }
        ((float *)all->sums.data)[row] = all->factor * (float)sum;
    }
}

void ce_cpu_row_sums(cs_device *device, cs_tensor sums, cs_tensor x, float factor)
{
    ce_cpu_walk(device, cs_rows(x), MIN_ROWS, sum_rows, &(sum_job){ sums, x, factor });
}
