/* attention.cuh - declarations that the attention kernels share: their parameters, the causal mask, the dropout mask.
 *
 * Letters in the comments: there are B samples, each with T query rows and S >= T keys; the last T keys have the
 * positions of the query rows. There are H query heads of D = width columns each, and `group` query heads share one key
 * head. A block computes a tile of rows of one head of one sample. */
#ifndef CE_DEVICE_ATTENTION_CUH
#define CE_DEVICE_ATTENTION_CUH

#include "device/cuda/draw.cuh"

struct ce_attention_job {
    /* q is (B, T, H D); k and v are (B, S, (H / group) D); each of them is a range of columns of wider rows */
    const void *q, *k, *v;
    const void *dy;     /* dy: (B, T, H D), with the row stride of y */
    void *y;            /* (B, T, H D) */
    void *dq, *dk, *dv; /* the gradients have the layouts of q, k and v */
    /* lse (splits, B, H, T): log of the softmax's denominator; NULL: the log is not stored */
    float *lse;
    float *delta; /* delta (B, H, T): for each row of each head, the sum of dy * y */
    /* parts (splits, B, H, T, D): y of each split of the keys; NULL: there is one split, whose result is in `y` */
    float *parts;
    const int32_t *starts; /* starts (B, T): first position of the row's document; NULL: each sample is one document */
    const uint64_t *keys;  /* keys (B): the random keys of dropout, one for each sample */
    uint64_t place;        /* number that identifies this dropout within the model */
    uint32_t threshold;    /* dropout keeps an element if its 16 random bits are at least this number; 0: no dropout */
    float keep_scale;      /* dropout multiplies the elements that it keeps by this factor */
    int64_t first;         /* number of the first query head among the heads of all ranks, for dropout */
    int64_t q_stride, k_stride, y_stride; /* number of elements from one row to the next */
    int samples, length, seen, width, queries, group;
    int pack;   /* 1 or `group`: how many query heads of one position the kernel treats as rows of one tile */
    int window; /* number of keys that a query row sees; 0: no limit */
    int splits;
    float scale; /* factor of the scores */
    /* if `cap` is 0, scores are not capped; else a product x of a query and a key becomes the score `cap` * tanh(`into`
     * * x), where `into` is scale / cap */
    float cap, into;
};

constexpr float ce_attention_log2e = 1.44269504088896341f, ce_attention_ln2 = 0.693147180559945309f;

/* The work of one block: a tile of rows of one head of one sample, and one split of the keys. */
struct ce_attention_work {
    int tile, sample, head, split; /* head: index of a group of job.pack query heads */
};

/* Returns the work of block `index`. The last tiles of a sample see the most keys. They get the lowest indices, so that
 * long work starts first and the multiprocessors finish at about the same time. */
__device__ inline ce_attention_work ce_attention_work_of(int64_t index, int tiles, int heads, int samples)
{
    int64_t each = (int64_t)heads * samples, whole = each * tiles;
    int rest = (int)(index % each);
    return { tiles - 1 - (int)(index % whole / each), rest / heads, rest % heads, (int)(index / whole) };
}

/* Returns the first key that query row t sees. */
__device__ inline int ce_attention_first(const ce_attention_job &job, int sample, int t)
{
    int position = job.seen - job.length + t;
    int first = job.starts ? job.starts[(int64_t)sample * job.length + t] : 0;
    return job.window && position - job.window >= first ? position - job.window + 1 : first;
}

/* Returns the end (exclusive) of the range of query rows that see at least one key of a tile of keys. `to` is the end
 * (exclusive) of the tile. The range begins at the row that has the position of the tile's first key. */
__device__ inline int ce_attention_end(const ce_attention_job &job, int sample, int to)
{
    int low = to, high = job.length; /* binary search: rows before `low` see the tile, rows from `high` on do not */
    if (!job.starts)
        return job.window ? (int)min((int64_t)high, (int64_t)to + job.window - 1) : high;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (ce_attention_first(job, sample, middle) < to)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns the index in lse and delta of row t of a head. */
__device__ inline int64_t ce_attention_row(const ce_attention_job &job, int sample, int head, int t)
{
    return ((int64_t)sample * job.queries + head) * job.length + t;
}

/* The largest width of a head that the tensor-core kernels compute. */
constexpr int ce_attention_widest = 256;

/* Calls body(W), where the integral constant W is the width of the narrowest tile that holds `width` columns. `width`
 * is at most ce_attention_widest. */
template <typename Body> void ce_attention_by_width(int width, Body body)
{
    if (width <= 64)
        body(std::integral_constant<int, 64>{});
    else if (width <= 80)
        body(std::integral_constant<int, 80>{});
    else if (width <= 96)
        body(std::integral_constant<int, 96>{});
    else if (width <= 128)
        body(std::integral_constant<int, 128>{});
    else
        body(std::integral_constant<int, ce_attention_widest>{});
}

/* Returns whether tiles of `width` columns are so wide that the kernels use fewer rows and buffers, so that registers
 * and shared memory suffice. */
constexpr bool ce_attention_is_wide(int width)
{
    return width > 128;
}

/* ---- dropout of probabilities ---- */

/* Writes the dropout mask of query rows [t, t + rows) and keys [j, j + columns) to shared memory. Bit column % 8 of
 * byte [row][column / 8] is set if dropout keeps the probability. All threads of the block must call this function. */
template <int columns>
__device__ inline void ce_attention_dropout_mask(uint8_t *kept, const ce_attention_job &job, int sample, int head,
                                                 int t, int j, int rows)
{
    uint64_t key = ce_rng_mix(job.keys[sample], job.place);
    for (int i = (int)threadIdx.x; i < rows * (columns / 8); i += (int)blockDim.x) {
        uint64_t row = (uint64_t)((job.first + head) * job.length + t + i / (columns / 8));
        uint64_t element = row * (uint64_t)job.length + (uint64_t)(j + i % (columns / 8) * 8);
        kept[i] = ce_draw_kept(key, element, job.threshold);
    }
}

/* ---- host functions that launch the attention kernels ---- */

/* Computes the attention by cuDNN and returns true. Returns false, and does nothing, if cuDNN cannot compute it. */
bool ce_attention_by_cudnn(cs_device *device, const ce_attention_args *given);
ce_attention_job ce_attention_make(const ce_attention_args *given);
/* Returns whether the tensor-core kernels can compute the job: 16-bit types, D a multiple of 8 and at most
 * ce_attention_widest, rows aligned to 16 bytes. */
bool ce_attention_fits(const ce_attention_job *job, cs_dtype dtype);
void cs_attention_forward(cudaStream_t stream, const ce_attention_job *job, cs_dtype dtype);
void ce_attention_plain(cudaStream_t stream, const ce_attention_job *job, cs_dtype dtype);
void ce_attention_plain_grad(cudaStream_t stream, const ce_attention_job *job, cs_dtype dtype);

#endif
