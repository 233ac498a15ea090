/* attention.cu - FlashAttention forward (Dao et al. 2022, 2023) on tensor cores.
 *
 * A block of four warps computes 128 query rows of one head; each row belongs to one warp. Tiles of keys and values are
 * copied to shared memory asynchronously: while one pair of tiles is used, the next pair is copied. Tiles that the
 * causal mask, the window or the document starts hide from all rows are never read. Registers hold the scores, and for
 * each row the running maximum of the scores and the sum of powers of two in fp32. When the maximum grows, the sum and
 * the row's y are rescaled (online softmax). The kernel is bound by the tensor cores' rate through mma.sync and by
 * shared memory; a warp loads each key and value from shared memory once for two tiles of 16 rows. With heads of more
 * than 128 columns, the registers of a warp hold y of only 16 rows, and shared memory holds only one tile of keys and
 * one of values: values are copied while the scores are computed, the next keys while y is computed. Capped scores have
 * their own instances of the kernel, so that the cap costs the others no registers; a cap needs two more special
 * functions for each score, beside the power of two.
 *
 * For text generation (extend.cu), the rows of a tile may be the query heads of one position (job.pack). The keys may
 * also be split between blocks; then each block writes the y and the lse of its split. */
#include "device/cuda/attention.cuh"
#include "device/cuda/tile.cuh"

namespace
{

enum { THREADS = 128, WARPS = THREADS / CE_WARP };

/* The tile sizes of the kernel for heads of at most D columns. `shared` is the number of bytes of dynamic shared
 * memory. */
template <int width> struct form {
    static constexpr bool is_capped = false, is_wide = ce_attention_is_wide(width);
    static constexpr int D = width, tiles = is_wide ? 1 : 2, rows = 16 * tiles * WARPS, keys = width <= 64 ? 64 : 32;
    static constexpr int buffers = is_wide ? 1 : 2; /* number of tiles of keys, and of values, in shared memory */
    static constexpr size_t shared = sizeof(bf16) * ce_tile_stride<D> * (rows + 2 * buffers * keys);
};

/* The same for capped scores. */
template <int width> struct capped : form<width> {
    static constexpr bool is_capped = true;
};

/* The state of the rows of a lane. In each tile, these are the rows lane / 4 and lane / 4 + 8. */
template <int tiles> struct row_facts {
    int position[tiles][2], first[tiles][2]; /* the row sees the keys `first` to `position`, inclusive */
    /* `max`: the running maximum of the row's scores in base 2; `sum`: this lane's sum of 2^(score - max) */
    float max[tiles][2], sum[tiles][2];
};

/* Initializes the state. Rows after the last row are computed like the last row, but are not stored. */
template <int tiles>
__device__ inline void find_rows(row_facts<tiles> &rows, const ce_attention_job &job, int sample, int from)
{
    for (int i = 0; i < tiles * 2; i++) {
        int t = min((from + ce_tile_row<tiles>(i / 2, i % 2)) / job.pack, job.length - 1);
        rows.position[i / 2][i % 2] = job.seen - job.length + t;
        rows.first[i / 2][i % 2] = ce_attention_first(job, sample, t);
        rows.max[i / 2][i % 2] = -INFINITY;
        rows.sum[i / 2][i % 2] = 0;
    }
}

/* Sets scores to -inf where the row does not see the key. `key` is the first key of the tile. */
template <int tiles, int keys>
__device__ inline void apply_causal_mask(float (&scores)[tiles][keys / 8][4], const row_facts<tiles> &rows, int key)
{
    key += ce_lane() % 4 * 2;
#pragma unroll
    for (int tile = 0; tile < tiles; tile++)
#pragma unroll
        for (int n = 0; n < keys / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int j = key + n * 8 + i % 2;
                if (j < rows.first[tile][i / 2] || j > rows.position[tile][i / 2])
                    scores[tile][n][i] = -INFINITY;
            }
}

/* Online softmax: updates the rows' maxima, replaces scores by 2^(scale * score - max), and rescales the sums and y to
 * the new maxima. */
template <int tiles, int keys, int D>
__device__ inline void update_softmax(float (&scores)[tiles][keys / 8][4], float (&y)[tiles][D / 8][4],
                                      row_facts<tiles> &rows, float scale)
{
#pragma unroll
    for (int row = 0; row < tiles * 2; row++) {
        int tile = row / 2, low = row % 2 * 2;
        float max = -INFINITY, sum = 0;
#pragma unroll
        for (int n = 0; n < keys / 8; n++)
            max = fmaxf(max, fmaxf(scores[tile][n][low], scores[tile][n][low + 1]));
        max = fmaxf(rows.max[tile][row % 2], ce_tile_max(max) * scale);
        float above = max == -INFINITY ? 0 : max; /* the maximum is -inf if the row has seen no key yet */
        float down = ce_tensor_exp2(rows.max[tile][row % 2] - above);
#pragma unroll
        for (int n = 0; n < keys / 8; n++)
#pragma unroll
            for (int i = low; i < low + 2; i++)
                sum += scores[tile][n][i] = ce_tensor_exp2(scores[tile][n][i] * scale - above);
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
            y[tile][n][low] *= down;
            y[tile][n][low + 1] *= down;
        }
        rows.sum[tile][row % 2] = rows.sum[tile][row % 2] * down + sum;
        rows.max[tile][row % 2] = max;
    }
}

/* Sets dropped probabilities to 0. `kept` is the dropout mask of the block's rows, made by
 * ce_attention_dropout_mask. */
template <int tiles, int keys>
__device__ inline void apply_dropout(float (&scores)[tiles][keys / 8][4], const uint8_t *kept)
{
#pragma unroll
    for (int tile = 0; tile < tiles; tile++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint8_t *row = kept + ce_tile_row<tiles>(tile, i / 2) * (keys / 8);
            int bit = ce_lane() % 4 * 2 + i % 2;
#pragma unroll
            for (int n = 0; n < keys / 8; n++)
                if (!(row[n] >> bit & 1))
                    scores[tile][n][i] = 0;
        }
}

/* A range [begin, end) of tiles of keys. keys_of finds the tiles of keys that query rows [from, to) see, divides them
 * equally among the splits, and returns the range of split number `split`. */
struct span {
    int begin, end;
};

template <int keys> __device__ inline span keys_of(const ce_attention_job &job, int sample, int split, int from, int to)
{
    int begin = ce_attention_first(job, sample, from / job.pack) / keys;
    int end = (job.seen - job.length + (to - 1) / job.pack) / keys + 1;
    int count = end - begin;
    return { begin + (int)((int64_t)count * split / job.splits),
             begin + (int)((int64_t)count * (split + 1) / job.splits) };
}

template <typename T, typename F>
__device__ inline void write_rows(const ce_attention_job &job, const ce_attention_work &work, int from,
                                  float (&y)[F::tiles][F::D / 8][4], row_facts<F::tiles> &rows)
{
#pragma unroll
    for (int i = 0; i < F::tiles * 2; i++) {
        int tile = i / 2, lower = i % 2, row = from + ce_tile_row<F::tiles>(tile, lower);
        float sum = ce_tile_sum(rows.sum[tile][lower]), part = sum == 0 ? 0 : job.keep_scale / sum;
        if (row >= job.length * job.pack)
            continue;
        int t = row / job.pack, head = work.head * job.pack + row % job.pack;
        int64_t at = ce_attention_row(job, work.sample, head, t);
        at += (int64_t)work.split * job.samples * job.queries * job.length;
        if (job.lse && ce_lane() % 4 == 0)
            job.lse[at] = sum == 0 ? -INFINITY : rows.max[tile][lower] * ce_attention_ln2 + logf(sum);
        if (job.parts)
            for (int n = 0; n < F::D / 8; n++)
                for (int c = 0; c < 2 && n * 8 < job.width; c++)
                    job.parts[at * job.width + n * 8 + ce_lane() % 4 * 2 + c] = y[tile][n][lower * 2 + c] * part;
        else
            ce_tile_store<T, F::D>(static_cast<T *>(job.y) + ((int64_t)work.sample * job.length + t) * job.y_stride +
                                       (int64_t)head * job.width,
                                   y[tile], lower, job.width, part);
    }
}

/* The query rows of one sample for one head, or for `pack` adjacent heads. view(row) returns the address of a row, or
 * nullptr after the last row. `pack` adjacent heads of one row of q count as `pack` rows. */
template <typename T> struct query_view {
    const T *head;
    int64_t stride;
    int count, pack, width;

    __device__ const T *operator()(int row) const
    {
        return row < count ? head + row / pack * stride + row % pack * width : nullptr;
    }
};

template <typename T, typename F> __global__ void __launch_bounds__(THREADS) forward(ce_attention_job job)
{
    constexpr int D = F::D, keys = F::keys, stride = ce_tile_stride<D>, size = keys * stride;
    CE_SHARED uint8_t kept[F::rows * keys / 8];
    T *q = reinterpret_cast<T *>(ce_shared_memory()), *k = q + F::rows * stride, *v = k + F::buffers * size;

    int whole = job.length * job.pack, tiles = (whole + F::rows - 1) / F::rows;
    ce_attention_work work = ce_attention_work_of(blockIdx.x, tiles, job.queries / job.pack, job.samples);
    int from = work.tile * F::rows, to = min(from + F::rows, whole);
    span walk = keys_of<keys>(job, work.sample, work.split, from, to);
    int64_t query_row = (int64_t)work.sample * job.length, key_row = (int64_t)work.sample * job.seen;
    int64_t key = key_row * job.k_stride + (int64_t)(work.head * job.pack / job.group) * job.width;
    int64_t query = query_row * job.q_stride + (int64_t)work.head * job.pack * job.width;
    query_view<T> q_view = { static_cast<const T *>(job.q) + query, job.q_stride, whole, job.pack, job.width };
    ce_tile_view<T> k_view = { static_cast<const T *>(job.k) + key, job.k_stride, job.seen };
    ce_tile_view<T> v_view = { static_cast<const T *>(job.v) + key, job.k_stride, job.seen };
    auto fetch = [&](int at, bool with_keys, bool with_values) {
        if (at < walk.end) {
            if (with_keys)
                ce_tile_copy<D, keys>(k + at % F::buffers * size, k_view, at * keys, job.width);
            if (with_values)
                ce_tile_copy<D, keys>(v + at % F::buffers * size, v_view, at * keys, job.width);
        }
        ce_tensor_commit();
    };
    ce_tile_copy<D, F::rows>(q, q_view, from, job.width);
    fetch(walk.begin, true, !F::is_wide);

    row_facts<F::tiles> rows;
    float y[F::tiles][D / 8][4] = {}, scores[F::tiles][keys / 8][4];
    find_rows(rows, job, work.sample, from);
    /* [all_from, all_to] are the keys that all rows of the tile see; tiles of keys inside this range need no mask */
    int all_from = ce_attention_first(job, work.sample, (to - 1) / job.pack);
    int all_to = job.seen - job.length + from / job.pack;
    for (int at = walk.begin; at < walk.end; at++) {
        ce_tensor_wait<0>();
        __syncthreads();
        fetch(F::is_wide ? at : at + 1, !F::is_wide, true);
        if (job.threshold) {
            ce_attention_dropout_mask<keys>(kept, job, work.sample, work.head, from, at * keys, F::rows);
            __syncthreads();
        }
        ce_tile_scores<T, D, F::tiles, keys>(scores, q + ce_warp() * F::tiles * 16 * stride,
                                             k + at % F::buffers * size);
        if (F::is_capped)
            ce_tile_tanh(scores, job.into);
        if (at * keys < all_from || (at + 1) * keys - 1 > all_to)
            apply_causal_mask<F::tiles, keys>(scores, rows, at * keys);
        update_softmax<F::tiles, keys, D>(scores, y, rows, (F::is_capped ? job.cap : job.scale) * ce_attention_log2e);
        if (job.threshold)
            apply_dropout<F::tiles, keys>(scores, kept);
        if (F::is_wide) {
            ce_tensor_wait<0>();
            __syncthreads();
            fetch(at + 1, true, false);
        }
        ce_tile_multiply_add<T, D, F::tiles, keys>(y, scores, v + at % F::buffers * size);
    }
    ce_tensor_wait<0>();
    write_rows<T, F>(job, work, from, y, rows);
}

template <typename T, typename F> void launch(cudaStream_t stream, const ce_attention_job *job)
{
    int64_t tiles = ce_divide_up((int64_t)job->length * job->pack, F::rows);
    int64_t count = tiles * (job->queries / job->pack) * job->samples * job->splits;
    CE_ASSERT(count <= INT32_MAX);
    ce_launch(stream, (ce_shape{ dim3((unsigned)count), dim3(THREADS), F::shared }), forward<T, F>, *job);
}

template <typename T> void launch_width(cudaStream_t stream, const ce_attention_job *job)
{
    ce_attention_by_width(job->width, [&](auto padded) {
        constexpr int D = decltype(padded)::value;
        (job->cap > 0 ? launch<T, capped<D>> : launch<T, form<D>>)(stream, job);
    });
}

} // namespace

ce_attention_job ce_attention_make(const ce_attention_args *given)
{
    cs_heads heads = given->heads;
    cs_dropout dropout = given->dropout;
    ce_attention_job job = {};
    int64_t length = cs_columns(given->lse), width = cs_columns(given->y) / heads.queries;
    size_t bytes = cs_dtype_bytes(given->y.dtype), key = (size_t)(heads.queries * width) * bytes;
    size_t value = key + (size_t)(heads.keys * width) * bytes;
    unsigned char *qkv = (unsigned char *)given->qkv.data, *dqkv = (unsigned char *)given->dqkv.data;
    CE_ASSERT(length <= INT32_MAX / 2 && width <= INT32_MAX && heads.queries <= INT32_MAX);
    job.q = qkv, job.k = qkv + key, job.v = qkv + value;
    if (dqkv)
        job.dq = dqkv, job.dk = dqkv + key, job.dv = dqkv + value;
    job.dy = given->dy.data, job.y = given->y.data, job.lse = (float *)given->lse.data;
    job.starts = (const int32_t *)heads.starts.data;
    job.keys = dropout.keys, job.place = dropout.place;
    job.threshold = (uint32_t)lrintf(dropout.rate * 65536.0f);
    job.keep_scale = 1 / (1 - dropout.rate);
    job.first = heads.first;
    job.q_stride = job.k_stride = cs_columns(given->qkv);
    job.y_stride = cs_columns(given->y);
    job.samples = (int)(cs_rows(given->y) / length);
    job.length = job.seen = (int)length;
    job.width = (int)width;
    job.queries = (int)heads.queries;
    job.group = (int)(heads.queries / heads.keys);
    job.pack = job.splits = 1;
    job.window = (int)(heads.window < length ? heads.window : 0);
    job.scale = ce_heads_scale(heads, width);
    job.cap = heads.cap;
    job.into = heads.cap > 0 ? job.scale / heads.cap : 0;
    return job;
}

bool ce_attention_fits(const ce_attention_job *job, cs_dtype dtype)
{
    return dtype != CS_F32 && job->width % 8 == 0 && job->width <= ce_attention_widest && ce_is_aligned(job->q) &&
           ce_is_aligned(job->k) && ce_is_aligned(job->v) && ce_is_aligned(job->y) && ce_is_aligned(job->dy) &&
           ce_is_aligned(job->dq);
}

void cs_attention_forward(cudaStream_t stream, const ce_attention_job *job, cs_dtype dtype)
{
    if (!ce_attention_fits(job, dtype))
        ce_attention_plain(stream, job, dtype);
    else if (dtype == CS_BF16)
        launch_width<bf16>(stream, job);
    else
        launch_width<half_t>(stream, job);
}

bool ce_attention_by_cudnn(cs_device *device, const ce_attention_args *given)
{
    return ce_cudnn_attention && ce_cudnn_attention(device, given);
}

void ce_cuda_attention(cs_device *device, const ce_attention_args *attention)
{
    if (ce_attention_by_cudnn(device, attention))
        return;
    ce_attention_job job = ce_attention_make(attention);
    cs_attention_forward(ce_cuda_compute(device), &job, attention->y.dtype);
}
