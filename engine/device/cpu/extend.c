/* extend.c - attention of new positions to the positions of a key-value cache, for text generation. There is one task
 * for each key head.
 *
 * A task first copies the new positions' keys and values to its part of the cache, which no other task reads. Then it
 * computes the query heads that read this key head. With one new position, as in a step of generation, the task reads
 * the cache once, without converted copies. With more new positions, BLOCK rows at a time are computed by matrix
 * products; if the tensors are 16-bit, the products read fp32 copies. If the cache is empty, the first positions of a
 * text are computed by the attention of training. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"
#include "device/cpu/lanes.h"

#include <math.h>

enum { BLOCK = 64, SETS = 4, AHEAD = 16, CACHE_LINE = 64, MIN_ROWS = 64 };

typedef struct {
    const ce_extension *given;
    int64_t rows, start;  /* `rows`: number of new positions; `start`: number of positions that are already cached */
    int64_t width, group; /* `width`: columns D of a head; `group`: query heads that share a key head */
    float scale, cap;     /* `scale`: factor of the scores; `cap`: their soft cap, 0 if the scores are not capped */
    bool narrow;
    float *scratch;
    int64_t stride; /* number of floats of scratch memory for each thread */
} job;

/* The matrices of one task, in fp32. */
typedef struct {
    const float *q, *k, *v;
    float *y, *score;
    int64_t wide, deep, slim; /* leading dimensions: `wide` of q, `deep` of k and v, `slim` of y */
} head;

static int64_t scratch_floats(const job *all)
{
    int64_t seen = all->start + all->rows;
    if (all->rows == 1)
        return ce_round_up(seen, 16) + 2 * ce_round_up(all->width, 16);
    int64_t copies = all->narrow ? 2 * (seen + all->rows) * all->width : 0;
    return ce_round_up(BLOCK * seen + copies, 16);
}

/* Copies one head's keys or values of the new positions to the cache: from column `from` of qkv to column `column`. */
static void store_in_cache(const job *all, cs_tensor cache, int64_t column, int64_t from)
{
    cs_tensor qkv = all->given->qkv;
    size_t bytes = (size_t)all->width * cs_dtype_bytes(qkv.dtype);
    for (int64_t t = 0; t < all->rows; t++)
        memcpy(ce_elements_at(cache, (all->start + t) * cs_columns(cache) + column),
               ce_elements_at(qkv, t * cs_columns(qkv) + from), bytes);
}

static const float *copy_in(const job *all, float *to, cs_tensor from, int64_t column, int64_t rows)
{
    for (int64_t t = 0; t < rows; t++)
        ce_elements_widen(to + t * all->width, ce_elements_at(from, t * cs_columns(from) + column), from.dtype,
                          all->width);
    return to;
}

static void copy_out(const job *all, int64_t column, const float *from)
{
    cs_tensor y = all->given->y;
    for (int64_t t = 0; t < all->rows; t++)
        ce_elements_narrow(ce_elements_at(y, t * cs_columns(y) + column), y.dtype, from + t * all->width, all->width);
}

static head view_of(const job *all, int64_t column, int thread)
{
    const ce_extension *given = all->given;
    int64_t seen = all->start + all->rows;
    float *space = all->scratch + thread * all->stride;
    head view = { .score = space, .deep = cs_columns(given->keys) };
    if (!all->narrow) {
        view.k = (const float *)given->keys.data + column;
        view.v = (const float *)given->values.data + column;
        return view;
    }
    space += BLOCK * seen;
    view.k = copy_in(all, space, given->keys, column, seen);
    view.v = copy_in(all, space + seen * all->width, given->values, column, seen);
    view.y = space + 2 * seen * all->width;
    view.deep = view.wide = view.slim = all->width;
    return view;
}

/* Sets the members of *view that belong to one query head: q, y and their leading dimensions. `column` is the first
 * column of the query head in qkv. */
static void select_queries(const job *all, head *view, int64_t column)
{
    const ce_extension *given = all->given;
    if (all->narrow) {
        view->q = copy_in(all, view->y + all->rows * all->width, given->qkv, column, all->rows);
        return;
    }
    view->q = (const float *)given->qkv.data + column;
    view->y = (float *)given->y.data + column;
    view->wide = cs_columns(given->qkv);
    view->slim = cs_columns(given->y);
}

/* Computes the softmax of one row of `whole` scores. Only the scores in the range `sees` are visible; the probabilities
 * of the others become 0. `lse` is the row's place in the tensor lse, or NULL. */
static void softmax_row(const job *all, float *row, ce_range sees, int64_t whole, float *lse)
{
    int64_t count = ce_range_length(sees);
    float scale = all->cap > 0 ? 1 : all->scale;
    for (int64_t j = sees.from; all->cap > 0 && j < sees.to; j++)
        row[j] = all->cap * ce_elements_tanh_one(row[j] * (all->scale / all->cap));
    float max = ce_elements_max(row + sees.from, count) * scale;
    max = isfinite(max) ? max : 0; /* if there are values that are not finite, the sum of exponentials is not finite */
    float part = 1 / ce_elements_exp(row + sees.from, count, scale, max);
    if (lse)
        *lse = max - logf(part);
    for (int64_t j = sees.from; j < sees.to; j++)
        row[j] *= part;
    memset(row, 0, (size_t)sees.from * sizeof *row);
    memset(row + sees.to, 0, (size_t)(whole - sees.to) * sizeof *row);
}

/* Returns the place of the lse of a new row, or NULL. `column` is the first column of the row's query head. */
static float *lse_at(const job *all, int64_t column, int64_t row)
{
    const cs_tensor *lse = &all->given->lse;
    return lse->data ? (float *)lse->data + column / all->width * all->rows + row : NULL;
}

/* Computes the attention of the new rows [from, to) to all positions up to each row's own position. `column` is the
 * first column of the query head in qkv. */
static void attend_block(const job *all, const head *view, int64_t column, int64_t from, int64_t to)
{
    int64_t rows = to - from, seen = all->start + to;
    ce_panel scores = {
        .transpose_b = true, .m = rows, .n = seen, .k = all->width, .lda = view->wide, .ldb = view->deep, .ldc = seen
    };
    ce_panel values = { .m = rows, .n = all->width, .k = seen, .lda = seen, .ldb = view->deep, .ldc = view->slim };
    ce_matmul_sgemm(&scores, view->q + from * view->wide, view->k, view->score);
    for (int64_t i = from; i < to; i++) {
        int64_t end = all->start + i + 1, window = all->given->heads.window;
        softmax_row(all, view->score + (i - from) * seen, (ce_range){ window && end > window ? end - window : 0, end },
                    seen, lse_at(all, column, i));
    }
    ce_matmul_sgemm(&values, view->score, view->v, view->y + from * view->slim);
}

/* ---- one new position ---- */

/* Prefetches a head's columns of the row that is read AHEAD rows later, because the CPU's prefetcher does not follow
 * rows of which only a short range is read. */
static inline void fetch_ahead(const char *line, size_t row, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += CACHE_LINE)
        __builtin_prefetch(line + AHEAD * row + at);
}

/* Sets score[j] to the dot product of q and row j of k; rows of k are `deep` elements apart. Callers of this function
 * and of the next functions pass a constant dtype. */
static inline void score_keys(float *restrict score, const float *restrict q, const void *k, int64_t deep,
                              ce_range rows, int64_t width, cs_dtype dtype)
{
    size_t bytes = cs_dtype_bytes(dtype);
    for (int64_t j = rows.from; j < rows.to; j++) {
        const char *line = (const char *)k + (size_t)(j * deep) * bytes;
        ce_lanes part = { 0 };
        float tail[CE_LANES], sum;
        int64_t d = 0;
        fetch_ahead(line, (size_t)deep * bytes, (size_t)width * bytes);
        for (; d + CE_LANES <= width; d += CE_LANES)
            part += *(const ce_lanes *)(q + d) * ce_lanes_load(line, d, dtype);
        sum = ce_lanes_sum(part);
        if (d < width)
            ce_elements_widen(tail, line + (size_t)d * bytes, dtype, width - d);
        for (int64_t i = d; i < width; i++)
            sum += q[i] * tail[i - d];
        score[j] = sum;
    }
}

/* Multiplies each row of v by its probability, and adds the products to columns [at, at + sets * CE_LANES) of y. */
static inline void add_values(float *restrict y, const float *restrict score, const void *v, int64_t deep,
                              ce_range rows, int64_t at, int sets, cs_dtype dtype)
{
    ce_lanes part[SETS] = { 0 };
    for (int64_t j = rows.from; j < rows.to; j++) {
        const char *line = (const char *)v + (size_t)(j * deep + at) * cs_dtype_bytes(dtype);
        fetch_ahead(line, (size_t)deep * cs_dtype_bytes(dtype), (size_t)(sets * CE_LANES) * cs_dtype_bytes(dtype));
        for (int set = 0; set < sets; set++)
            part[set] += score[j] * ce_lanes_load(line, set * CE_LANES, dtype);
    }
    for (int set = 0; set < sets; set++)
        *(ce_lanes *)(y + at + set * CE_LANES) = part[set];
}

static inline void weigh_values(float *restrict y, const float *restrict score, const void *v, int64_t deep,
                                ce_range rows, int64_t width, cs_dtype dtype)
{
    int64_t at = 0;
    float tail[CE_LANES];
    for (; at + SETS * CE_LANES <= width; at += SETS * CE_LANES)
        add_values(y, score, v, deep, rows, at, SETS, dtype);
    for (; at + CE_LANES <= width; at += CE_LANES)
        add_values(y, score, v, deep, rows, at, 1, dtype);
    memset(y + at, 0, (size_t)(width - at) * sizeof *y);
    for (int64_t j = rows.from; at < width && j < rows.to; j++) {
        ce_elements_widen(tail, (const char *)v + (size_t)(j * deep + at) * cs_dtype_bytes(dtype), dtype, width - at);
        for (int64_t i = at; i < width; i++)
            y[i] += score[j] * tail[i - at];
    }
}

static inline void attend_one(const job *all, int64_t column, int64_t query, float *space, cs_dtype dtype)
{
    const ce_extension *given = all->given;
    int64_t end = all->start + 1, window = given->heads.window, deep = cs_columns(given->keys);
    ce_range sees = { window && end > window ? end - window : 0, end };
    float *q = space, *y = space + ce_round_up(all->width, 16), *score = y + ce_round_up(all->width, 16);
    ce_elements_widen(q, ce_elements_at(given->qkv, query), dtype, all->width);
    score_keys(score, q, ce_elements_at(given->keys, column), deep, sees, all->width, dtype);
    softmax_row(all, score, sees, end, lse_at(all, query, 0));
    weigh_values(y, score, ce_elements_at(given->values, column), deep, sees, all->width, dtype);
    ce_elements_write(given->y, query, all->width, y);
}

/* Computes the attention of the new row for the query head whose first column is `query`. */
static void extend_one(const job *all, int64_t column, int64_t query, int thread)
{
    float *space = all->scratch + thread * all->stride;
    if (all->given->y.dtype == CS_F32)
        attend_one(all, column, query, space, CS_F32);
    else if (all->given->y.dtype == CS_BF16)
        attend_one(all, column, query, space, CS_BF16);
    else
        attend_one(all, column, query, space, CS_F16);
}

/* ---- a key head ---- */

static void extend_head(void *argument, int index, int thread)
{
    const job *all = argument;
    const ce_extension *given = all->given;
    int64_t column = index * all->width, C = cs_columns(given->y), K = cs_columns(given->keys);
    store_in_cache(all, given->keys, column, C + column);
    store_in_cache(all, given->values, column, C + K + column);
    for (int64_t i = 0; all->rows == 1 && i < all->group; i++)
        extend_one(all, column, (index * all->group + i) * all->width, thread);
    if (all->rows == 1)
        return;
    head view = view_of(all, column, thread);
    for (int64_t i = 0; i < all->group; i++) {
        int64_t at = (index * all->group + i) * all->width;
        select_queries(all, &view, at);
        for (int64_t from = 0; from < all->rows; from += BLOCK)
            attend_block(all, &view, at, from, from + BLOCK < all->rows ? from + BLOCK : all->rows);
        if (all->narrow)
            copy_out(all, at, view.y);
    }
}

/* ---- a text from its first position on ---- */

static void store_rows(void *argument, ce_range rows, int part)
{
    (void)part;
    const ce_extension *given = argument;
    int64_t C = cs_columns(given->y), K = cs_columns(given->keys), whole = cs_columns(given->qkv);
    size_t bytes = (size_t)K * cs_dtype_bytes(given->qkv.dtype);
    for (int64_t t = rows.from; t < rows.to; t++) {
        memcpy(ce_elements_at(given->keys, t * K), ce_elements_at(given->qkv, t * whole + C), bytes);
        memcpy(ce_elements_at(given->values, t * K), ce_elements_at(given->qkv, t * whole + C + K), bytes);
    }
}

/* The cache is still empty, so this is the attention of training. */
static void begin_text(cs_device *device, const ce_extension *given)
{
    int64_t rows = cs_rows(given->y);
    float *lse = given->lse.data;
    if (!lse)
        lse = ce_cpu_workspace(device, CE_CPU_RESULT, (size_t)(given->heads.queries * rows) * sizeof *lse);
    ce_attention_args attention = { .y = given->y,
                                    .lse = cs_matrix(lse, CS_F32, given->heads.queries, rows),
                                    .qkv = given->qkv,
                                    .heads = given->heads };
    ce_extension here = *given;
    ce_cpu_attention(device, &attention);
    ce_cpu_walk(device, rows, MIN_ROWS, store_rows, &here);
}

void ce_cpu_extend(cs_device *device, const ce_extension *given)
{
    if (given->start == 0 && cs_rows(given->y) > 1) {
        begin_text(device, given);
        return;
    }
    cs_heads heads = given->heads;
    job all = { .given = given, .rows = cs_rows(given->y), .start = given->start };
    all.width = cs_columns(given->y) / heads.queries;
    all.group = heads.queries / heads.keys;
    all.scale = ce_heads_scale(heads, all.width);
    all.cap = heads.cap;
    all.narrow = given->y.dtype != CS_F32;
    all.stride = scratch_floats(&all);
    all.scratch = ce_cpu_workspace(device, CE_CPU_SCRATCH, (size_t)(all.stride * device->threads) * sizeof(float));
    ce_team_run(ce_cpu_of(device)->team, (int)heads.keys, extend_head, &all);
}
