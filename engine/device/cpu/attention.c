/* attention.c - causal self-attention. A block of BLOCK query rows is multiplied with the keys that at least one of the
 * rows sees. Forward has one task for each query head of a sample. Backward has one task for each key head, which adds
 * up the gradients from all query heads that read this key head.
 *
 * Forward stores the log of each softmax denominator, from which backward computes the probabilities P again. With
 * dP = dy v^T (with the dropout of P) and delta = dy . y for each row: dv += P^T dy, dS = P (dP - delta) / sqrt(D),
 * dq = dS k, dk += dS^T q. If the tensors are 16-bit, a task works on fp32 copies of its head. */
#include "device/cpu/cpu.h"
#include "device/cpu/dropout.h"
#include "device/cpu/elements.h"

#include <math.h>

enum { BLOCK = 64, COPIES_FORWARD = 4, COPIES_BACKWARD = 7 };

typedef struct {
    const cs_attention_args *given;
    int64_t length, width; /* T, D */
    int64_t columns, wide; /* of y, of qkv */
    int64_t group;         /* query heads for each key head */
    float scale;
    bool narrow;    /* 16-bit tensors */
    float *scratch; /* scratch memory of all threads */
    int64_t stride; /* floats of scratch for each thread */
} job;

/* The matrices of one task's head, (T, D) and fp32. */
typedef struct {
    const float *q, *k, *v, *dy;
    float *y, *dq, *dk, *dv;
    int64_t wide, slim; /* leading dimensions: of q k v and their gradients, of y and dy */
    float *lse;
    uint64_t key, place; /* for dropout: the sample's key, and the head's first element in the sample */
    float *score, *dscore;
    uint16_t *bits;
    float *room;           /* memory for the fp32 copies */
    const int32_t *starts; /* first row that each row of the sample sees, or NULL */
} head;

/* ---- the matrices of a head ---- */

static int64_t scratch_floats(const job *all, bool backward)
{
    int64_t scores = BLOCK * all->length * (backward ? 2 : 1);
    int64_t copies = all->narrow ? all->length * all->width * (backward ? COPIES_BACKWARD : COPIES_FORWARD) : 0;
    return cs_round_up(scores + copies + all->length / 2 + 16, 16);
}

static float *copy_in(const job *all, float *to, cs_tensor from, int64_t row, int64_t column)
{
    for (int64_t t = 0; to && t < all->length; t++)
        cs_elements_widen(to + t * all->width, cs_elements_at(from, (row + t) * cs_columns(from) + column), from.dtype,
                          all->width);
    return to;
}

static void copy_out(const job *all, cs_tensor to, int64_t row, int64_t column, const float *from)
{
    for (int64_t t = 0; t < all->length; t++)
        cs_elements_narrow(cs_elements_at(to, (row + t) * cs_columns(to) + column), to.dtype, from + t * all->width,
                           all->width);
}

/* Returns the first column of a head in qkv. */
static int64_t column_of_key(const job *all, int64_t which)
{
    return (all->given->heads.queries + which) * all->width;
}

static int64_t column_of_value(const job *all, int64_t which)
{
    return column_of_key(all, which) + all->given->heads.keys * all->width;
}

static float *element_of(cs_tensor x, int64_t row, int64_t column)
{
    return (float *)x.data + row * cs_columns(x) + column;
}

/* Key head `which` of the sample whose first row is `row`. */
static void view_keys(const job *all, head *view, int64_t row, int64_t which)
{
    const cs_attention_args *given = all->given;
    int64_t key = column_of_key(all, which), value = column_of_value(all, which);
    int64_t size = all->length * all->width;
    if (all->narrow) {
        view->k = copy_in(all, view->room, given->qkv, row, key);
        view->v = copy_in(all, view->room + size, given->qkv, row, value);
        view->dk = view->room + 5 * size;
        view->dv = view->room + 6 * size;
        return;
    }
    view->k = element_of(given->qkv, row, key);
    view->v = element_of(given->qkv, row, value);
    if (given->dqkv.data) {
        view->dk = element_of(given->dqkv, row, key);
        view->dv = element_of(given->dqkv, row, value);
    }
}

static void view_queries(const job *all, head *view, int64_t row, int64_t which)
{
    const cs_attention_args *given = all->given;
    int64_t column = which * all->width, size = all->length * all->width;
    view->lse = (float *)given->lse.data + (row / all->length * given->heads.queries + which) * all->length;
    view->place = (uint64_t)(which * all->length * all->length);
    if (all->narrow) {
        view->q = copy_in(all, view->room + 2 * size, given->qkv, row, column);
        view->y = view->room + 3 * size;
    } else {
        view->q = element_of(given->qkv, row, column);
        view->y = element_of(given->y, row, column);
    }
    if (given->dqkv.data && all->narrow) {
        view->dy = copy_in(all, view->room + 4 * size, given->dy, row, column);
        /* y and dq share memory: delta is computed from a block's rows of y before its dq is written */
        view->dq = view->y = copy_in(all, view->room + 3 * size, given->y, row, column);
    } else if (given->dqkv.data) {
        view->dy = element_of(given->dy, row, column);
        view->dq = element_of(given->dqkv, row, column);
    }
}

/* Returns the part of a view that all heads of a task share. */
static head view_of(const job *all, int64_t sample, int thread)
{
    float *room = all->scratch + thread * all->stride;
    head view = { .wide = all->narrow ? all->width : all->wide, .slim = all->narrow ? all->width : all->columns };
    if (all->given->dropout.rate > 0)
        view.key = cs_dropout_key(all->given->dropout, sample);
    if (all->given->heads.starts.data)
        view.starts = (const int32_t *)all->given->heads.starts.data + sample * all->length;
    view.score = room;
    view.dscore = room + BLOCK * all->length;
    room += BLOCK * all->length * (all->given->dqkv.data ? 2 : 1);
    view.bits = (uint16_t *)(void *)room;
    view.room = room + all->length / 2 + 16;
    return view;
}

/* ---- one block of rows [from, to) against keys [low, to), where low is the first key that row `from` sees ---- */

typedef struct {
    int64_t low, from, to;
} block;

/* Causal mask, sliding window and document borders: returns the first row that row i sees. It never decreases from
 * row to row. */
static int64_t first_seen(const job *all, const head *view, int64_t i)
{
    int64_t window = all->given->heads.window, first = view->starts ? view->starts[i] : 0;
    return window && i - window >= first ? i - window + 1 : first;
}

static block block_at(const job *all, const head *view, int64_t from)
{
    return (block){ first_seen(all, view, from), from, from + BLOCK < all->length ? from + BLOCK : all->length };
}

/* Softmax of one row of `whole` scores, of which [first, seen) are not masked; the others become 0. */
static void softmax_row(float *row, int64_t first, int64_t seen, int64_t whole, float scale, float *lse)
{
    memset(row + seen, 0, (size_t)(whole - seen) * sizeof *row);
    memset(row, 0, (size_t)first * sizeof *row);
    row += first;
    seen -= first;
    float max = cs_elements_max(row, seen) * scale;
    max = isfinite(max) ? max : 0; /* the sum shows values that are not finite */
    float sum = cs_elements_exp(row, seen, scale, max);
    float part = 1 / sum;
    *lse = max + logf(sum);
    for (int64_t j = 0; j < seen; j++)
        row[j] *= part;
}

/* Returns the random bits of row i's dropout, from key `low` on. */
static const uint16_t *dropout_bits(const job *all, const head *view, int64_t i, int64_t low)
{
    return cs_dropout_bits(view->bits, view->key, view->place + (uint64_t)(i * all->length + low), i + 1 - low);
}

/* Applies dropout to row i of P, whose first element belongs to key `low`. */
static void dropout_row(const job *all, const head *view, float *row, int64_t i, int64_t low)
{
    cs_dropout dropout = all->given->dropout;
    uint32_t threshold = cs_dropout_threshold(dropout);
    float scale = 1 / (1 - dropout.rate);
    const uint16_t *bits = dropout_bits(all, view, i, low);
    for (int64_t j = 0; j <= i - low; j++)
        row[j] = bits[j] >= threshold ? row[j] * scale : 0.0f;
}

static void forward_block(const job *all, const head *view, block at)
{
    int64_t rows = at.to - at.from, D = all->width, low = at.low, whole = at.to - low, wide = view->wide;
    cs_panel scores = { .transpose_b = true, .m = rows, .n = whole, .k = D, .lda = wide, .ldb = wide, .ldc = whole };
    cs_panel values = { .m = rows, .n = D, .k = whole, .lda = whole, .ldb = wide, .ldc = view->slim };
    cs_matmul_sgemm(&scores, view->q + at.from * wide, view->k + low * wide, view->score);
    for (int64_t i = at.from; i < at.to; i++) {
        float *row = view->score + (i - at.from) * whole;
        softmax_row(row, first_seen(all, view, i) - low, i + 1 - low, whole, all->scale, &view->lse[i]);
        if (all->given->dropout.rate > 0)
            dropout_row(all, view, row, i, low);
    }
    cs_matmul_sgemm(&values, view->score, view->v + low * wide, view->y + at.from * view->slim);
}

static void forward_head(void *argument, int index, int thread)
{
    const job *all = argument;
    const cs_attention_args *given = all->given;
    int64_t sample = index / given->heads.queries, which = index % given->heads.queries;
    int64_t row = sample * all->length;
    head view = view_of(all, sample, thread);
    view_keys(all, &view, row, which / all->group);
    view_queries(all, &view, row, which);
    for (int64_t from = 0; from < all->length; from += BLOCK)
        forward_block(all, &view, block_at(all, &view, from));
    if (all->narrow)
        copy_out(all, given->y, row, which * all->width, view.y);
}

/* Gradient of the softmax of row i, from key at.low on. score: in, q k^T; out, P with dropout. dscore: in, dP; out,
 * dS. */
static void softmax_grad_row(const job *all, const head *view, int64_t i, block at, float *score, float *dscore)
{
    int64_t seen = i + 1 - at.low, first = first_seen(all, view, i) - at.low, whole = at.to - at.low;
    float scale = all->scale, lse = view->lse[i], keep = 1 / (1 - all->given->dropout.rate);
    float delta = cs_elements_dot(view->dy + i * view->slim, view->y + i * view->slim, all->width);
    memset(score, 0, (size_t)first * sizeof *score);
    memset(dscore, 0, (size_t)first * sizeof *dscore);
    for (int64_t j = first; j < seen; j++)
        score[j] = cs_elements_exp_one(score[j] * scale - lse);
    if (all->given->dropout.rate > 0) {
        uint32_t threshold = cs_dropout_threshold(all->given->dropout);
        const uint16_t *bits = dropout_bits(all, view, i, at.low);
        for (int64_t j = first; j < seen; j++) {
            float kept = bits[j] >= threshold ? keep : 0.0f;
            dscore[j] = score[j] * (dscore[j] * kept - delta) * scale;
            score[j] *= kept;
        }
    } else {
        for (int64_t j = first; j < seen; j++)
            dscore[j] = score[j] * (dscore[j] - delta) * scale;
    }
    memset(score + seen, 0, (size_t)(whole - seen) * sizeof *score);
    memset(dscore + seen, 0, (size_t)(whole - seen) * sizeof *dscore);
}

static void backward_block(const job *all, const head *view, block at)
{
    int64_t rows = at.to - at.from, D = all->width, wide = view->wide, slim = view->slim, n = at.to - at.low;
    const float *q = view->q + at.from * wide, *dy = view->dy + at.from * slim, *k = view->k + at.low * wide;
    cs_panel scores = { .transpose_b = true, .m = rows, .n = n, .k = D, .lda = wide, .ldb = wide, .ldc = n };
    cs_panel dscores = { .transpose_b = true, .m = rows, .n = n, .k = D, .lda = slim, .ldb = wide, .ldc = n };
    cs_panel queries = { .m = rows, .n = D, .k = n, .lda = n, .ldb = wide, .ldc = wide };
    cs_panel keys = { .transpose_a = true, .m = n, .n = D, .k = rows, .lda = n, .ldb = wide, .ldc = wide };
    cs_panel values = { .transpose_a = true, .m = n, .n = D, .k = rows, .lda = n, .ldb = slim, .ldc = wide };
    keys.beta = values.beta = 1;
    cs_matmul_sgemm(&scores, q, k, view->score);
    cs_matmul_sgemm(&dscores, dy, view->v + at.low * wide, view->dscore);
    for (int64_t i = at.from; i < at.to; i++)
        softmax_grad_row(all, view, i, at, view->score + (i - at.from) * n, view->dscore + (i - at.from) * n);
    cs_matmul_sgemm(&values, view->score, dy, view->dv + at.low * wide);
    cs_matmul_sgemm(&queries, view->dscore, k, view->dq + at.from * wide);
    cs_matmul_sgemm(&keys, view->dscore, q, view->dk + at.low * wide);
}

/* Sets dk and dv to 0, because each block adds to them. */
static void clear_keys(const job *all, const head *view)
{
    for (int64_t t = 0; t < all->length; t++) {
        memset(view->dk + t * view->wide, 0, (size_t)all->width * sizeof(float));
        memset(view->dv + t * view->wide, 0, (size_t)all->width * sizeof(float));
    }
}

static void backward_group(void *argument, int index, int thread)
{
    const job *all = argument;
    const cs_attention_args *given = all->given;
    int64_t sample = index / given->heads.keys, key = index % given->heads.keys;
    int64_t row = sample * all->length;
    head view = view_of(all, sample, thread);
    view_keys(all, &view, row, key);
    clear_keys(all, &view);
    for (int64_t which = key * all->group; which < (key + 1) * all->group; which++) {
        view_queries(all, &view, row, which);
        for (int64_t from = (all->length - 1) / BLOCK * BLOCK; from >= 0; from -= BLOCK)
            backward_block(all, &view, block_at(all, &view, from));
        if (all->narrow)
            copy_out(all, given->dqkv, row, which * all->width, view.dq);
    }
    if (all->narrow) {
        copy_out(all, given->dqkv, row, column_of_key(all, key), view.dk);
        copy_out(all, given->dqkv, row, column_of_value(all, key), view.dv);
    }
}

static void run(cs_device *device, const cs_attention_args *given, int64_t heads, cs_team_task *task)
{
    job all = { .given = given, .length = cs_columns(given->lse), .columns = cs_columns(given->y) };
    all.wide = cs_columns(given->qkv);
    all.width = all.columns / given->heads.queries;
    all.group = given->heads.queries / given->heads.keys;
    all.scale = 1 / sqrtf((float)all.width);
    all.narrow = given->y.dtype != CS_F32;
    all.stride = scratch_floats(&all, given->dqkv.data);
    all.scratch = cs_cpu_workspace(device, CS_CPU_SCRATCH, (size_t)(all.stride * device->threads) * sizeof(float));
    cs_team_run(cs_cpu_of(device)->team, (int)(cs_rows(given->y) / all.length * heads), task, &all);
}

void cs_cpu_attention(cs_device *device, const cs_attention_args *attention)
{
    run(device, attention, attention->heads.queries, forward_head);
}

void cs_cpu_attention_grad(cs_device *device, const cs_attention_args *attention)
{
    run(device, attention, attention->heads.keys, backward_group);
}
