/* attention.h - declarations for attention.c (forward), attention_grad.c (backward) and attention_scores.c: the packed
 * matrices of a head, the masks, and the functions on rows of scores.
 *
 * Scores are computed for one block of rows and columns after another, and within a block for a strip of rows at a time.
 * So the memory of the scores does not depend on T and stays in the first two caches (FlashAttention, Dao et al. 2022).
 * Forward has queries along the rows and keys along the columns; backward has keys along the rows, so that P^T and dS^T
 * are left factors of products without a transposition. A strip skips the columns that none of its rows sees, and a
 * block that the causal mask, the window or the documents hide as a whole is not computed.
 *
 * If the CPU multiplies bf16 natively, all products multiply bf16 pairs: probabilities and gradients of scores are
 * rounded to bf16 before they are multiplied, as in PyTorch. Otherwise all products multiply fp32 elements; 16-bit
 * tensors are converted to fp32 copies first. Sums and softmax are always fp32. The factor log2(e) is part of the
 * scale of the scores, so exponentials are powers of 2. */
#ifndef CE_DEVICE_CPU_ATTENTION_H
#define CE_DEVICE_CPU_ATTENTION_H

#include "device/cpu/attention_tile.h"
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

/* CE_LINES: a multiple of both strips and of two vectors. CE_SPAN_MAX: the greatest number of columns of a block. */
enum { CE_LINES = 96, CE_SPAN_MAX = 256 };
#define CE_LOG2E 1.44269504088896341f

typedef struct {
    const ce_attention_args *given;
    ce_attention_way way;
    int64_t length, lines; /* `length`: rows T of a sample; `lines`: T rounded up to whole strips and units */
    int64_t width, wide;   /* `width`: columns D of a head; `wide`: D rounded up to whole vectors, or pairs of tiles */
    int64_t each;          /* number of elements in a 32-bit word: 2 if the products multiply bf16 pairs, otherwise 1 */
    int64_t depth;         /* number of words in a row of D elements */
    int64_t a_step;        /* a_step (ce_tile) of a left factor in the layout "rows" */
    int64_t strip, block, span; /* rows of a strip, and rows and columns of a block of scores */
    int64_t unit;               /* columns are computed in units: one vector, or two tiles */
    int64_t inner;   /* the inner dimension of a product is a multiple of this number; both are powers of 2 */
    int64_t group;   /* number of query heads that share a key head */
    float scale;     /* factor of the scores; 1 if the scores are capped */
    float cap, into; /* if `cap` is 0, scores are not capped; else a score x becomes `cap` * tanh(`into` * x) */
    float *scratch;  /* scratch memory of all threads */
    int64_t stride;  /* number of floats of scratch memory for each thread */
} ce_attention_job;

/* Says which keys the queries of one head of a sample see, and which probabilities dropout sets to 0. */
typedef struct {
    /* `starts`: for each row of the sample, the first row of its document; NULL: the sample is one document */
    const int32_t *starts;
    /* `key`: the sample's random key for dropout; `place`: the index in the sample of the head's first probability */
    uint64_t key, place;
} ce_attention_mask;

/* Runs a task for each of `heads` heads of each sample. Each thread gets `floats` floats of scratch memory. */
void ce_attention_run(cs_device *device, ce_attention_job *all, int64_t heads, int64_t floats, ce_team_task *task);
ce_attention_job ce_attention_job_of(cs_device *device, const ce_attention_args *given);
ce_attention_mask ce_attention_mask_of(const ce_attention_job *all, int64_t sample, int64_t which);

/* Allocates `floats` floats from a thread's scratch memory. Returns *space, the start of the free memory, and moves
 * *space to the first address after the allocated floats. */
static inline float *ce_attention_take(float **space, int64_t floats)
{
    float *taken = *space;
    *space += ce_round_up(floats, 16);
    return taken;
}

/* Returns the number of words that hold this number of adjacent elements. */
static inline int64_t ce_attention_as_words(const ce_attention_job *all, int64_t elements)
{
    return all->each == 2 ? elements / 2 : elements;
}

/* Rounds up to a multiple of a power of 2. */
static inline int64_t ce_attention_up(int64_t count, int64_t power)
{
    return (count + power - 1) & -power;
}

/* Returns the number of words that one packed matrix of a head needs at most, in any of the three layouts of
 * attention_tile.h. */
static inline int64_t ce_attention_words(const ce_attention_job *all)
{
    return ce_attention_as_words(all, all->lines * all->wide);
}

/* Rows of a head are far apart in memory, so the processor does not prefetch them by itself. This macro prefetches the
 * row that is read or written CE_AHEAD rows later. An address after the tensor's end does no harm. */
enum { CE_AHEAD = 8, CE_LINE = 64 };
#define CE_ATTENTION_FETCH(address, stride, bytes, write)                                                              \
    for (size_t fetched = 0; fetched < (bytes); fetched += CE_LINE)                                                    \
    __builtin_prefetch((const char *)(address) + CE_AHEAD * (stride) + fetched, write)

/* Copies one head's T rows of x to the layout "rows" (attention_tile.h). The head's first element is at (row, column).
 * Lines of the result after row T - 1 are 0. */
void ce_attention_rows(const ce_attention_job *all, float *to, cs_tensor x, int64_t row, int64_t column);
/* Returns the matrix `rows` in the layout "layers" (attention_tile.h), in memory taken from *space. If a word is one
 * element, the result is `rows` itself. */
float *ce_attention_layers(const ce_attention_job *all, float *rows, float **space);
float *ce_attention_panels(const ce_attention_job *all, const float *rows, float **space);

/* Returns the column of qkv at which the keys of key head `which` begin. ce_attention_value_column returns the column
 * at which the values of the same head begin. */
static inline int64_t ce_attention_key_column(const ce_attention_job *all, int64_t which)
{
    return (all->given->heads.queries + which) * all->width;
}

static inline int64_t ce_attention_value_column(const ce_attention_job *all, int64_t which)
{
    return ce_attention_key_column(all, which) + all->given->heads.keys * all->width;
}

/* Returns the first row that row i < T sees, given the causal mask, the sliding window and the document borders. The
 * result never decreases as i grows. */
static inline int64_t ce_attention_first(const ce_attention_job *all, const ce_attention_mask *mask, int64_t i)
{
    int64_t window = all->given->heads.window, first = mask->starts ? mask->starts[i] : 0;
    return window && i - window >= first ? i - window + 1 : first;
}

/* Returns the columns, relative to `origin`, that are in `seen` and in the block of columns that begins at `origin`,
 * rounded to whole units. Both ends are 0 if there are none. */
static inline ce_range ce_attention_columns(const ce_attention_job *all, ce_range seen, int64_t origin)
{
    int64_t from = seen.from - origin, to = seen.to - origin;
    ce_range range = { from > 0 ? from & -all->unit : 0, ce_attention_up(to < all->span ? to : all->span, all->unit) };
    return range.from < range.to ? range : (ce_range){ 0, 0 };
}

/* Sets the elements of `row` in the range `columns`, whose places are relative to `origin`, to `value`, except those in
 * the range `seen`. */
static inline void ce_attention_hide(float *row, ce_range columns, int64_t origin, ce_range seen, float value)
{
    int64_t from = seen.from - origin, to = seen.to - origin;
    ce_lane_bits place = {
        0,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
#if CE_LANES == 16
        8,
        9,
        10,
        11,
        12,
        13,
        14,
        15
#endif
    };
    for (int64_t j = columns.from; j < columns.to; j += CE_LANES) {
        if (j >= from && j + CE_LANES <= to)
            continue;
        ce_lane_bits at = place + (int32_t)j, shown = (at >= (int32_t)from) & (at < (int32_t)to);
        ce_lane_bits x = *(ce_lane_bits *)(void *)(row + j), other = (ce_lane_bits)((ce_lanes){ 0 } + value);
        *(ce_lane_bits *)(void *)(row + j) = (x & shown) | (other & ~shown);
    }
}

/* Caps the scores of `row` in the range `strip`. If `slopes` is not NULL, stores the derivatives of the cap in it. */
static inline void ce_attention_cap(const ce_attention_job *all, float *row, ce_range strip, float *slopes)
{
    for (int64_t j = strip.from; j < strip.to; j++) {
        float part = ce_elements_tanh_one(row[j] * all->into);
        row[j] = all->cap * part;
        if (slopes)
            slopes[j] = all->cap * all->into * (1 - part * part);
    }
}

/* Returns the random bits for the dropout of row i at the given range of keys. `scratch` has room for CE_SPAN_MAX + 16
 * values. */
const uint16_t *ce_attention_bits(const ce_attention_job *all, const ce_attention_mask *mask, int64_t i, ce_range keys,
                                  uint16_t *scratch);

/* ---- attention_scores.c: rows of scores; places are relative to the row's first column ---- */

/* Returns the largest element of `row` in the range `columns`, or -FLT_MAX. NaN is ignored. */
float ce_scores_largest(const float *row, ce_range columns);
/* Returns, as bits 1 << r, which of the rows have elements in the range `columns` that are greater than max[r]. */
uint32_t ce_scores_above(const float *rows, int64_t span, int64_t count, ce_range columns, const float *max);

typedef struct {
    float scale, max;     /* an element x becomes 2^(scale x - max) */
    const uint16_t *bits; /* random bits, from the first column of the range on; NULL: no dropout */
    uint32_t threshold;   /* a probability whose bits are below this number becomes 0 */
} ce_scores_power;
/* Replaces the scores of a row in the range `columns` by their powers and adds these to CE_LANES partial `sums`. Then
 * drops some. Writes the results to `to` as bf16, or to `row` itself if `to` is NULL. */
void ce_scores_powers(float *row, uint16_t *to, ce_range columns, const ce_scores_power *by, float *sums);

/* The scores of a strip of backward, with keys along the rows and queries along the columns. All pointers are to the
 * strip's first row and the block's first column; rows of fp32 elements are `span` elements apart, rows of pairs `span` / 2
 * words. */
typedef struct {
    int64_t strip, span;
    float scale;                  /* factor of the scores */
    const float *lse, *delta;     /* of each column; `lse` is a logarithm to the base 2 */
    const float *slopes;          /* derivatives of the cap; NULL: scores are not capped */
    float *p, *ds;                /* before the call K Q^T and V dY^T; after it P^T and dS^T */
    uint16_t *p_pairs, *ds_pairs; /* P^T and dS^T as bf16, along the rows */
    ce_word *across;              /* dS^T as pairs of two adjacent rows: `strip` / 2 rows of `span` words */
    /* random bits in panels of CE_LANES columns, each word with the bits of two rows; NULL: no dropout */
    const ce_word *bits;
    int64_t panel; /* number of words in a panel */
    uint32_t threshold;
    float keep; /* factor of the probabilities that dropout keeps */
} ce_scores_slope;
/* Computes P^T and dS^T in the range `columns`: as pairs if p_pairs is not NULL, otherwise in place. */
void ce_scores_slopes(const ce_scores_slope *strip, ce_range columns);

#endif
