/* attention_grad.c - causal self-attention, backward: one task for each key head of a sample. The task adds up the
 * gradients from all query heads that read this key head.
 *
 * The probabilities P are computed again from the log of their denominators. delta is dy . y for each row. dP = dy v^T;
 * dropout is applied to dP as to P. Then dv += P^T dy, dS = scale P (dP - delta), dq += dS k, dk += dS^T q. For each
 * block of keys, a task iterates over the blocks of queries, beginning with the block at the same positions. */
#include "device/cpu/attention.h"
#include "device/cpu/dropout.h"

#include <math.h>

typedef struct {
    ce_attention_mask mask;
    const float *q, *q_layers, *dy, *dy_layers; /* a query head, in the layouts "rows" and "layers" */
    const float *k_panels, *k_layers, *v_panels;
    float *dq, *dk, *dv; /* gradients in fp32, each with the shape (`lines`, `wide`) */
    float *lse, *delta;  /* for each query: the log of the softmax denominator, and dy . y */
    float *p, *ds;       /* P and dS of a strip of queries, fp32 */
    float *across[2];    /* P and dS of a block, for the products whose inner dimension is the queries (dv and dk) */
    float *along;        /* dS of a strip, for the product whose inner dimension is the keys (dq) */
    float *line;         /* one row of y and one row of dy, fp32 */
} head;

static bool is_pairs(const ce_attention_job *all)
{
    return all->each == 2;
}

static int64_t scratch_floats(const ce_attention_job *all)
{
    int64_t packed = 9 * (ce_attention_words(all) + 16), gradients = 3 * all->lines * all->wide;
    int64_t blocks = 2 * CE_BLOCK * CE_BLOCK / all->each, strips = 3 * CE_TILE_ROWS * CE_BLOCK;
    return ce_round_up(packed + gradients + blocks + strips + 2 * all->lines + 2 * all->wide + 12 * 16, 16);
}

/* Packs the keys and values that all query heads of a task share, and allocates the scratch memory that these heads
 * share. Returns the rest of the thread's scratch memory. */
static float *take_keys(const ce_attention_job *all, head *view, int64_t sample, int64_t key, int thread)
{
    int64_t words = ce_attention_words(all), size = all->lines * all->wide, row = sample * all->length;
    float *space = all->scratch + thread * all->stride;
    float *k = ce_attention_take(&space, words), *v = ce_attention_take(&space, words);
    ce_attention_rows(all, k, all->given->qkv, row, ce_attention_key_column(all, key));
    ce_attention_rows(all, v, all->given->qkv, row, ce_attention_value_column(all, key));
    view->k_panels = ce_attention_panels(all, k, &space);
    view->v_panels = ce_attention_panels(all, v, &space);
    view->k_layers = ce_attention_layers(all, k, &space);
    view->dq = ce_attention_take(&space, size);
    view->dk = ce_attention_take(&space, size);
    view->dv = ce_attention_take(&space, size);
    memset(view->dk, 0, (size_t)size * sizeof(float));
    memset(view->dv, 0, (size_t)size * sizeof(float));
    view->lse = ce_attention_take(&space, all->lines);
    view->delta = ce_attention_take(&space, all->lines);
    view->across[0] = ce_attention_take(&space, CE_BLOCK * CE_BLOCK / all->each);
    view->across[1] = ce_attention_take(&space, CE_BLOCK * CE_BLOCK / all->each);
    view->p = ce_attention_take(&space, CE_TILE_ROWS * CE_BLOCK);
    view->ds = ce_attention_take(&space, CE_TILE_ROWS * CE_BLOCK);
    view->along = ce_attention_take(&space, CE_TILE_ROWS * CE_BLOCK / 2);
    view->line = ce_attention_take(&space, 2 * all->wide);
    return space;
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

static void take_queries(const ce_attention_job *all, head *view, int64_t sample, int64_t which, float *space)
{
    const ce_attention_args *given = all->given;
    int64_t words = ce_attention_words(all), row = sample * all->length, column = which * all->width;
    float *q = ce_attention_take(&space, words), *dy = ce_attention_take(&space, words);
    ce_attention_rows(all, q, given->qkv, row, column);
    ce_attention_rows(all, dy, given->dy, row, column);
    view->mask = ce_attention_mask_of(all, sample, which);
    view->q = q;
    view->dy = dy;
    view->q_layers = ce_attention_layers(all, q, &space);
    view->dy_layers = ce_attention_layers(all, dy, &space);
    memcpy(view->lse, (float *)given->lse.data + (sample * given->heads.queries + which) * all->length,
           (size_t)all->length * sizeof(float));
    take_deltas(all, view, row, column);
    memset(view->dq, 0, (size_t)(all->lines * all->wide) * sizeof(float));
}

/* Multiplies a strip of queries by keys, or a strip of dy by values. `panels` has the layout "panels". */
static void multiply_strip(const ce_attention_job *all, float *c, const float *rows, const float *panels, int64_t row,
                           int64_t key, ce_range strip)
{
    int64_t line = all->wide / all->each;
    ce_tile tile = { .a = rows + row * line, .a_row = line, .a_step = 1 };
    tile.b = panels + (key + strip.from) * all->depth;
    tile.b_vector = CE_LANES * all->depth, tile.b_step = CE_LANES;
    tile.c = c + strip.from, tile.c_row = CE_BLOCK;
    tile.depth = all->depth, tile.vectors = ce_range_length(strip) / CE_LANES;
    ce_tile_multiply(&tile, is_pairs(all));
}

/* Computes the gradient of the softmax of row i for the elements of `strip`. Before the call, p holds q k^T and ds
 * holds dP. After the call, p holds P and ds holds dS. */
static void softmax_grad_row(const ce_attention_job *all, const head *view, float *p, float *ds, ce_range strip,
                             int64_t i)
{
    float scale = all->scale, lse = view->lse[i], delta = view->delta[i];
    for (int64_t j = strip.from; j < strip.to; j += CE_LANES) {
        ce_lanes *at = (ce_lanes *)(void *)(p + j), *slope = (ce_lanes *)(void *)(ds + j);
        *at = ce_attention_exp(*at * scale - lse);
        *slope = *at * (*slope - delta) * scale;
    }
}

/* Like softmax_grad_row, with dropout: after the call, p holds P after dropout. */
static void softmax_grad_drop_row(const ce_attention_job *all, const head *view, float *p, float *ds, ce_range strip,
                                  int64_t i, int64_t key)
{
    uint16_t scratch[CE_BLOCK + 16];
    uint32_t threshold = ce_dropout_threshold(all->given->dropout);
    float keep = 1 / (1 - all->given->dropout.rate), kept[CE_BLOCK];
    const uint16_t *bits =
        ce_attention_bits(all, &view->mask, i, (ce_range){ key + strip.from, key + strip.to }, scratch);
    for (int64_t j = strip.from; j < strip.to; j++) {
        kept[j] = bits[j - strip.from] >= threshold ? keep : 0.0f;
        ds[j] *= kept[j];
    }
    softmax_grad_row(all, view, p, ds, strip, i);
    for (int64_t j = strip.from; j < strip.to; j++)
        p[j] *= kept[j];
}

/* Converts P and dS of a strip to the bf16 pairs that the products read. `at` is the index of the strip's first row
 * within the block of queries. */
static void make_words(const head *view, ce_range strip, int64_t at)
{
    int64_t count = ce_range_length(strip);
    const float *strips[] = { view->p, view->ds };
    for (int which = 0; which < 2; which++) {
        for (int64_t r = 0; r < CE_TILE_ROWS; r += 2) {
            float *to = view->across[which] + (at + r) / 2 * CE_BLOCK;
            const float *from = strips[which] + r * CE_BLOCK + strip.from;
            memset(to, 0, (size_t)strip.from * sizeof(float));
            ce_tile_pairs_across(to + strip.from, from, from + CE_BLOCK, count);
        }
    }
    for (int64_t r = 0; r < CE_TILE_ROWS; r++)
        ce_tile_pairs_along(view->along + (r * CE_BLOCK + strip.from) / 2, view->ds + r * CE_BLOCK + strip.from, count);
}

/* Computes P and dS for one strip of queries, which begins at query `row`, and one block of keys, which begins at
 * `key`. Adds their contribution to dq. `at` is the index of the strip's first row within its block of queries. */
static void backward_strip(const ce_attention_job *all, const head *view, int64_t row, int64_t at, int64_t key,
                           ce_range strip)
{
    bool pairs = is_pairs(all);
    float *p = pairs ? view->p : view->across[0] + at * CE_BLOCK;
    float *ds = pairs ? view->ds : view->across[1] + at * CE_BLOCK;
    multiply_strip(all, p, view->q, view->k_panels, row, key, strip);
    multiply_strip(all, ds, view->dy, view->v_panels, row, key, strip);
    for (int64_t r = 0; r < CE_TILE_ROWS; r++) {
        float *line = p + r * CE_BLOCK, *slope = ds + r * CE_BLOCK, capped[CE_BLOCK];
        ce_range seen = ce_attention_seen(all, &view->mask, row + r, key, strip);
        if (all->cap > 0)
            ce_attention_cap(all, line, strip, capped);
        ce_attention_hide(line, strip, seen, -INFINITY);
        ce_attention_hide(slope, strip, seen, 0);
        if (all->given->dropout.rate > 0)
            softmax_grad_drop_row(all, view, line, slope, strip, row + r, key);
        else
            softmax_grad_row(all, view, line, slope, strip, row + r);
        for (int64_t j = strip.from; all->cap > 0 && j < strip.to; j++)
            slope[j] *= capped[j];
        if (!pairs) {
            memset(line, 0, (size_t)strip.from * sizeof(float));
            memset(slope, 0, (size_t)strip.from * sizeof(float));
        }
    }
    if (pairs)
        make_words(view, strip, at);
    ce_tile queries = { .a = (pairs ? view->along : ds) + strip.from / all->each, .add = true };
    queries.a_row = CE_BLOCK / all->each, queries.a_step = 1;
    queries.b = view->k_layers + (key + strip.from) / all->each * all->wide;
    queries.b_vector = CE_LANES, queries.b_step = all->wide;
    queries.c = view->dq + row * all->wide, queries.c_row = all->wide;
    queries.depth = ce_range_length(strip) / all->each, queries.vectors = all->wide / CE_LANES;
    ce_tile_multiply(&queries, pairs);
}

/* Adds the product dS^T q to the gradient of the keys, or the product P^T dy to the gradient of the values. The product
 * is summed over `lines`, a range of rows of the block of queries. The first row of the product is added to row `key` +
 * `column` of the gradient. */
static void add_to_keys(const ce_attention_job *all, float *gradient, const float *across, const float *layers,
                        int64_t row, int64_t key, int64_t column, ce_range lines)
{
    ce_tile tile = { .a = across + lines.from / all->each * CE_BLOCK + column, .add = true };
    tile.a_row = 1, tile.a_step = CE_BLOCK;
    tile.b = layers + (row + lines.from) / all->each * all->wide;
    tile.b_vector = CE_LANES, tile.b_step = all->wide;
    tile.c = gradient + (key + column) * all->wide, tile.c_row = all->wide;
    tile.depth = ce_range_length(lines) / all->each, tile.vectors = all->wide / CE_LANES;
    ce_tile_multiply(&tile, is_pairs(all));
}

/* Computes the gradients from the block of queries that begins at `row` and the block of keys that begins at `key`. If
 * `row` and `key` are equal, a strip of queries sees no key after its own rows. Strips of queries that see a key of the
 * block come before the strips that see none. */
static void backward_block(const ce_attention_job *all, const head *view, int64_t row, int64_t key)
{
    int64_t lines = 0;
    for (int64_t at = 0; at < CE_BLOCK && row + at < all->length; at += CE_TILE_ROWS) {
        ce_range strip = ce_attention_strip(all, &view->mask, row + at, key);
        if (strip.to == 0)
            break;
        backward_strip(all, view, row + at, at, key, strip);
        lines = at + CE_TILE_ROWS;
    }
    if (lines == 0)
        return;
    for (int64_t column = 0; column < CE_BLOCK && key + column < all->length; column += CE_TILE_ROWS) {
        ce_range used = { row == key ? column : 0, lines };
        add_to_keys(all, view->dv, view->across[0], view->dy_layers, row, key, column, used);
        add_to_keys(all, view->dk, view->across[1], view->q_layers, row, key, column, used);
    }
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
    head view;
    float *space = take_keys(all, &view, sample, group, thread);
    for (int64_t which = group * all->group; which < (group + 1) * all->group; which++) {
        take_queries(all, &view, sample, which, space);
        for (int64_t key = 0; key < all->length; key += CE_BLOCK)
            for (int64_t row = key; row < all->length; row += CE_BLOCK)
                backward_block(all, &view, row, key);
        copy_out(all, view.dq, begin, which * all->width);
    }
    copy_out(all, view.dk, begin, ce_attention_key_column(all, group));
    copy_out(all, view.dv, begin, ce_attention_value_column(all, group));
}

void ce_cpu_attention_grad(cs_device *device, const ce_attention_args *given)
{
    ce_attention_job all = ce_attention_job_of(device, given);
    ce_attention_run(device, &all, given->heads.keys, scratch_floats(&all), backward_group);
}
