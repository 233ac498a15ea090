/* extend.cu - attention of new positions to a cache of keys and values (KV cache), for generation.
 *
 * The new keys and values are appended to the cache first. Then attention forward runs. The query heads that share a
 * key head are rows of one tile, so that the cache is read once. If there are few tiles, as with one new position, the
 * keys are split between several blocks (as in Flash-Decoding). Each block computes y and the log of the softmax
 * denominator for its own keys; a second kernel combines the results of the blocks in order. The kernel is bound by
 * reading the cache. */
#include "device/cuda/attention.cuh"

namespace
{

enum {
    THREADS = 256,
    ROWS = 64 /* least number of query rows that a block computes */,
    KEYS = 256 /* least number of keys in a split */,
    SPLITS = 64 /* greatest number of splits */
};

/* Copies the keys and values of new rows from qkv to the end of the caches. `shared` is the number of columns in a row
 * of keys, `first` the column of qkv at which the keys begin, and `stride` the number of columns of qkv. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    append_keys_values(T *keys, T *values, const T *qkv, int64_t rows, int64_t shared, int64_t stride, int64_t first)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < rows * shared; i += step) {
        const T *from = qkv + i / shared * stride + first + i % shared;
        keys[i] = from[0];
        values[i] = from[shared];
    }
}

/* Combines the splits, and writes lse unless it is NULL: y is the sum of the results of all splits. The result of a split
 * is multiplied by the split's share of the softmax's denominator. One warp computes one row of a head. */
template <typename T>
__global__ void __launch_bounds__(THREADS, 1) combine_splits(T *y, float *lse, ce_attention_job job)
{
    int64_t rows = (int64_t)job.length * job.queries, warps = (int64_t)gridDim.x * (THREADS / CE_WARP);
    int lane = ce_lane();
    for (int64_t row = (int64_t)blockIdx.x * (THREADS / CE_WARP) + ce_warp(); row < rows; row += warps) {
        float max = -INFINITY, whole = 0;
        for (int split = 0; split < job.splits; split++)
            max = fmaxf(max, job.lse[split * rows + row]);
        max = isfinite(max) ? max : 0; /* if `max` is infinite, the result is NaN whatever is subtracted */
        for (int split = 0; split < job.splits; split++)
            whole += expf(job.lse[split * rows + row] - max);
        if (lse && lane == 0)
            lse[row] = max + logf(whole);
        T *out = y + row % job.length * job.y_stride + row / job.length * job.width;
        for (int d = lane; d < job.width; d += CE_WARP) {
            float sum = 0;
            for (int split = 0; split < job.splits; split++) {
                float share = expf(job.lse[split * rows + row] - max) / whole;
                sum += share * job.parts[(split * rows + row) * job.width + d];
            }
            out[d] = ce_narrow<T>(sum);
        }
    }
}

ce_attention_job make(const ce_extension *given)
{
    ce_attention_args heads = {
        .y = given->y,
        .lse = { given->lse.data, CS_F32, 2, { given->heads.queries, cs_rows(given->y) }, false },
        .qkv = given->qkv,
        .dy = {},
        .dqkv = {},
        .heads = given->heads,
        .dropout = {}
    };
    heads.heads.starts.data = NULL;
    ce_attention_job job = ce_attention_make(&heads);
    CE_ASSERT(given->start + job.length <= INT32_MAX / 2);
    job.seen = (int)given->start + job.length;
    job.window = (int)(given->heads.window < job.seen ? given->heads.window : 0);
    job.k = given->keys.data;
    job.v = given->values.data;
    job.k_stride = cs_columns(given->keys);
    job.pack = job.group;
    return job;
}

/* Returns the number of splits: enough for two blocks on each multiprocessor, unless a split would have fewer than KEYS
 * keys. */
int splits_of(const ce_attention_job *job, int processors)
{
    int64_t blocks = ce_divide_up((int64_t)job->length * job->pack, ROWS) * (job->queries / job->pack);
    int64_t keys = job->window ? job->window + job->length : job->seen;
    int64_t max = ce_divide_up(keys, KEYS), wanted = 2 * processors / blocks;
    wanted = wanted < max ? wanted : max;
    wanted = min(wanted, (int64_t)SPLITS);
    return wanted > 1 ? (int)wanted : 1;
}

unsigned blocks_of(int64_t items, int64_t each)
{
    int64_t blocks = ce_divide_up(items, each);
    return (unsigned)(blocks < 65536 ? blocks : 65536);
}

template <typename T> void append(cudaStream_t stream, const ce_extension *given)
{
    int64_t rows = cs_rows(given->y), shared = cs_columns(given->keys), count = rows * shared;
    int64_t at = given->start * shared;
    ce_launch(stream, (ce_shape{ dim3(blocks_of(count, THREADS)), dim3(THREADS) }), append_keys_values<T>,
              static_cast<T *>(given->keys.data) + at, static_cast<T *>(given->values.data) + at,
              static_cast<const T *>(given->qkv.data), rows, shared, cs_columns(given->qkv), cs_columns(given->y));
}

} // namespace

void ce_cuda_extend(cs_device *device, const ce_extension *given)
{
    cudaStream_t stream = ce_cuda_compute(device);
    ce_attention_job job = make(given);
    int64_t rows = (int64_t)job.length * job.queries;
    job.splits = splits_of(&job, ce_cuda_facts_of(device)->processors);
    if (job.splits > 1) {
        size_t each = (size_t)(job.splits * rows);
        job.lse = static_cast<float *>(
            ce_cuda_workspace(device, CE_CUDA_ATTENTION, each * (1 + (size_t)job.width) * sizeof(float)));
        job.parts = job.lse + each;
    }
    ce_by_type(given->y.dtype, [&](auto zero) { append<decltype(zero)>(stream, given); });
    cs_attention_forward(stream, &job, given->y.dtype);
    if (job.splits > 1)
        ce_by_type(given->y.dtype, [&](auto zero) {
            using T = decltype(zero);
            ce_launch(stream, (ce_shape{ dim3(blocks_of(rows, THREADS / CE_WARP)), dim3(THREADS) }), combine_splits<T>,
                      static_cast<T *>(given->y.data), static_cast<float *>(given->lse.data), job);
        });
}
