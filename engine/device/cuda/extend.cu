/* extend.cu - attention of new positions to a cache of all positions so far.
 *
 * The new keys and values go into the cache first. Then it is attention forward, with the query heads that share keys
 * as rows beside each other, so that the cache is read once. Where these rows make few blocks, as with one new
 * position, the keys are split between more of them; each has a part of y and its log-sum, which are then put together
 * in order.
 * Bound by reading the cache. */
#include "device/cuda/attention.cuh"

namespace
{

enum { THREADS = 256, ROWS = 64 /* at least, of a block */, KEYS = 256 /* at least, of a split */, SPLITS = 64 };

/* Rows of keys and of values, from qkv to where the caches go on. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    store_rows(T *keys, T *values, const T *qkv, int64_t rows, int64_t shared, int64_t wide, int64_t first)
{
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < rows * shared; i += step) {
        const T *from = qkv + i / shared * wide + first + i % shared;
        keys[i] = from[0];
        values[i] = from[shared];
    }
}

/* y = the splits' parts, each by its share of the softmax's denominator; a warp a row of a head. */
template <typename T> __global__ void __launch_bounds__(THREADS, 1) join_parts(T *y, cs_attention_job job)
{
    int64_t rows = (int64_t)job.length * job.queries, warps = (int64_t)gridDim.x * (THREADS / CS_WARP);
    int lane = (int)threadIdx.x % CS_WARP;
    for (int64_t row = (int64_t)blockIdx.x * (THREADS / CS_WARP) + threadIdx.x / CS_WARP; row < rows; row += warps) {
        float max = -INFINITY, whole = 0;
        for (int split = 0; split < job.splits; split++)
            max = fmaxf(max, job.lse[split * rows + row]);
        max = isfinite(max) ? max : 0; /* what is not finite shows in the sum */
        for (int split = 0; split < job.splits; split++)
            whole += expf(job.lse[split * rows + row] - max);
        T *out = y + row % job.length * job.y_wide + row / job.length * job.width;
        for (int d = lane; d < job.width; d += CS_WARP) {
            float sum = 0;
            for (int split = 0; split < job.splits; split++) {
                float share = expf(job.lse[split * rows + row] - max) / whole;
                sum += share * job.parts[(split * rows + row) * job.width + d];
            }
            out[d] = cs_narrow<T>(sum);
        }
    }
}

cs_attention_job make(const cs_extension *given)
{
    cs_attention_args heads = { .y = given->y,
                                .lse = { NULL, CS_F32, 2, { given->heads.queries, cs_rows(given->y) }, false },
                                .qkv = given->qkv,
                                .dy = {},
                                .dqkv = {},
                                .heads = given->heads,
                                .dropout = {} };
    heads.heads.starts.data = NULL;
    cs_attention_job job = cs_attention_make(&heads);
    CS_ASSERT(given->start + job.length <= INT32_MAX / 2);
    job.seen = (int)given->start + job.length;
    job.window = (int)(given->heads.window < job.seen ? given->heads.window : 0);
    job.k = given->keys.data;
    job.v = given->values.data;
    job.k_wide = cs_columns(given->keys);
    job.pack = job.group;
    return job;
}

/* As many as fill the processors twice, each with KEYS keys or more. */
int splits_of(const cs_attention_job *job, int processors)
{
    int64_t blocks = ((int64_t)job->length * job->pack + ROWS - 1) / ROWS * (job->queries / job->pack);
    int64_t keys = job->window ? job->window + job->length : job->seen;
    int64_t max = (keys + KEYS - 1) / KEYS, wanted = 2 * processors / blocks;
    wanted = wanted < max ? wanted : max;
    wanted = min(wanted, (int64_t)SPLITS);
    return wanted > 1 ? (int)wanted : 1;
}

unsigned blocks_of(int64_t items, int64_t each)
{
    int64_t blocks = (items + each - 1) / each;
    return (unsigned)(blocks < 65536 ? blocks : 65536);
}

template <typename T> void store(cudaStream_t stream, const cs_extension *given)
{
    int64_t rows = cs_rows(given->y), shared = cs_columns(given->keys), count = rows * shared;
    int64_t at = given->start * shared;
    cs_launch(stream, (cs_shape{ dim3(blocks_of(count, THREADS)), dim3(THREADS) }), store_rows<T>,
              static_cast<T *>(given->keys.data) + at, static_cast<T *>(given->values.data) + at,
              static_cast<const T *>(given->qkv.data), rows, shared, cs_columns(given->qkv), cs_columns(given->y));
}

} // namespace

void cs_cuda_extend(cs_device *device, const cs_extension *given)
{
    cudaStream_t stream = cs_cuda_compute(device);
    cs_attention_job job = make(given);
    int64_t rows = (int64_t)job.length * job.queries;
    job.splits = splits_of(&job, cs_cuda_facts_of(device)->processors);
    if (job.splits > 1) {
        size_t each = (size_t)(job.splits * rows);
        job.lse = static_cast<float *>(
            cs_cuda_workspace(device, CS_CUDA_ATTENTION, each * (1 + (size_t)job.width) * sizeof(float)));
        job.parts = job.lse + each;
    }
    cs_by_type(given->y.dtype, [&](auto zero) { store<decltype(zero)>(stream, given); });
    cs_attention_forward(stream, &job, given->y.dtype);
    if (job.splits > 1)
        cs_by_type(given->y.dtype, [&](auto zero) {
            using T = decltype(zero);
            cs_launch(stream, (cs_shape{ dim3(blocks_of(rows, THREADS / CS_WARP)), dim3(THREADS) }), join_parts<T>,
                      static_cast<T *>(given->y.data), job);
        });
}
