/* attention.h - declarations for attention.c (forward) and attention_grad.c (backward): the packed matrices of a head,
 * the masks, and the exponential.
 *
 * Scores are computed for one block of CE_BLOCK queries and CE_BLOCK keys after another, and within a block for
 * CE_TILE_ROWS queries (a strip) at a time. So the memory of the scores does not depend on T and stays in the first two
 * caches (FlashAttention, Dao et al. 2022). Keys are processed in vectors; a strip skips a vector if none of its
 * queries sees a key of the vector. If the CPU multiplies bf16 natively, all products multiply bf16 pairs:
 * probabilities and gradients of scores are rounded to bf16 before they are multiplied, as in PyTorch. Otherwise all
 * products multiply fp32 elements; 16-bit tensors are converted to fp32 copies first. Sums and softmax are always
 * fp32. */
#ifndef CE_DEVICE_CPU_ATTENTION_H
#define CE_DEVICE_CPU_ATTENTION_H

#include "device/cpu/attention_tile.h"
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

enum { CE_BLOCK = 96 }; /* a multiple of CE_TILE_ROWS and of CE_LANES */

typedef struct {
    const ce_attention_args *given;
    int64_t length, lines; /* `length`: rows T of a sample; `lines`: T rounded up to whole strips and vectors */
    int64_t width, wide;   /* `width`: columns D of a head; `wide`: D rounded up to whole vectors */
    int64_t each;          /* number of elements in a 32-bit word: 2 if the products multiply bf16 pairs, otherwise 1 */
    int64_t depth;         /* number of words in a row of D elements */
    int64_t group;         /* number of query heads that share a key head */
    float scale;           /* factor of the scores; 1 if the scores are capped */
    float cap, into;       /* if `cap` is 0, scores are not capped; else a score x becomes `cap` * tanh(`into` * x) */
    float *scratch;        /* scratch memory of all threads */
    int64_t stride;        /* number of floats of scratch memory for each thread */
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

/* Returns the number of words that one packed matrix of a head needs at most, in any of the three layouts of
 * attention_tile.h. */
static inline int64_t ce_attention_words(const ce_attention_job *all)
{
    return all->lines * all->wide / all->each;
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

/* Returns the range of keys, relative to `key` and rounded to whole vectors, that a strip of queries sees in a block of
 * keys. The strip begins at `row` < T, the block at `key`. Both ends are 0 if the strip sees no key. */
static inline ce_range ce_attention_strip(const ce_attention_job *all, const ce_attention_mask *mask, int64_t row,
                                          int64_t key)
{
    int64_t first = ce_attention_first(all, mask, row) - key, seen = row + CE_TILE_ROWS - key;
    ce_range range = { first > 0 ? first / CE_LANES * CE_LANES : 0,
                       ce_round_up(seen < CE_BLOCK ? seen : CE_BLOCK, CE_LANES) };
    return range.from < range.to ? range : (ce_range){ 0, 0 };
}

/* Returns the elements of the range `strip` that row i sees; the result is empty if i >= T. */
static inline ce_range ce_attention_seen(const ce_attention_job *all, const ce_attention_mask *mask, int64_t i,
                                         int64_t key, ce_range strip)
{
    if (i >= all->length)
        return (ce_range){ strip.to, strip.to };
    int64_t first = ce_attention_first(all, mask, i) - key, seen = i + 1 - key;
    first = first > strip.from ? first : strip.from;
    seen = seen < strip.to ? seen : strip.to;
    return first < seen ? (ce_range){ first, seen } : (ce_range){ strip.to, strip.to };
}

/* Sets the elements of `row` that are in the range `strip`, but not in the range `seen`, to `value`. */
static inline void ce_attention_hide(float *row, ce_range strip, ce_range seen, float value)
{
    for (int64_t j = strip.from; j < seen.from; j++)
        row[j] = value;
    for (int64_t j = seen.to; j < strip.to; j++)
        row[j] = value;
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

/* Returns the random bits for the dropout of row i at the given range of keys. `scratch` has room for CE_BLOCK + 16
 * values. */
const uint16_t *ce_attention_bits(const ce_attention_job *all, const ce_attention_mask *mask, int64_t i, ce_range keys,
                                  uint16_t *scratch);

/* Returns e^x for x <= 1, with an error of about 1 ulp. A result that would be subnormal is 0. */
static inline ce_lanes ce_attention_exp(ce_lanes x)
{
    /* adding 0x1.8p23 leaves the integer nearest to x / ln 2 in the low bits of `shifted` */
    ce_lanes shifted = x * 1.44269504f + 0x1.8p23f;
    ce_lanes n = shifted - 0x1.8p23f, r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    ce_lanes p = r * 1.37576670e-3f + 8.36890470e-3f; /* p is the polynomial of ce_elements_exp_one */
    p = p * r + 4.16694134e-2f;
    p = p * r + 1.66665182e-1f;
    p = p * r + 4.99999881e-1f;
    p = p * (r * r) + r + 1.0f;
    ce_lane_words whole = (ce_lane_words)shifted << 23, small = (ce_lane_words)(x < -87.0f);
    /* the integer sum wraps around in lanes with small x, which `small` then sets to 0 */
    return (ce_lanes)(((ce_lane_words)p + whole) & ~small);
}

#endif
