/* attention_grad.c - causal self-attention, backward: one task for each key head of a sample. The task adds up the
 * gradients from all query heads that read this key head.
 *
 * The probabilities P are computed again from the log of their denominators. delta is dy . y for each row. dP = dy v^T;
 * dropout is applied to dP as to P. Then dv += P^T dy, dS = scale P (dP - delta), dq += dS k, dk += dS^T q. For each
 * block of keys, a task iterates over the blocks of queries that see one of these keys. A strip of keys computes
 * its rows of P^T and dS^T, and adds to its rows of dv and dk. dS^T of the whole block is kept for dq. */
#include "device/cpu/attention.h"
#include "device/cpu/dropout.h"
#include "device/cpu/tiles.h"

#include <math.h>

typedef struct {
    ce_attention_mask mask;
    const float *q_panels, *q_layers, *dy_panels, *dy_layers; /* a query head (attention_tile.h) */
    const float *k, *k_layers, *v;                            /* a key head: "rows", "layers" and "rows" */
    float *dq, *dk, *dv; /* gradients in fp32, each with the shape (`lines`, `wide`) */
    float *lse, *delta;  /* for each query: the log to the base 2 of the softmax denominator, and dy . y */
    int32_t *last;       /* for each key: the last query that sees it */
    float *p, *ds;       /* P^T and dS^T of a strip of keys, fp32; dS^T of a block if the products multiply floats */
    float *p_pairs, *ds_pairs, *across; /* the same as pairs: along the rows, and of two rows for the whole block */
    float *turned;                      /* dS of a block with queries along the rows, for products of tiles */
    float *slopes;                      /* derivatives of the cap of a strip */
    uint16_t *bits;                     /* random bits of a block: a row for each query */
    ce_word *bits_panels;               /* the same as panels; a word has the bits of two keys */
    float *line;                        /* one row of y and one row of dy, fp32 */
    float *space;                       /* the rest of the thread's scratch memory */
} head;

/* Calls TAKE(name, floats) for each array of `head` that a task allocates before it packs matrices. */
#define ARRAYS(TAKE)                                                                                                   \
    TAKE(dq, all->lines * all->wide)                                                                                   \
    TAKE(dk, all->lines * all->wide)                                                                                   \
    TAKE(dv, all->lines * all->wide)                                                                                   \
    TAKE(lse, all->lines)                                                                                              \
    TAKE(delta, all->lines)                                                                                            \
    TAKE(last, all->lines)                                                                                             \
    TAKE(p, all->strip * all->span)                                                                                    \
    TAKE(ds, (all->each == 2 ? all->strip : all->block) * all->span)                                                   \
    TAKE(p_pairs, all->strip * all->span / 2)                                                                          \
    TAKE(ds_pairs, all->strip * all->span / 2)                                                                         \
    TAKE(across, all->block * all->span / 2)                                                                           \
    TAKE(turned, all->way == CE_BY_TILES ? all->block * all->span / 2 : 0)                                             \
    TAKE(slopes, all->cap > 0 ? all->strip * all->span : 0)                                                            \
    TAKE(bits, all->given->dropout.rate > 0 ? all->block * all->span / 2 : 0)                                          \
    TAKE(bits_panels, all->given->dropout.rate > 0 ? all->block * all->span / 2 : 0)                                   \
    TAKE(line, 2 * all->wide)

static int64_t scratch_floats(const ce_attention_job *all)
{
    int64_t sum = 9 * (ce_attention_words(all) + 16);
#define TAKE(name, floats) sum += ce_round_up(floats, 16);
    ARRAYS(TAKE)
#undef TAKE
    return sum;
}

static void find_last(const ce_attention_job *all, const head *view)
{
    int64_t last = 0;
    for (int64_t j = 0; j < all->length; j++) {
        while (last + 1 < all->length && ce_attention_first(all, &view->mask, last + 1) <= j)
            last++;
        view->last[j] = (int32_t)last;
    }
}

/* Packs the keys and values that all query heads of a task share, and allocates the scratch memory that these heads
 * share. */
static head take_keys(const ce_attention_job *all, int64_t sample, int64_t key, int thread)
{
    int64_t words = ce_attention_words(all), row = sample * all->length;
    size_t bytes = (size_t)(all->lines * all->wide) * sizeof(float);
    head view = { .mask = ce_attention_mask_of(all, sample, key * all->group) };
    float *space = all->scratch + thread * all->stride;
#define TAKE(name, floats) view.name = (void *)ce_attention_take(&space, floats);
    ARRAYS(TAKE)
#undef TAKE
    float *k = ce_attention_take(&space, words), *v = ce_attention_take(&space, words);
    ce_attention_rows(all, k, all->given->qkv, row, ce_attention_key_column(all, key));
    ce_attention_rows(all, v, all->given->qkv, row, ce_attention_value_column(all, key));
    view.k = k, view.v = v;
    view.k_layers = ce_attention_layers(all, k, &space);
    memset(view.dk, 0, bytes);
    memset(view.dv, 0, bytes);
    find_last(all, &view);
    view.space = space;
    return view;
}

static void take_deltas(const ce_attention_job *all, const head *view, int64_t row, int64_t column)
{
    cs_tensor y = all->given->y, dy = all->given->dy;
    int64_t columns = cs_columns(y), at = row * columns + column;
    size_t stride = (size_t)columns * cs_dtype_bytes(y.dtype), bytes = (size_t)all->width * cs_dtype_bytes(y.dtype);
    for (int64_t t = 0; t < all->length; t++, at += columns) {
        CE_ATTENTION_FETCH(ce_elements_at(y, at), stride, bytes, 0);
        CE_ATTENTION_FETCH(ce_elements_at(dy, at), stride, bytes, 0);
        view->delta[t] = ce_elements_dot(ce_elements_read(y, at, all->width, view->line),
                                         ce_elements_read(dy, at, all->width, view->line + all->wide), all->width);
    }
}

static void take_queries(const ce_attention_job *all, head *view, int64_t sample, int64_t which)
{
    const ce_attention_args *given = all->given;
    int64_t words = ce_attention_words(all), row = sample * all->length, column = which * all->width;
    float *space = view->space, *q = ce_attention_take(&space, words), *dy = ce_attention_take(&space, words);
    const float *lse = (const float *)given->lse.data + (sample * given->heads.queries + which) * all->length;
    ce_attention_rows(all, q, given->qkv, row, column);
    ce_attention_rows(all, dy, given->dy, row, column);
    view->mask = ce_attention_mask_of(all, sample, which);
    view->q_panels = ce_attention_panels(all, q, &space);
    view->dy_panels = ce_attention_panels(all, dy, &space);
    view->q_layers = ce_attention_layers(all, q, &space);
    view->dy_layers = ce_attention_layers(all, dy, &space);
    ce_elements_scale(view->lse, lse, CE_LOG2E, all->length);
    take_deltas(all, view, row, column);
    for (int64_t t = all->length; t < all->lines; t++)
        view->lse[t] = view->delta[t] = 0;
    memset(view->dq, 0, (size_t)(all->lines * all->wide) * sizeof(float));
}

/* Multiplies a strip of keys by queries, or a strip of values by dy. */
static void multiply_strip(const ce_attention_job *all, float *c, const float *rows, const float *panels, int64_t key,
                           int64_t row, ce_range columns)
{
    int64_t line = ce_attention_as_words(all, all->wide);
    ce_tile tile = { .a = rows + key * line, .a_row = line, .a_step = all->a_step };
    tile.b = panels + (row + columns.from) * all->depth;
    tile.b_vector = CE_LANES * all->depth, tile.b_step = CE_LANES;
    tile.c = c + columns.from, tile.c_row = all->span;
    tile.depth = all->depth, tile.vectors = ce_range_length(columns) / CE_LANES;
    ce_tile_multiply(&tile, all->way);
}

/* Adds the product of a left factor, whose inner dimension is `count` lines, and the layers from line `line` on to the
 * rows of `gradient` from row `to` on. */
static void add_product(const ce_attention_job *all, float *gradient, int64_t to, ce_tile left, const float *layers,
                        int64_t line, int64_t count)
{
    left.b = layers + ce_attention_as_words(all, line) * all->wide;
    left.b_vector = CE_LANES, left.b_step = all->wide;
    left.c = gradient + to * all->wide, left.c_row = all->wide;
    left.depth = ce_attention_as_words(all, count), left.vectors = all->wide / CE_LANES;
    left.add = true;
    ce_tile_multiply(&left, all->way);
}

/* Computes the random bits of the block of queries from `row` on and keys from `key` on, of the keys that each query
 * sees. The bits of other keys have any value. */
static void make_bits(const ce_attention_job *all, const head *view, int64_t row, int64_t key)
{
    uint16_t scratch[CE_SPAN_MAX + 16];
    int64_t end = all->length < row + all->span ? all->length : row + all->span;
    for (int64_t i = row > key ? row : key; i < end; i++) {
        ce_range seen = { ce_attention_first(all, &view->mask, i), i + 1 };
        seen = ce_range_overlap(seen, (ce_range){ key, key + all->block });
        memcpy(view->bits + (i - row) * all->block + seen.from - key,
               ce_attention_bits(all, &view->mask, i, seen, scratch), (size_t)ce_range_length(seen) * sizeof *scratch);
    }
    ce_tile_panels(view->bits_panels, view->bits, all->span, all->block / 2, all->block / 2);
}

/* Hides the elements of a strip whose query does not see their key. The strip begins at `key`. */
static void hide_strip(const ce_attention_job *all, const head *view, float *ds, int64_t key, int64_t row,
                       ce_range columns)
{
    if (row + columns.from >= key + all->strip - 1 && view->last[key] + 1 >= row + columns.to)
        return;
    for (int64_t r = 0, j = key; r < all->strip; r++, j++) {
        ce_range seen = { j, j < all->length ? view->last[j] + 1 : j };
        ce_attention_hide(view->p + r * all->span, columns, row, seen, -INFINITY);
        ce_attention_hide(ds + r * all->span, columns, row, seen, 0);
    }
}

/* Computes P^T and dS^T of the strip of keys from `key` + `at` on for the block of queries from `row` on. */
static void slopes_of_strip(const ce_attention_job *all, const head *view, int64_t key, int64_t at, int64_t row,
                            ce_range columns)
{
    bool pairs = all->each == 2;
    float *ds = pairs ? view->ds : view->ds + at * all->span;
    multiply_strip(all, view->p, view->k, view->q_panels, key + at, row, columns);
    multiply_strip(all, ds, view->v, view->dy_panels, key + at, row, columns);
    for (int64_t r = 0; r < all->strip && all->cap > 0; r++)
        ce_attention_cap(all, view->p + r * all->span, columns, view->slopes + r * all->span);
    hide_strip(all, view, ds, key + at, row, columns);
    ce_scores_slope strip = { .strip = all->strip, .span = all->span, .scale = all->scale };
    strip.lse = view->lse + row, strip.delta = view->delta + row;
    strip.slopes = all->cap > 0 ? view->slopes : NULL;
    strip.p = view->p, strip.ds = ds;
    if (pairs) {
        strip.p_pairs = (uint16_t *)(void *)view->p_pairs, strip.ds_pairs = (uint16_t *)(void *)view->ds_pairs;
        strip.across = (ce_word *)view->across + at / 2 * all->span;
    }
    if (all->given->dropout.rate > 0) {
        strip.bits = view->bits_panels + at / 2 * CE_LANES, strip.panel = all->block / 2 * CE_LANES;
        strip.threshold = ce_dropout_threshold(all->given->dropout);
        strip.keep = 1 / (1 - all->given->dropout.rate);
    }
    ce_scores_slopes(&strip, columns);
}

/* Sets the columns of dS^T of a strip that are not in `columns` to 0. */
static void clear_rest(const ce_attention_job *all, const head *view, int64_t at, ce_range columns)
{
    float *to = all->each == 2 ? view->across : view->ds;
    for (int64_t r = ce_attention_as_words(all, at); r < ce_attention_as_words(all, at + all->strip); r++) {
        memset(to + r * all->span, 0, (size_t)columns.from * sizeof(float));
        memset(to + r * all->span + columns.to, 0, (size_t)(all->span - columns.to) * sizeof(float));
    }
}

/* Returns the columns that products over the queries read: those in `seen`, the queries that see a key of the strip. The
 * other `columns` are 0. */
static ce_range columns_used(const ce_attention_job *all, ce_range seen, int64_t row, ce_range columns)
{
    int64_t from = (seen.from - row) & -all->inner, to = ce_attention_up(seen.to - row, all->inner);
    return ce_range_overlap(columns, (ce_range){ from, to });
}

/* Adds the contributions of the strip of keys from `key` + `at` on to dv, dk and dS^T of the block. */
static void backward_strip(const ce_attention_job *all, const head *view, int64_t key, int64_t at, int64_t row,
                           ce_range seen, ce_range columns)
{
    bool pairs = all->each == 2;
    ce_range used = columns_used(all, seen, row, columns);
    int64_t from = ce_attention_as_words(all, used.from), line = row + used.from, count = ce_range_length(used);
    ce_tile left = { .a_row = ce_attention_as_words(all, all->span), .a_step = all->a_step };
    slopes_of_strip(all, view, key, at, row, columns);
    clear_rest(all, view, at, columns);
    left.a = (pairs ? view->p_pairs : view->p) + from;
    add_product(all, view->dv, key + at, left, view->dy_layers, line, count);
    left.a = (pairs ? view->ds_pairs : view->ds + at * all->span) + from;
    add_product(all, view->dk, key + at, left, view->q_layers, line, count);
}

/* Adds dS k to dq, for the queries of the block from `row` on in the range `queries`, and the keys of the block from
 * `key` on in the range `keys`. */
static void add_to_queries(const ce_attention_job *all, const head *view, int64_t row, ce_range queries, int64_t key,
                           ce_range keys)
{
    ce_tile left = { .a_row = 1, .a_step = all->span };
    const float *from = all->each == 2 ? view->across : view->ds;
    if (all->way == CE_BY_TILES) {
        ce_tile_panels(view->turned, view->across, all->block / 2, all->span, all->span);
        left.a_row = CE_LANES, left.a_step = all->span * CE_LANES;
        from = view->turned;
    }
    for (int64_t at = queries.from; at < queries.to; at += all->strip) {
        int64_t end = ce_attention_up(row + at + all->strip - key, all->inner), to = keys.to < end ? keys.to : end;
        if (keys.from >= to)
            continue;
        left.a = from + ce_attention_as_words(all, keys.from) * all->span + at;
        if (all->way == CE_BY_TILES)
            left.a = from + keys.from / 2 * all->span + at * CE_LANES;
        add_product(all, view->dq, row + at, left, view->k_layers, key + keys.from, to - keys.from);
    }
}

/* Computes the gradients from the block of queries that begins at `row` and the block of keys that begins at `key`. */
static void backward_block(const ce_attention_job *all, const head *view, int64_t key, int64_t row)
{
    ce_range keys = { 0, 0 }, queries = { all->span, 0 };
    if (all->given->dropout.rate > 0)
        make_bits(all, view, row, key);
    for (int64_t at = 0; at < all->block && key + at < all->length; at += all->strip) {
        int64_t end = key + at + all->strip < all->length ? key + at + all->strip : all->length;
        ce_range seen = { key + at, view->last[end - 1] + 1 }, columns = ce_attention_columns(all, seen, row);
        if (columns.to == 0)
            continue;
        backward_strip(all, view, key, at, row, seen, columns);
        keys.from = keys.to == 0 ? at : keys.from;
        keys.to = at + all->strip;
        queries.from = queries.from < columns.from ? queries.from : columns.from;
        queries.to = queries.to > columns.to ? queries.to : columns.to;
    }
    queries.from = queries.from / all->strip * all->strip;
    if (keys.to > 0)
        add_to_queries(all, view, row, queries, key, keys);
}

static void copy_out(const ce_attention_job *all, const float *from, int64_t row, int64_t column)
{
    cs_tensor to = all->given->dqkv;
    int64_t columns = cs_columns(to), at = row * columns + column;
    size_t each = cs_dtype_bytes(to.dtype);
    for (int64_t t = 0; t < all->length; t++, at += columns, from += all->wide) {
        CE_ATTENTION_FETCH(ce_elements_at(to, at), (size_t)columns * each, (size_t)all->width * each, 1);
        ce_elements_write(to, at, all->width, from);
    }
}

static void backward_group(void *argument, int index, int thread)
{
    const ce_attention_job *all = argument;
    int64_t sample = index / all->given->heads.keys, group = index % all->given->heads.keys;
    int64_t begin = sample * all->length;
    head view = take_keys(all, sample, group, thread);
    if (all->way == CE_BY_TILES)
        ce_tiles_open();
    for (int64_t which = group * all->group; which < (group + 1) * all->group; which++) {
        take_queries(all, &view, sample, which);
        for (int64_t key = 0; key < all->length; key += all->block) {
            int64_t end = key + all->block < all->length ? key + all->block : all->length;
            for (int64_t row = key / all->span * all->span; row <= view.last[end - 1]; row += all->span)
                backward_block(all, &view, key, row);
        }
        copy_out(all, view.dq, begin, which * all->width);
    }
    if (all->way == CE_BY_TILES)
        ce_tiles_close();
    copy_out(all, view.dk, begin, ce_attention_key_column(all, group));
    copy_out(all, view.dv, begin, ce_attention_value_column(all, group));
}

void ce_cpu_attention_grad(cs_device *device, const ce_attention_args *given)
{
    ce_attention_job all = ce_attention_job_of(device, given);
    ce_attention_run(device, &all, given->heads.keys, scratch_floats(&all), backward_group);
}
