/* attention.c - causal self-attention, forward: one task for each query head of a sample.
 *
 * For each block of queries, a task iterates over the blocks of keys that these queries see. For each query row, the
 * task keeps the maximum of the scores so far, the sum of the scores' exponentials, and the sum of the values (rows of
 * v): each value is multiplied by the exponential of the score of its key. When the maximum grows, both sums are
 * rescaled (online softmax). Forward stores the log of each softmax denominator; backward computes the probabilities
 * from it again. */
#include "device/cpu/attention.h"
#include "device/cpu/dropout.h"

#include <float.h>
#include <math.h>

/* ---- what forward and backward share ---- */

ce_attention_job ce_attention_job_of(cs_device *device, const ce_attention_args *given)
{
    ce_attention_job all = { .given = given, .length = cs_columns(given->lse) };
    bool pairs = given->y.dtype == CS_BF16 && ce_cpu_computes_bf16(device) && device->isa >= CE_ISA_AVX512_BF16 &&
                 ce_tile_has_pairs();
    all.lines = ce_round_up(all.length, CE_BLOCK / 2);
    all.width = cs_columns(given->y) / given->heads.queries;
    all.wide = ce_round_up(all.width, CE_LANES);
    all.each = pairs ? 2 : 1;
    all.depth = ce_divide_up(all.width, all.each);
    all.group = given->heads.queries / given->heads.keys;
    all.scale = ce_heads_scale(given->heads, all.width);
    if (given->heads.cap > 0) {
        all.cap = given->heads.cap;
        all.into = all.scale / all.cap;
        all.scale = 1;
    }
    return all;
}

void ce_attention_run(cs_device *device, ce_attention_job *all, int64_t heads, int64_t floats, ce_team_task *task)
{
    all->stride = floats;
    all->scratch = ce_cpu_workspace(device, CE_CPU_SCRATCH, (size_t)(floats * device->threads) * sizeof(float));
    ce_team_run(ce_cpu_of(device)->team, (int)(cs_rows(all->given->y) / all->length * heads), task, all);
}

ce_attention_mask ce_attention_mask_of(const ce_attention_job *all, int64_t sample, int64_t which)
{
    ce_attention_mask mask = { .place = (uint64_t)((all->given->heads.first + which) * all->length * all->length) };
    if (all->given->dropout.rate > 0)
        mask.key = ce_dropout_key(all->given->dropout, sample);
    if (all->given->heads.starts.data)
        mask.starts = (const int32_t *)all->given->heads.starts.data + sample * all->length;
    return mask;
}

void ce_attention_rows(const ce_attention_job *all, float *to, cs_tensor x, int64_t row, int64_t column)
{
    size_t bytes = all->each == 2 ? sizeof(uint16_t) : sizeof(float), line = (size_t)all->wide * bytes;
    size_t used = (size_t)all->width * bytes, stride = (size_t)cs_columns(x) * cs_dtype_bytes(x.dtype);
    const char *from = ce_elements_at(x, row * cs_columns(x) + column);
    char *here = (char *)to;
    for (int64_t t = 0; t < all->length; t++, from += stride, here += line) {
        CE_ATTENTION_FETCH(from, stride, (size_t)all->width * cs_dtype_bytes(x.dtype), 0);
        if (all->each == 2)
            memcpy(here, from, used);
        else
            ce_elements_widen((float *)(void *)here, from, x.dtype, all->width);
        memset(here + used, 0, line - used);
    }
    memset(here, 0, (size_t)(all->lines - all->length) * line);
}

float *ce_attention_layers(const ce_attention_job *all, float *rows, float **space)
{
    if (all->each == 1)
        return rows;
    float *layers = ce_attention_take(space, ce_attention_words(all));
    ce_tile_layers(layers, rows, all->lines, all->wide);
    return layers;
}

float *ce_attention_panels(const ce_attention_job *all, const float *rows, float **space)
{
    float *panels = ce_attention_take(space, ce_attention_words(all));
    ce_tile_panels(panels, rows, all->lines, all->depth, all->wide / all->each);
    return panels;
}

const uint16_t *ce_attention_bits(const ce_attention_job *all, const ce_attention_mask *mask, int64_t i, ce_range keys,
                                  uint16_t *scratch)
{
    return ce_dropout_bits(scratch, mask->key, mask->place + (uint64_t)(i * all->length + keys.from),
                           ce_range_length(keys));
}

/* ---- forward ---- */

typedef struct {
    ce_attention_mask mask;
    /* The layouts (attention_tile.h): "rows" for q, "panels" for k, "layers" for v. */
    const float *q, *k, *v;
    /* for one block of queries: the weighted sums of values, and for each row the maximum score and CE_LANES partial
     * sums of exponentials */
    float *values, *max, *sums;
    float *strip, *pairs; /* the probabilities of a strip of queries, as fp32 elements and as bf16 pairs */
} head;

static head take_head(const ce_attention_job *all, int64_t sample, int64_t which, int thread)
{
    cs_tensor qkv = all->given->qkv;
    int64_t row = sample * all->length, key = which / all->group, words = ce_attention_words(all);
    float *space = all->scratch + thread * all->stride;
    float *q = ce_attention_take(&space, words), *k = ce_attention_take(&space, words),
          *v = ce_attention_take(&space, words);
    ce_attention_rows(all, q, qkv, row, which * all->width);
    ce_attention_rows(all, k, qkv, row, ce_attention_key_column(all, key));
    ce_attention_rows(all, v, qkv, row, ce_attention_value_column(all, key));
    head view = { .mask = ce_attention_mask_of(all, sample, which), .q = q };
    view.k = ce_attention_panels(all, k, &space);
    view.v = ce_attention_layers(all, v, &space);
    view.values = ce_attention_take(&space, CE_BLOCK * all->wide);
    view.max = ce_attention_take(&space, CE_BLOCK);
    view.sums = ce_attention_take(&space, CE_BLOCK * CE_LANES);
    view.strip = ce_attention_take(&space, CE_TILE_ROWS * CE_BLOCK);
    view.pairs = ce_attention_take(&space, CE_TILE_ROWS * CE_BLOCK / 2);
    return view;
}

static int64_t scratch_floats(const ce_attention_job *all)
{
    int64_t block = CE_BLOCK * (all->wide + 1 + CE_LANES) + CE_TILE_ROWS * CE_BLOCK * 3 / 2;
    return ce_round_up(5 * (ce_attention_words(all) + 16) + block + 5 * 16, 16);
}

typedef float eight __attribute__((vector_size(32)));
typedef float four __attribute__((vector_size(16)));
typedef int32_t eight_bits __attribute__((vector_size(32)));
typedef int32_t four_bits __attribute__((vector_size(16)));

#if CE_LANES == 16
#define LOW(x) __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7)
#define HIGH(x) __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15)
#endif
#define LOW_HALF(x) __builtin_shufflevector(x, x, 0, 1, 2, 3)
#define HIGH_HALF(x) __builtin_shufflevector(x, x, 4, 5, 6, 7)
/* LARGER gives, in each lane, the larger of a and b. If a or b is NaN, it gives b. */
#define LARGER(type, bits, a, b) ((type)((((a) > (b)) & (bits)(a)) | (~((a) > (b)) & (bits)(b))))

static float largest_lane(ce_lanes x)
{
#if CE_LANES == 16
    eight low = LOW(x), high = HIGH(x), e = LARGER(eight, eight_bits, low, high);
#else
    eight e = (eight)x;
#endif
    four low_half = LOW_HALF(e), high_half = HIGH_HALF(e), f = LARGER(four, four_bits, low_half, high_half);
    float first = f[0] > f[1] ? f[0] : f[1], second = f[2] > f[3] ? f[2] : f[3];
    return first > second ? first : second;
}

/* If the largest of these scores is greater than the maximum of the block's row `at`, sets the maximum to this score,
 * and rescales the row's sums. */
static void raise_max(const ce_attention_job *all, const head *view, const float *row, ce_range strip, int64_t at)
{
    ce_lanes largest = (ce_lanes){ 0 } - FLT_MAX;
    for (int64_t j = strip.from; j < strip.to; j += CE_LANES) {
        ce_lanes x = *(const ce_lanes *)(row + j);
        /* NaN is ignored here, because the sum of exponentials becomes NaN anyway. */
        largest = LARGER(ce_lanes, ce_lane_bits, x, largest);
    }
    float before = view->max[at], max = largest_lane(largest) * all->scale;
    if (max <= before)
        return;
    view->max[at] = max;
    if (before == -FLT_MAX)
        return;
    float shrink = ce_elements_exp_one(before - max), *values = view->values + at * all->wide;
    *(ce_lanes *)(void *)(view->sums + at * CE_LANES) *= shrink;
    for (int64_t d = 0; d < all->wide; d++)
        values[d] *= shrink;
}

/* Replaces the scores of the block's row `at` by their exponentials, and adds the exponentials to the row's sum. */
static void exp_row(const ce_attention_job *all, const head *view, float *row, ce_range strip, int64_t at)
{
    float scale = all->scale, max = view->max[at];
    ce_lanes sum = { 0 };
    for (int64_t j = strip.from; j < strip.to; j += CE_LANES) {
        ce_lanes p = ce_attention_exp(*(const ce_lanes *)(row + j) * scale - max);
        *(ce_lanes *)(row + j) = p;
        sum += p;
    }
    *(ce_lanes *)(void *)(view->sums + at * CE_LANES) += sum;
}

/* Sets those probabilities of row i to 0 that dropout drops. finish_row scales the other probabilities. */
static void dropout_row(const ce_attention_job *all, const head *view, float *row, ce_range strip, int64_t i,
                        int64_t key)
{
    uint16_t scratch[CE_BLOCK + 16];
    uint32_t threshold = ce_dropout_threshold(all->given->dropout);
    int64_t count = ce_range_length(strip);
    const uint16_t *bits =
        ce_attention_bits(all, &view->mask, i, (ce_range){ key + strip.from, key + strip.to }, scratch);
    row += strip.from;
    for (int64_t j = 0; j < count; j++)
        row[j] = bits[j] >= threshold ? row[j] : 0.0f;
}

/* Computes the attention of a strip of queries to a block of keys. The strip begins at query `from` + `at`, where
 * `from` is the first query of the strip's block; the block of keys begins at `key`. */
static void forward_strip(const ce_attention_job *all, const head *view, int64_t from, int64_t at, int64_t key)
{
    int64_t row = from + at, across = all->wide / all->each;
    ce_range strip = ce_attention_strip(all, &view->mask, row, key);
    bool pairs = all->each == 2;
    if (strip.to == 0)
        return;
    ce_tile scores = { .a = view->q + row * across, .a_row = across, .a_step = 1 };
    scores.b = view->k + (key + strip.from) * all->depth;
    scores.b_vector = CE_LANES * all->depth, scores.b_step = CE_LANES;
    scores.c = view->strip + strip.from, scores.c_row = CE_BLOCK;
    scores.depth = all->depth, scores.vectors = ce_range_length(strip) / CE_LANES;
    ce_tile_multiply(&scores, pairs);
    for (int64_t r = 0; r < CE_TILE_ROWS; r++) {
        float *line = view->strip + r * CE_BLOCK;
        if (all->cap > 0)
            ce_attention_cap(all, line, strip, NULL);
        ce_attention_hide(line, strip, ce_attention_seen(all, &view->mask, row + r, key, strip), -INFINITY);
        raise_max(all, view, line, strip, at + r);
    }
    for (int64_t r = 0; r < CE_TILE_ROWS; r++) {
        float *line = view->strip + r * CE_BLOCK;
        exp_row(all, view, line, strip, at + r);
        if (all->given->dropout.rate > 0)
            dropout_row(all, view, line, strip, row + r, key);
        if (pairs)
            ce_tile_pairs_along(view->pairs + (r * CE_BLOCK + strip.from) / 2, line + strip.from,
                                ce_range_length(strip));
    }
    ce_tile values = { .a = (pairs ? view->pairs : view->strip) + strip.from / all->each };
    values.a_row = CE_BLOCK / all->each, values.a_step = 1;
    values.b = view->v + (key + strip.from) / all->each * all->wide;
    values.b_vector = CE_LANES, values.b_step = all->wide;
    values.c = view->values + at * all->wide, values.c_row = all->wide;
    values.depth = ce_range_length(strip) / all->each, values.vectors = all->wide / CE_LANES;
    values.add = true;
    ce_tile_multiply(&values, pairs);
}

/* Writes y and lse of row i of the sample for head `which`. The results are in row `at` of the block of queries. */
static void finish_row(const ce_attention_job *all, const head *view, int64_t sample, int64_t which, int64_t i,
                       int64_t at)
{
    const ce_attention_args *given = all->given;
    float *values = view->values + at * all->wide;
    float sum = ce_lanes_sum(*(const ce_lanes *)(const void *)(view->sums + at * CE_LANES));
    float keep = 1 - given->dropout.rate, part = keep > 0 ? 1 / (sum * keep) : 0;
    for (int64_t d = 0; d < all->width; d++)
        values[d] *= part;
    int64_t columns = cs_columns(given->y), place = (sample * all->length + i) * columns + which * all->width;
    size_t each = cs_dtype_bytes(given->y.dtype);
    CE_ATTENTION_FETCH(ce_elements_at(given->y, place), (size_t)columns * each, (size_t)all->width * each, 1);
    ce_elements_write(given->y, place, all->width, values);
    ((float *)given->lse.data)[(sample * given->heads.queries + which) * all->length + i] = view->max[at] + logf(sum);
}

static void forward_head(void *argument, int index, int thread)
{
    const ce_attention_job *all = argument;
    int64_t sample = index / all->given->heads.queries, which = index % all->given->heads.queries;
    head view = take_head(all, sample, which, thread);
    for (int64_t from = 0; from < all->length; from += CE_BLOCK) {
        int64_t count = all->length - from < CE_BLOCK ? all->length - from : CE_BLOCK;
        memset(view.values, 0, (size_t)(CE_BLOCK * all->wide) * sizeof(float));
        memset(view.sums, 0, (size_t)(CE_BLOCK * CE_LANES) * sizeof(float));
        for (int64_t at = 0; at < CE_BLOCK; at++)
            view.max[at] = -FLT_MAX;
        int64_t first = ce_attention_first(all, &view.mask, from) / CE_BLOCK * CE_BLOCK;
        for (int64_t key = first; key <= from; key += CE_BLOCK)
            for (int64_t at = 0; at < count; at += CE_TILE_ROWS)
                forward_strip(all, &view, from, at, key);
        for (int64_t at = 0; at < count; at++)
            finish_row(all, &view, sample, which, from + at, at);
    }
}

void ce_cpu_attention(cs_device *device, const ce_attention_args *given)
{
    ce_attention_job all = ce_attention_job_of(device, given);
    ce_attention_run(device, &all, given->heads.queries, scratch_floats(&all), forward_head);
}
