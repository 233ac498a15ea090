/* columns.c - adds a narrow matrix to some columns of a wide matrix, and copies such columns to a narrow matrix. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

enum { MIN_ROWS = 8 };

static void add_chunk(float *restrict out, const float *restrict y, const float *restrict x, float scale, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = y[i] + scale * x[i];
}

static void columns_rows(void *argument, ce_range range, int part)
{
    (void)part;
    const ce_columns *job = argument;
    int64_t columns = cs_columns(job->narrow);
    float wide_x[CE_CHUNK], wide_y[CE_CHUNK], out[CE_CHUNK];
    for (int64_t row = range.from; row < range.to; row++)
        for (int64_t at = 0; at < columns; at += CE_CHUNK) {
            int64_t count = columns - at < CE_CHUNK ? columns - at : CE_CHUNK;
            int64_t narrow = row * columns + at, wide = row * cs_columns(job->wide) + job->first + at;
            const float *y = ce_elements_read(job->wide, wide, count, wide_y);
            if (job->takes) {
                ce_elements_scale(out, y, job->scale, count);
                ce_elements_write(job->narrow, narrow, count, out);
                continue;
            }
            add_chunk(out, y, ce_elements_read(job->narrow, narrow, count, wide_x), job->scale, count);
            ce_elements_write(job->wide, wide, count, out);
        }
}

void ce_cpu_columns(cs_device *device, const ce_columns *job)
{
    ce_columns all = *job;
    ce_cpu_walk(device, cs_rows(job->narrow), MIN_ROWS, columns_rows, &all);
}
