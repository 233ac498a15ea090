/* attention.c - causal self-attention, forward: one task for each query head of a sample.
 *
 * For each block of queries, a task iterates over the blocks of keys that these queries see. For each query row, the
 * task keeps the maximum of the scores so far, the sum of the scores' exponentials, and the sum of the values (rows of
 * v): each value is multiplied by the exponential of the score of its key. When the maximum grows, both sums are
 * rescaled (online softmax). Forward stores the log of each softmax denominator; backward computes the probabilities
 * from it again. */
#include "device/cpu/attention.h"
#include "device/cpu/dropout.h"
#include "device/cpu/tiles.h"

#include <float.h>
#include <math.h>

/* Measured on Zen 5, except the sizes with tiles. */
enum { BLOCK_OF_VECTORS = CE_LINES, SPAN_OF_VECTORS = CE_LINES, BLOCK_OF_TILES = 2 * CE_LINES };

/* ---- what forward and backward share ---- */

ce_attention_job ce_attention_job_of(cs_device *device, const ce_attention_args *given)
{
    ce_attention_job all = { .given = given, .length = cs_columns(given->lse) };
    bool pairs = given->y.dtype == CS_BF16 && ce_cpu_computes_bf16(device) && device->isa >= CE_ISA_AVX512_BF16 &&
                 ce_tile_has_pairs();
    all.way = !pairs ? CE_BY_FLOATS : device->isa >= CE_ISA_AMX ? CE_BY_TILES : CE_BY_PAIRS;
    bool tiles = all.way == CE_BY_TILES;
    all.lines = ce_round_up(all.length, CE_LINES);
    all.width = cs_columns(given->y) / given->heads.queries;
    all.each = pairs ? 2 : 1;
    all.unit = tiles ? 2 * CE_LANES : CE_LANES;
    all.inner = tiles ? 2 * CE_LANES : all.each;
    all.wide = ce_round_up(all.width, all.unit);
    all.depth = tiles ? all.wide / 2 : ce_divide_up(all.width, all.each);
    all.a_step = tiles ? CE_LANES : 1;
    all.strip = tiles ? CE_STRIP_OF_TILES : CE_STRIP_OF_VECTORS;
    all.block = tiles ? BLOCK_OF_TILES : BLOCK_OF_VECTORS;
    all.span = tiles ? CE_SPAN_MAX : SPAN_OF_VECTORS;
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
    ce_tile_panels(panels, rows, all->lines, all->depth, ce_attention_as_words(all, all->wide));
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
    /* for one block of queries: the weighted sums of values, and for each row the maximum score (without its scale) and
     * CE_LANES partial sums of exponentials */
    float *values, *max, *sums;
    float *scores, *pairs; /* the probabilities of a strip of queries, as fp32 elements and as bf16 pairs */
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
    view.values = ce_attention_take(&space, all->block * all->wide);
    view.max = ce_attention_take(&space, all->block);
    view.sums = ce_attention_take(&space, all->block * CE_LANES);
    view.scores = ce_attention_take(&space, all->strip * all->span);
    view.pairs = ce_attention_take(&space, all->strip * all->span / 2);
    return view;
}

static int64_t scratch_floats(const ce_attention_job *all)
{
    int64_t block = all->block * (all->wide + 1 + CE_LANES) + all->strip * all->span * 3 / 2;
    return ce_round_up(5 * (ce_attention_words(all) + 16) + block + 5 * 16, 16);
}

/* Sets the maximum of the block's row `at` to the largest score of `row`, and rescales the row's sums. */
static void raise_max(const ce_attention_job *all, const head *view, const float *row, ce_range columns, int64_t at)
{
    float before = view->max[at], max = ce_scores_largest(row, columns), *values = view->values + at * all->wide;
    view->max[at] = max;
    if (before == -FLT_MAX)
        return;
    float shrink = ce_elements_exp_one((before - max) * all->scale);
    *(ce_lanes *)(void *)(view->sums + at * CE_LANES) *= shrink;
    for (int64_t d = 0; d < all->wide; d++)
        values[d] *= shrink;
}

/* Returns the keys that row i of the sample sees. A row after the last sees none. */
static ce_range seen_by(const ce_attention_job *all, const head *view, int64_t i)
{
    return i < all->length ? (ce_range){ ce_attention_first(all, &view->mask, i), i + 1 } : (ce_range){ i, i };
}

/* Computes the probabilities of row r of the strip from its scores. It is row i of the sample, and row `at` of the block
 * of queries. */
static void power_row(const ce_attention_job *all, const head *view, ce_range columns, int64_t key, int64_t at,
                      int64_t r, int64_t i)
{
    uint16_t scratch[CE_SPAN_MAX + 16];
    float scale = all->scale * CE_LOG2E, max = view->max[at];
    ce_scores_power by = { .scale = scale, .max = max == -FLT_MAX ? 0 : max * scale };
    if (all->given->dropout.rate > 0) { /* finish_row scales the probabilities that are kept */
        by.bits = ce_attention_bits(all, &view->mask, i, (ce_range){ key + columns.from, key + columns.to }, scratch);
        by.threshold = ce_dropout_threshold(all->given->dropout);
    }
    uint16_t *to = all->each == 2 ? (uint16_t *)(void *)view->pairs + r * all->span : NULL;
    ce_scores_powers(view->scores + r * all->span, to, columns, &by, view->sums + at * CE_LANES);
}

/* Computes the probabilities of a strip, which begins at row i of the sample and at row `at` of the block of queries. */
static void softmax_strip(const ce_attention_job *all, const head *view, ce_range columns, int64_t key, int64_t at,
                          int64_t i)
{
    float *scores = view->scores;
    bool whole = key + columns.to <= i + 1 && seen_by(all, view, i + all->strip - 1).from <= key + columns.from;
    for (int64_t r = 0; r < all->strip && all->cap > 0; r++)
        ce_attention_cap(all, scores + r * all->span, columns, NULL);
    for (int64_t r = 0; r < all->strip && !whole; r++)
        ce_attention_hide(scores + r * all->span, columns, key, seen_by(all, view, i + r), -INFINITY);
    uint32_t above = ce_scores_above(scores, all->span, all->strip, columns, view->max + at);
    for (; above; above &= above - 1) {
        int64_t r = __builtin_ctz(above);
        raise_max(all, view, scores + r * all->span, columns, at + r);
    }
    for (int64_t r = 0; r < all->strip; r++)
        power_row(all, view, columns, key, at + r, r, i + r);
}

/* Computes the attention of a strip of queries to a block of keys. The strip begins at query `from` + `at`, where
 * `from` is the first query of the strip's block; the block of keys begins at `key`. */
static void forward_strip(const ce_attention_job *all, const head *view, int64_t from, int64_t at, int64_t key)
{
    int64_t row = from + at, across = ce_attention_as_words(all, all->wide);
    ce_range seen = { ce_attention_first(all, &view->mask, row), row + all->strip };
    seen.to = seen.to < all->length ? seen.to : all->length;
    ce_range columns = ce_attention_columns(all, seen, key);
    if (columns.to == 0)
        return;
    ce_tile scores = { .a = view->q + row * across, .a_row = across, .a_step = all->a_step };
    scores.b = view->k + (key + columns.from) * all->depth;
    scores.b_vector = CE_LANES * all->depth, scores.b_step = CE_LANES;
    scores.c = view->scores + columns.from, scores.c_row = all->span;
    scores.depth = all->depth, scores.vectors = ce_range_length(columns) / CE_LANES;
    ce_tile_multiply(&scores, all->way);
    softmax_strip(all, view, columns, key, at, row);
    ce_tile values = { .a = (all->each == 2 ? view->pairs : view->scores) + ce_attention_as_words(all, columns.from) };
    values.a_row = ce_attention_as_words(all, all->span), values.a_step = all->a_step;
    values.b = view->v + ce_attention_as_words(all, key + columns.from) * all->wide;
    values.b_vector = CE_LANES, values.b_step = all->wide;
    values.c = view->values + at * all->wide, values.c_row = all->wide;
    values.depth = ce_attention_as_words(all, ce_range_length(columns)), values.vectors = all->wide / CE_LANES;
    values.add = true;
    ce_tile_multiply(&values, all->way);
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
    ((float *)given->lse.data)[(sample * given->heads.queries + which) * all->length + i] =
        view->max[at] * all->scale + logf(sum);
}

static void forward_block(const ce_attention_job *all, const head *view, int64_t from, int64_t count)
{
    memset(view->values, 0, (size_t)(all->block * all->wide) * sizeof(float));
    memset(view->sums, 0, (size_t)(all->block * CE_LANES) * sizeof(float));
    for (int64_t at = 0; at < all->block; at++)
        view->max[at] = -FLT_MAX;
    int64_t first = ce_attention_first(all, &view->mask, from) / all->span * all->span;
    for (int64_t key = first; key < from + count; key += all->span)
        for (int64_t at = 0; at < count; at += all->strip)
            forward_strip(all, view, from, at, key);
}

static void forward_head(void *argument, int index, int thread)
{
    const ce_attention_job *all = argument;
    int64_t sample = index / all->given->heads.queries, which = index % all->given->heads.queries;
    head view = take_head(all, sample, which, thread);
    if (all->way == CE_BY_TILES)
        ce_tiles_open();
    for (int64_t from = 0; from < all->length; from += all->block) {
        int64_t count = all->length - from < all->block ? all->length - from : all->block;
        forward_block(all, &view, from, count);
        for (int64_t at = 0; at < count; at++)
            finish_row(all, &view, sample, which, from + at, at);
    }
    if (all->way == CE_BY_TILES)
        ce_tiles_close();
}

void ce_cpu_attention(cs_device *device, const ce_attention_args *given)
{
    ce_attention_job all = ce_attention_job_of(device, given);
    ce_attention_run(device, &all, given->heads.queries, scratch_floats(&all), forward_head);
}
