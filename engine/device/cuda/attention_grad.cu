/* attention_grad.cu - FlashAttention backward on tensor cores, deterministic: three kernels without atomics.
 *
 * The first kernel computes delta, the sum of dy * y of each row; the kernel is bound by memory. The second kernel
 * works on tiles of keys and computes dk and dv; the results of the query heads that share a key head are added in a
 * fixed order. The third kernel works on tiles of queries and computes dq. Both the second and the third kernel
 * recompute the probabilities P from lse. dP = dy v^T; dropout is applied to dP as to P. Then dS = P (dP - delta), dv =
 * P^T dy, dk = scale dS^T q, dq = scale dS k, where `scale` is the factor of the scores. If the scores are capped, dS
 * is also multiplied by the derivative of the cap, 1 - tanh^2. Together these two kernels compute seven matrix products
 * per tile. A single kernel that adds dq by atomics would need five products and an fp32 copy of dq, but its results
 * would depend on timing.
 *
 * In these two kernels, each row of the result belongs to one warp. The kernel over keys computes P and dS transposed,
 * so that the registers with the result of one product are the operand of the next product. Both kernels are bound by
 * the rate of mma.sync and by shared memory.
 *
 * With heads of more than 128 columns, the registers of a warp hold 16 rows of only one matrix of results. So in the
 * kernel over keys two warps share the same rows: one warp computes the scores and dv, the other warp dP and dk. They
 * exchange the scores and dP through shared memory, and both compute P and dS. No product is computed twice. In the
 * kernel over queries the tiles of values have a single buffer, because two would exceed the shared memory: a tile of
 * values is copied while the scores are computed. */
#include "device/cuda/attention.cuh"
#include "device/cuda/tile.cuh"

namespace
{

/* TEAM: number of lanes that compute one delta together */
enum { THREADS = 128, WARPS = THREADS / CE_WARP, TEAM = 8, DELTA_THREADS = 256 };

/* The tile sizes. A block keeps rows of two matrices in shared memory: `queries` rows in the kernel over queries, and
 * `keys` rows in the kernel over keys. It reads the two other matrices through buffers, in tiles of `streamed` rows.
 * Each kernel has its own number of bytes of dynamic shared memory; `products` is the number of bytes through which
 * warps exchange products. */
template <int width, int row_tiles, int streamed_rows> struct sizes {
    static constexpr bool is_wide = ce_attention_is_wide(width);
    static constexpr int D = width, tiles = row_tiles, streamed = is_wide ? 16 : streamed_rows;
    static constexpr int queries = 16 * tiles * WARPS, keys = is_wide ? queries / 2 : queries;
    static constexpr size_t row_bytes = sizeof(bf16) * ce_tile_stride<D>;
    static constexpr size_t query_shared = row_bytes * (2 * queries + (is_wide ? 3 : 4) * streamed);
    static constexpr size_t products = is_wide ? 2 * sizeof(float) * keys * streamed : 0;
    static constexpr size_t key_shared = row_bytes * (2 * keys + 4 * streamed) + products;
};

/* The sizes for scores without a cap, and for capped scores. Each has its own instances of the kernels, so that the cap
 * costs the scores without a cap no registers. With a cap, the larger tiles would spill registers. */
template <int width> struct form : sizes<width, width <= 64 ? 2 : 1, width == 64 || width == 128 ? 32 : 64> {
    static constexpr bool is_capped = false;
};

template <int width> struct capped : sizes<width, 1, 32> {
    static constexpr bool is_capped = true;
};

/* ---- delta ---- */

/* Computes delta[row] = sum of dy * y. `count` is the number of elements that one load reads. */
template <typename T, int count> __global__ void __launch_bounds__(DELTA_THREADS) row_deltas(ce_attention_job job)
{
    int64_t heads = (int64_t)job.samples * job.length * job.queries, step = (int64_t)gridDim.x * blockDim.x / TEAM;
    int lane = (int)threadIdx.x % TEAM;
    for (int64_t from = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x / CE_WARP * CE_WARP) / TEAM; from < heads;
         from += step) {
        int64_t at = from + ce_lane() / TEAM, row = at / job.queries, head = at % job.queries;
        float sum = 0;
        for (int i = lane * count; at < heads && i < job.width; i += TEAM * count) {
            int64_t place = row * job.y_stride + head * job.width + i;
            auto dy = *reinterpret_cast<const ce_pack<T, count> *>(static_cast<const T *>(job.dy) + place);
            auto y = *reinterpret_cast<const ce_pack<T, count> *>(static_cast<const T *>(job.y) + place);
            for (int n = 0; n < count; n++)
                sum += ce_wide(dy.element[n]) * ce_wide(y.element[n]);
        }
        for (int apart = TEAM / 2; apart > 0; apart /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, apart);
        if (at < heads && lane == 0)
            job.delta[ce_attention_row(job, (int)(row / job.length), (int)head, (int)(row % job.length))] = sum;
    }
}

/* ---- dq ---- */

template <int tiles> struct row_facts {
    int position[tiles][2], first[tiles][2]; /* the row sees the keys `first` to `position`, inclusive */
    float lse[tiles][2], delta[tiles][2];    /* lse is in base 2 */
};

/* Rows after the last row are computed like the last row, but are not stored. */
template <int tiles>
__device__ inline void find_rows(row_facts<tiles> &rows, const ce_attention_job &job, int sample, int head, int from)
{
    for (int i = 0; i < tiles * 2; i++) {
        int t = min(from + ce_tile_row<tiles>(i / 2, i % 2), job.length - 1);
        int64_t at = ce_attention_row(job, sample, head, t);
        rows.position[i / 2][i % 2] = t;
        rows.first[i / 2][i % 2] = ce_attention_first(job, sample, t);
        rows.lse[i / 2][i % 2] = job.lse[at] * ce_attention_log2e;
        rows.delta[i / 2][i % 2] = job.delta[at];
    }
}

/* Computes the gradient of the scores: replaces dP in dscores by dS. `scores` are the products of queries and keys, or
 * their results of ce_tile_tanh if scores are capped. `key` is the first key of the tile. `kept` is the dropout mask of
 * the block's rows, or NULL. */
template <typename F>
__device__ inline void score_grads_by_query(float (&dscores)[F::tiles][F::streamed / 8][4],
                                            const float (&scores)[F::tiles][F::streamed / 8][4],
                                            const row_facts<F::tiles> &rows, const ce_attention_job &job, int key,
                                            const uint8_t *kept)
{
    float scale = (F::is_capped ? job.cap : job.scale) * ce_attention_log2e;
    int pair = ce_lane() % 4 * 2;
#pragma unroll
    for (int tile = 0; tile < F::tiles; tile++)
#pragma unroll
        for (int n = 0; n < F::streamed / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int j = key + n * 8 + pair + i % 2, low = i / 2, row = ce_tile_row<F::tiles>(tile, low);
                bool seen = j >= rows.first[tile][low] && j <= rows.position[tile][low];
                float p = seen ? ce_tensor_exp2(scores[tile][n][i] * scale - rows.lse[tile][low]) : 0;
                float dp = dscores[tile][n][i];
                if (kept)
                    dp *= kept[row * (F::streamed / 8) + n] >> (pair + i % 2) & 1 ? job.keep_scale : 0;
                float slope = F::is_capped ? 1 - scores[tile][n][i] * scores[tile][n][i] : 1;
                dscores[tile][n][i] = p * (dp - rows.delta[tile][low]) * slope;
            }
}

template <typename T, typename F> __global__ void __launch_bounds__(THREADS, 2) grad_queries(ce_attention_job job)
{
    constexpr int D = F::D, keys = F::streamed, stride = ce_tile_stride<D>, size = keys * stride;
    CE_SHARED uint8_t bits[F::queries * keys / 8];
    T *q = reinterpret_cast<T *>(ce_shared_memory()), *dy = q + F::queries * stride;
    T *k = dy + F::queries * stride, *v = k + 2 * size;

    int tiles = (job.length + F::queries - 1) / F::queries;
    ce_attention_work work = ce_attention_work_of(blockIdx.x, tiles, job.queries, job.samples);
    int from = work.tile * F::queries, to = min(from + F::queries, job.length);
    int64_t row = (int64_t)work.sample * job.length, column = (int64_t)work.head * job.width;
    int64_t key = row * job.k_stride + (int64_t)(work.head / job.group) * job.width;
    ce_tile_view<T> q_view = { static_cast<const T *>(job.q) + row * job.q_stride + column, job.q_stride, job.length };
    ce_tile_view<T> dy_view = { static_cast<const T *>(job.dy) + row * job.y_stride + column, job.y_stride,
                                job.length };
    ce_tile_view<T> k_view = { static_cast<const T *>(job.k) + key, job.k_stride, job.length };
    ce_tile_view<T> v_view = { static_cast<const T *>(job.v) + key, job.k_stride, job.length };
    int begin = ce_attention_first(job, work.sample, from) / keys, end = (to - 1) / keys + 1;
    /* returns the buffer of a tile of values */
    auto values = [&](int at) { return F::is_wide ? v : v + at % 2 * size; };
    auto fetch = [&](int at, bool with_keys, bool with_values) {
        if (at < end) {
            if (with_keys)
                ce_tile_copy<D, keys>(k + at % 2 * size, k_view, at * keys, job.width);
            if (with_values)
                ce_tile_copy<D, keys>(values(at), v_view, at * keys, job.width);
        }
        ce_tensor_commit();
    };
    ce_tile_copy<D, F::queries>(q, q_view, from, job.width);
    ce_tile_copy<D, F::queries>(dy, dy_view, from, job.width);
    fetch(begin, true, !F::is_wide);

    row_facts<F::tiles> rows;
    float dq[F::tiles][D / 8][4] = {}, scores[F::tiles][keys / 8][4], dscores[F::tiles][keys / 8][4];
    int warp_rows = ce_warp() * F::tiles * 16 * stride;
    find_rows(rows, job, work.sample, work.head, from);
    for (int at = begin; at < end; at++) {
        ce_tensor_wait<0>();
        __syncthreads();
        if (F::is_wide)
            fetch(at, false, true);
        fetch(at + 1, true, !F::is_wide);
        if (job.threshold) {
            ce_attention_dropout_mask<keys>(bits, job, work.sample, work.head, from, at * keys, F::queries);
            __syncthreads();
        }
        ce_tile_scores<T, D, F::tiles, keys>(scores, q + warp_rows, k + at % 2 * size);
        if (F::is_capped)
            ce_tile_tanh(scores, job.into);
        if (F::is_wide) {
            ce_tensor_wait<1>();
            __syncthreads();
        }
        ce_tile_scores<T, D, F::tiles, keys>(dscores, dy + warp_rows, values(at));
        score_grads_by_query<F>(dscores, scores, rows, job, at * keys, job.threshold ? bits : nullptr);
        ce_tile_multiply_add<T, D, F::tiles, keys>(dq, dscores, k + at % 2 * size);
    }
    T *out = static_cast<T *>(job.dq) + row * job.q_stride + column;
#pragma unroll
    for (int i = 0; i < F::tiles * 2; i++) {
        int t = from + ce_tile_row<F::tiles>(i / 2, i % 2);
        if (t < job.length)
            ce_tile_store<T, D>(out + t * job.q_stride, dq[i / 2], i % 2, job.width, job.scale);
    }
}

/* ---- dk and dv ---- */

/* For each row of a streamed tile of queries, in shared memory: lse, delta, and the first key that the row sees. */
template <int count> struct streamed_rows {
    float lse[count], delta[count]; /* lse is in base 2; after the last row it is infinite, so that P is 0 there */
    int first[count];
};

template <int count>
__device__ inline void load_streamed_rows(streamed_rows<count> &rows, const ce_attention_job &job, int sample, int head,
                                          int from)
{
    int i = (int)threadIdx.x;
    if (i >= count)
        return;
    int t = min(from + i, job.length - 1);
    int64_t at = ce_attention_row(job, sample, head, t);
    rows.lse[i] = from + i < job.length ? job.lse[at] * ce_attention_log2e : INFINITY;
    rows.delta[i] = job.delta[at];
    rows.first[i] = ce_attention_first(job, sample, t);
}

/* Like ce_tile_row, for tiles of keys. With wide heads, warp WARPS / 2 + n has the rows of warp n. */
template <typename F> __device__ inline int key_row(int tile, int lower)
{
    int row = ce_tile_row<F::tiles>(tile, lower);
    return F::is_wide ? row % F::keys : row;
}

/* Like score_grads_by_query, but transposed: the rows of a tile are keys. Replaces scores by P after dropout, and
 * dscores by dS. `key` and `query` are the first key and the first query of the tile. `kept` is the dropout mask with
 * queries as rows, or NULL. */
template <typename F>
__device__ inline void score_grads_by_key(float (&dscores)[F::tiles][F::streamed / 8][4],
                                          float (&scores)[F::tiles][F::streamed / 8][4],
                                          const streamed_rows<F::streamed> &rows, const ce_attention_job &job, int key,
                                          int query, const uint8_t *kept)
{
    float scale = (F::is_capped ? job.cap : job.scale) * ce_attention_log2e;
#pragma unroll
    for (int n = 0; n < F::streamed / 8; n++)
#pragma unroll
        for (int side = 0; side < 2; side++) {
            int column = n * 8 + ce_lane() % 4 * 2 + side, first = rows.first[column];
            float lse = rows.lse[column], delta = rows.delta[column];
#pragma unroll
            for (int i = 0; i < F::tiles * 2; i++) {
                int row = key_row<F>(i / 2, i % 2), j = key + row;
                float &score = scores[i / 2][n][i % 2 * 2 + side], &dscore = dscores[i / 2][n][i % 2 * 2 + side];
                float p = j >= first && j <= query + column ? ce_tensor_exp2(score * scale - lse) : 0, part = 1;
                if (kept)
                    part = kept[column * (F::keys / 8) + row / 8] >> row % 8 & 1 ? job.keep_scale : 0;
                float slope = F::is_capped ? 1 - score * score : 1;
                score = p * part;
                dscore = p * (dscore * part - delta) * slope;
            }
        }
}

/* With wide heads, each warp computes one product, which it passes in `scores`: the first half of the warps computes
 * the scores, the other half computes dP of the same rows. The function sets scores and dscores to both products in
 * both halves. `products` is shared memory for the products of all warps. All threads of the block must call this
 * function. */
template <typename F>
__device__ inline void exchange_products(float (&scores)[F::tiles][F::streamed / 8][4],
                                         float (&dscores)[F::tiles][F::streamed / 8][4], float *products)
{
    static_assert(F::tiles == 1, "a warp with wide heads has 16 rows");
    constexpr int count = F::streamed / 8 * 4, half = WARPS / 2 * count * CE_WARP;
    float *own = products + ce_warp() * count * CE_WARP + ce_lane();
    const float *first = ce_warp() < WARPS / 2 ? own : own - half;
#pragma unroll
    for (int i = 0; i < count; i++)
        own[i * CE_WARP] = scores[0][i / 4][i % 4];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < count; i++) {
        scores[0][i / 4][i % 4] = first[i * CE_WARP];
        dscores[0][i / 4][i % 4] = first[half + i * CE_WARP];
    }
}

/* A tile of queries. `head` is the index of a query head among those that share a key head; `t` is the first row. */
struct visit {
    int head, t;
};

template <typename T, typename F> __global__ void __launch_bounds__(THREADS, 2) grad_keys(ce_attention_job job)
{
    constexpr int D = F::D, queries = F::streamed, stride = ce_tile_stride<D>, size = queries * stride;
    CE_SHARED uint8_t bits[F::keys * queries / 8];
    CE_SHARED streamed_rows<queries> facts[2];
    T *k = reinterpret_cast<T *>(ce_shared_memory()), *v = k + F::keys * stride;
    T *q = v + F::keys * stride, *dy = q + 2 * size;
    float *products = reinterpret_cast<float *>(dy + 2 * size);

    int tiles = (job.length + F::keys - 1) / F::keys;
    ce_attention_work work = ce_attention_work_of(blockIdx.x, tiles, job.queries / job.group, job.samples);
    /* The earlier a key, the more queries see it. So the tiles with the first keys get the lowest block indices. */
    work.tile = tiles - 1 - work.tile;
    int from = work.tile * F::keys, to = min(from + F::keys, job.length);
    int64_t row = (int64_t)work.sample * job.length, key = row * job.k_stride + (int64_t)work.head * job.width;
    ce_tile_view<T> k_view = { static_cast<const T *>(job.k) + key, job.k_stride, job.length };
    ce_tile_view<T> v_view = { static_cast<const T *>(job.v) + key, job.k_stride, job.length };
    int begin = from / queries * queries, end = ce_attention_end(job, work.sample, to);
    auto fetch = [&](visit at, int stage) {
        int head = work.head * job.group + at.head;
        int64_t column = (int64_t)head * job.width;
        if (at.head < job.group) {
            const T *q_head = static_cast<const T *>(job.q) + row * job.q_stride + column;
            const T *dy_head = static_cast<const T *>(job.dy) + row * job.y_stride + column;
            ce_tile_view<T> q_view = { q_head, job.q_stride, job.length };
            ce_tile_view<T> dy_view = { dy_head, job.y_stride, job.length };
            ce_tile_copy<D, queries>(q + stage * size, q_view, at.t, job.width);
            ce_tile_copy<D, queries>(dy + stage * size, dy_view, at.t, job.width);
            load_streamed_rows(facts[stage], job, work.sample, head, at.t);
        }
        ce_tensor_commit();
    };
    ce_tile_copy<D, F::keys>(k, k_view, from, job.width);
    ce_tile_copy<D, F::keys>(v, v_view, from, job.width);
    fetch({ 0, begin }, 0);

    /* with wide heads, a warp has either dv or dk, in the same registers */
    bool has_dv = !F::is_wide || ce_warp() < WARPS / 2, has_dk = !F::is_wide || !has_dv;
    float dk[F::tiles][D / 8][4] = {}, other[F::tiles][D / 8][4] = {};
    auto &dv = F::is_wide ? dk : other;
    float scores[F::tiles][queries / 8][4], dscores[F::tiles][queries / 8][4];
    int warp_rows = (ce_warp() - (has_dv ? 0 : WARPS / 2)) * F::tiles * 16 * stride;
    int stage = 0;
    for (visit at = { 0, begin }; at.head < job.group; stage ^= 1) {
        bool more = at.t + queries < end;
        visit next = { more ? at.head : at.head + 1, more ? at.t + queries : begin };
        ce_tensor_wait<0>();
        __syncthreads();
        fetch(next, stage ^ 1);
        if (job.threshold) {
            ce_attention_dropout_mask<F::keys>(bits, job, work.sample, work.head * job.group + at.head, at.t, from,
                                               queries);
            __syncthreads();
        }
        ce_tile_scores<T, D, F::tiles, queries>(scores, (has_dv ? k : v) + warp_rows, (has_dv ? q : dy) + stage * size);
        if constexpr (F::is_wide)
            exchange_products<F>(scores, dscores, products);
        if (F::is_capped)
            ce_tile_tanh(scores, job.into);
        if (!F::is_wide)
            ce_tile_scores<T, D, F::tiles, queries>(dscores, v + warp_rows, dy + stage * size);
        score_grads_by_key<F>(dscores, scores, facts[stage], job, from, at.t, job.threshold ? bits : nullptr);
        if (has_dv)
            ce_tile_multiply_add<T, D, F::tiles, queries>(dv, scores, dy + stage * size);
        if (has_dk)
            ce_tile_multiply_add<T, D, F::tiles, queries>(dk, dscores, q + stage * size);
        at = next;
    }
#pragma unroll
    for (int i = 0; i < F::tiles * 2; i++) {
        int j = from + key_row<F>(i / 2, i % 2);
        int64_t at = key + j * job.k_stride;
        if (j >= job.length)
            continue;
        if (has_dk)
            ce_tile_store<T, D>(static_cast<T *>(job.dk) + at, dk[i / 2], i % 2, job.width, job.scale);
        if (has_dv)
            ce_tile_store<T, D>(static_cast<T *>(job.dv) + at, dv[i / 2], i % 2, job.width, 1);
    }
}

/* ---- launches ---- */

template <typename T> void launch_deltas(cudaStream_t stream, const ce_attention_job *job)
{
    int64_t rows = (int64_t)job->samples * job->length * job->queries,
            blocks = ce_divide_up(rows * TEAM, DELTA_THREADS);
    ce_shape shape = { dim3((unsigned)(blocks < 65536 ? blocks : 65536)), dim3(DELTA_THREADS) };
    bool packed = job->width % ce_pack_of<T> == 0 && ce_is_aligned(job->y) && ce_is_aligned(job->dy);
    if (packed)
        ce_launch(stream, shape, row_deltas<T, ce_pack_of<T>>, *job);
    else
        ce_launch(stream, shape, row_deltas<T, 1>, *job);
}

template <typename T, typename F> void launch(cudaStream_t stream, const ce_attention_job *job)
{
    int64_t key_heads = (int64_t)job->samples * (job->queries / job->group);
    int64_t query_heads = (int64_t)job->samples * job->queries;
    int64_t key_blocks = ce_divide_up(job->length, F::keys) * key_heads;
    int64_t query_blocks = ce_divide_up(job->length, F::queries) * query_heads;
    CE_ASSERT(key_blocks <= INT32_MAX && query_blocks <= INT32_MAX);
    ce_launch(stream, (ce_shape{ dim3((unsigned)key_blocks), dim3(THREADS), F::key_shared }), grad_keys<T, F>, *job);
    ce_launch(stream, (ce_shape{ dim3((unsigned)query_blocks), dim3(THREADS), F::query_shared }), grad_queries<T, F>,
              *job);
}

template <typename T> void launch_width(cudaStream_t stream, const ce_attention_job *job)
{
    ce_attention_by_width(job->width, [&](auto padded) {
        constexpr int D = decltype(padded)::value;
        (job->cap > 0 ? launch<T, capped<D>> : launch<T, form<D>>)(stream, job);
    });
}

} // namespace

void ce_cuda_attention_grad(cs_device *device, const ce_attention_args *attention)
{
    if (ce_attention_by_cudnn(device, attention))
        return;
    ce_attention_job job = ce_attention_make(attention);
    cudaStream_t stream = ce_cuda_compute(device);
    cs_dtype dtype = attention->y.dtype;
    size_t rows = (size_t)cs_count(attention->lse);
    job.delta = static_cast<float *>(ce_cuda_workspace(device, CE_CUDA_ATTENTION, rows * sizeof(float)));
    ce_by_type(dtype, [&](auto zero) { launch_deltas<decltype(zero)>(stream, &job); });
    if (!ce_attention_fits(&job, dtype))
        ce_attention_plain_grad(stream, &job, dtype);
    else if (dtype == CS_BF16)
        launch_width<bf16>(stream, &job);
    else
        launch_width<half_t>(stream, &job);
}
