/* vector.c - element by element operations (add, cast, fill), and the exact sums of flat state. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

#include <math.h>

enum { MIN_ELEMENTS = 16384, BLOCK = 64 };

typedef struct {
    cs_tensor y, a, b;
    float value;
} vector_job;

static void add(float *restrict y, const float *restrict a, const float *restrict b, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = a[i] + b[i];
}

static void add_chunk(const void *argument, int64_t at, int64_t count)
{
    const vector_job *all = argument;
    float wide_a[CE_CHUNK], wide_b[CE_CHUNK], out[CE_CHUNK];
    const float *a = ce_elements_read(all->a, at, count, wide_a);
    add(out, a, ce_elements_read(all->b, at, count, wide_b), count);
    ce_elements_write(all->y, at, count, out);
}

void ce_cpu_add(cs_stream *stream, cs_tensor y, cs_tensor a, cs_tensor b)
{
    ce_cpu_walk_chunks(stream->device, cs_count(y), MIN_ELEMENTS, add_chunk, &(vector_job){ .y = y, .a = a, .b = b });
}

static void copy_part(void *argument, ce_range range, int part)
{
    (void)part;
    const vector_job *all = argument;
    size_t bytes = cs_dtype_bytes(all->y.dtype);
    memcpy((char *)all->y.data + (size_t)range.from * bytes, (const char *)all->a.data + (size_t)range.from * bytes,
           (size_t)ce_range_length(range) * bytes);
}

static void cast_chunk(const void *argument, int64_t at, int64_t count)
{
    const vector_job *all = argument;
    float wide[CE_CHUNK];
    ce_elements_write(all->y, at, count, ce_elements_read(all->a, at, count, wide));
}

void ce_cpu_cast(cs_device *device, cs_tensor y, cs_tensor x)
{
    vector_job all = { .y = y, .a = x };
    if (y.dtype == x.dtype)
        ce_cpu_walk(device, cs_count(y), MIN_ELEMENTS, copy_part, &all);
    else
        ce_cpu_walk_chunks(device, cs_count(y), MIN_ELEMENTS, cast_chunk, &all);
}

static void fill_part(void *argument, ce_range range, int part)
{
    (void)part;
    const vector_job *all = argument;
    float same[CE_CHUNK];
    for (int64_t i = 0; i < CE_CHUNK; i++)
        same[i] = all->value;
    for (int64_t at = range.from; at < range.to; at += CE_CHUNK)
        ce_elements_write(all->y, at, ce_elements_chunk(at, range.to), same);
}

void ce_cpu_fill(cs_device *device, cs_tensor y, float value)
{
    ce_cpu_walk(device, cs_count(y), MIN_ELEMENTS, fill_part, &(vector_job){ .y = y, .value = value });
}

/* ---- exact sums: each part has one sum; the sums are merged in any order, because integer additions are exact ---- */

typedef struct {
    ce_exact *sum;
    cs_tensor of; /* the tensor whose sum of squares is computed */
    int64_t lead; /* lead: number of elements of the first block of 64 that come before the tensor */
    const float *values;
    double unscale;
    pthread_mutex_t lock;
} sum_job;

static void merge(sum_job *all, const ce_exact *partial)
{
    pthread_mutex_lock(&all->lock);
    ce_exact_merge(all->sum, partial);
    pthread_mutex_unlock(&all->lock);
}

static int64_t count_nonfinite(const float *values, int64_t count)
{
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++)
        found += !isfinite(values[i]);
    return found;
}

/* Returns the sum of a block's 64 squares. The squares are added in a fixed order: first to eight sums of eight squares
 * each, then these sums to each other. */
static double sum_block(const float *g)
{
    double lane[8] = { 0 };
    for (int row = 0; row < BLOCK; row += 8)
        for (int i = 0; i < 8; i++)
            lane[i] += (double)g[row + i] * (double)g[row + i];
    return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

/* Returns elements [at, at + BLOCK) of the tensor `of`; elements outside of the tensor are 0. */
static const float *read_block(const sum_job *all, int64_t at, float *block)
{
    int64_t from = at < 0 ? 0 : at, count = cs_count(all->of), to = at + BLOCK < count ? at + BLOCK : count;
    if (to - from == BLOCK)
        return ce_elements_read(all->of, at, BLOCK, block);
    memset(block, 0, BLOCK * sizeof *block);
    ce_elements_widen(block + (from - at), ce_elements_at(all->of, from), all->of.dtype, to - from);
    return block;
}

static void sum_squares_part(void *argument, ce_range range, int part)
{
    (void)part;
    sum_job *all = argument;
    ce_exact partial = { 0 };
    float block[BLOCK];
    for (int64_t at = range.from; at < range.to; at += BLOCK) {
        const float *g = read_block(all, at - all->lead, block);
        double sum = sum_block(g);
        if (isfinite(sum))
            ce_exact_add(&partial, sum * all->unscale * all->unscale);
        else
            partial.nonfinite += count_nonfinite(g, BLOCK);
    }
    merge(all, &partial);
}

void ce_cpu_sum_squares(cs_stream *stream, ce_exact *sum, cs_tensor g, int64_t lead, double unscale)
{
    sum_job all = { sum, g, lead, NULL, unscale, PTHREAD_MUTEX_INITIALIZER };
    ce_cpu_walk(stream->device, ce_round_up(lead + cs_count(g), BLOCK), MIN_ELEMENTS, sum_squares_part, &all);
}

static void sum_part(void *argument, ce_range range, int part)
{
    (void)part;
    sum_job *all = argument;
    ce_exact partial = { 0 };
    for (int64_t i = range.from; i < range.to; i++)
        ce_exact_add(&partial, (double)all->values[i]);
    merge(all, &partial);
}

void ce_cpu_sum(cs_stream *stream, ce_exact *sum, const float *values, int64_t count)
{
    sum_job all = { sum, { 0 }, 0, values, 1, PTHREAD_MUTEX_INITIALIZER };
    ce_cpu_walk(stream->device, count, MIN_ELEMENTS, sum_part, &all);
}

void ce_cpu_add_counts(cs_stream *stream, int64_t *sums, const int32_t *counts, int64_t count)
{
    (void)stream;
    for (int64_t i = 0; i < count; i++)
        sums[i] += counts[i];
}
