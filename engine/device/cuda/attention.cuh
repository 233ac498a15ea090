/* attention.cuh - what attention's kernels share: the job, which rows see which keys, dropout's bits.
 *
 * Legend: B samples of T query rows and S >= T keys, whose last T are the rows' own; H query heads, D = width columns
 * each, `group` of them to one head of keys. Work of a block is a tile of rows of one head of one sample. */
#ifndef CS_DEVICE_ATTENTION_CUH
#define CS_DEVICE_ATTENTION_CUH

#include "base/rng.h"
#include "device/cuda/kernel.cuh"

struct cs_attention_job {
    const void *q, *k, *v;          /* (B, T, H D), (B, S, H / group D) twice: parts of wider rows               */
    const void *dy;                 /* (B, T, H D), like y                                                       */
    void *y;                        /* (B, T, H D)                                                               */
    void *dq, *dk, *dv;             /* as q, k, v lie                                                            */
    float *lse;                     /* (splits, B, H, T), or NULL                                                */
    float *delta;                   /* (B, H, T): sum of dy * y over a row                                       */
    float *parts;                   /* (splits, B, H, T, D): y of each split of the keys; NULL: one split, to y  */
    const int32_t *starts;          /* (B, T), or NULL                                                           */
    const uint64_t *keys;           /* (B), of dropout                                                           */
    uint64_t place;                 /* likewise                                                                  */
    uint32_t threshold;             /* an element is kept where its 16 bits are not below it; 0: all are         */
    float kept;                     /* what a kept one is multiplied by                                          */
    int64_t q_wide, k_wide, y_wide; /* elements from one row to the next                               */
    int samples, length, seen, width, queries, group;
    int pack;   /* 1, or group: that many query heads of a position are rows beside each other     */
    int window; /* 0: none                                                                         */
    int splits;
    float scale; /* 1 / sqrt(D)                                                                     */
};

constexpr float cs_attention_log2e = 1.44269504088896341f, cs_attention_ln2 = 0.693147180559945309f;

/* The block's tile: tiles of most work, the last ones of a sample, come first. */
struct cs_attention_seat {
    int tile, sample, head, split; /* head counts packs of heads */
};

__device__ inline cs_attention_seat cs_attention_sit(int64_t index, int tiles, int heads, int samples)
{
    int64_t each = (int64_t)heads * samples, whole = each * tiles;
    int rest = (int)(index % each);
    return { tiles - 1 - (int)(index % whole / each), rest / heads, rest % heads, (int)(index / whole) };
}

/* The first key that query row t sees. */
__device__ inline int cs_attention_first(const cs_attention_job &job, int sample, int t)
{
    int position = job.seen - job.length + t;
    int first = job.starts ? job.starts[(int64_t)sample * job.length + t] : 0;
    return job.window && position - job.window >= first ? position - job.window + 1 : first;
}

/* The end of the queries that see one of the keys before `to`: they are one run, from the keys' own rows on. */
__device__ inline int cs_attention_end(const cs_attention_job &job, int sample, int to)
{
    int low = to, high = job.length; /* those before low see it, those from high on do not */
    if (!job.starts)
        return job.window ? (int)min((int64_t)high, (int64_t)to + job.window - 1) : high;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (cs_attention_first(job, sample, middle) < to)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Where a row of a head lies in lse and delta. */
__device__ inline int64_t cs_attention_row(const cs_attention_job &job, int sample, int head, int t)
{
    return ((int64_t)sample * job.queries + head) * job.length + t;
}

/* Calls body(W) with W, an integral constant, the narrowest tile that heads of this width, at most 128, fit in. */
template <typename Body> void cs_attention_by_width(int width, Body body)
{
    if (width <= 64)
        body(std::integral_constant<int, 64>{});
    else if (width <= 80)
        body(std::integral_constant<int, 80>{});
    else if (width <= 96)
        body(std::integral_constant<int, 96>{});
    else
        body(std::integral_constant<int, 128>{});
}

/* ---- dropout ---- */

/* Bit n: whether element 8 * counter + n is kept. */
__device__ inline uint32_t cs_attention_eight(uint64_t key, uint64_t counter, uint32_t threshold)
{
    cs_rng_block block = cs_rng_philox(key, counter);
    uint32_t kept = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        kept |= (uint32_t)((block.word[i] & 0xffffu) >= threshold) << 2 * i;
        kept |= (uint32_t)(block.word[i] >> 16 >= threshold) << (2 * i + 1);
    }
    return kept;
}

/* Which probabilities of `rows` rows from t on are kept, of `columns` keys from j on: bit j % 8 of byte
 * [row][column / 8] in shared memory. By all threads of the block. */
template <int columns>
__device__ inline void cs_attention_draw(uint8_t *kept, const cs_attention_job &job, int sample, int head, int t, int j,
                                         int rows)
{
    uint64_t key = cs_rng_mix(job.keys[sample], job.place);
    for (int i = (int)threadIdx.x; i < rows * (columns / 8); i += (int)blockDim.x) {
        uint64_t row = (uint64_t)(head * (int64_t)job.length + t + i / (columns / 8));
        uint64_t element = row * (uint64_t)job.length + (uint64_t)(j + i % (columns / 8) * 8);
        uint32_t bits = cs_attention_eight(key, element / 8, job.threshold);
        if (element % 8)
            bits |= cs_attention_eight(key, element / 8 + 1, job.threshold) << 8;
        kept[i] = (uint8_t)(bits >> element % 8);
    }
}

/* ---- the kernels' callers; each file knows what it can do ---- */

/* Whether cuDNN has run it. */
bool cs_attention_by_cudnn(cs_device *device, const cs_attention_args *given);
cs_attention_job cs_attention_make(const cs_attention_args *given);
/* Through tensor cores: 16-bit types, D a multiple of 8 up to 128, rows aligned to 16 bytes. */
bool cs_attention_fits(const cs_attention_job *job, cs_dtype dtype);
void cs_attention_forward(cudaStream_t stream, const cs_attention_job *job, cs_dtype dtype);
void cs_attention_plain(cudaStream_t stream, const cs_attention_job *job, cs_dtype dtype);
void cs_attention_plain_grad(cudaStream_t stream, const cs_attention_job *job, cs_dtype dtype);

#endif
