/* columns.c - adds a narrow matrix to some columns of a wide matrix, and copies such columns to a narrow matrix. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

enum { MIN_ROWS = 8 };

static void add_chunk(float *restrict out, const float *restrict y, const float *restrict x, float scale, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = y[i] + scale * x[i];
}

static void columns_chunk(const void *argument, int64_t row, int64_t at, int64_t count)
{
    const ce_columns *job = argument;
    int64_t narrow = row * cs_columns(job->narrow) + at, wide = row * cs_columns(job->wide) + job->first + at;
    float wide_x[CE_CHUNK], wide_y[CE_CHUNK], out[CE_CHUNK];
    const float *y = ce_elements_read(job->wide, wide, count, wide_y);
    if (job->takes) {
        ce_elements_scale(out, y, job->scale, count);
        ce_elements_write(job->narrow, narrow, count, out);
        return;
    }
    add_chunk(out, y, ce_elements_read(job->narrow, narrow, count, wide_x), job->scale, count);
    ce_elements_write(job->wide, wide, count, out);
}

void ce_cpu_columns(cs_device *device, const ce_columns *job)
{
    ce_cpu_walk_rows(device, cs_rows(job->narrow), cs_columns(job->narrow), MIN_ROWS, columns_chunk, job);
}
