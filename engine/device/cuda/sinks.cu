/* sinks.cu - attention sinks: one more score of each head's softmax, whose value vector is 0. A warp computes a row of a
 * head. The gradient of a sink is a sum over all rows, which one block adds up in a fixed order. */
#include "device/cuda/run.cuh"

enum { WARPS = CE_RUN_THREADS / CE_WARP };

struct sink_job {
    ce_view y, dy, sinks;
    float *lse, *dsinks;
    int64_t rows, heads, length, width;
    bool fresh; /* dsinks is set instead of added to */
};

static sink_job job_of(cs_tensor y, cs_tensor lse, cs_tensor sinks)
{
    int64_t heads = cs_count(sinks);
    return sink_job{ ce_run_view(y), ce_view{}, ce_run_view(sinks), (float *)lse.data,     NULL,
                     cs_rows(y),     heads,     cs_columns(lse),    cs_columns(y) / heads, false };
}

static __device__ float *lse_at(const sink_job &job, int64_t row, int64_t head)
{
    return job.lse + (row / job.length * job.heads + head) * job.length + row % job.length;
}

static __global__ void __launch_bounds__(CE_RUN_THREADS) sink_rows(sink_job job)
{
    int64_t first = (int64_t)blockIdx.x * WARPS + ce_warp(), step = (int64_t)gridDim.x * WARPS;
    for (int64_t i = first; i < job.rows * job.heads; i += step) {
        float *place = lse_at(job, i / job.heads, i % job.heads), lse = *place;
        float sink = ce_run_read_one(job.sinks, i % job.heads), rest = expf(-fabsf(lse - sink));
        float factor = (lse < sink ? rest : 1) / (1 + rest), values[CE_RUN];
        ce_view row = ce_run_from(job.y, i * job.width);
        ce_range within = { 0, job.width };
        for (int64_t at = ce_lane() * CE_RUN; at < job.width; at += CE_WARP * CE_RUN) {
            ce_run_read(values, row, at, within);
            for (int k = 0; k < CE_RUN; k++)
                values[k] *= factor;
            ce_run_store(row, at, within, values);
        }
        __syncwarp(); /* all lanes have read lse */
        if (ce_lane() == 0)
            *place = fmaxf(lse, sink) + log1pf(rest);
    }
}

extern "C" void ce_cuda_sinks(cs_device *device, cs_tensor y, cs_tensor lse, cs_tensor sinks)
{
    sink_job job = job_of(y, lse, sinks);
    int64_t blocks = ce_divide_up(job.rows * job.heads, WARPS);
    ce_launch(ce_cuda_compute(device), ce_shape{ dim3(ce_bounded_grid(blocks)), dim3(CE_RUN_THREADS) }, sink_rows, job);
}

static __global__ void __launch_bounds__(CE_RUN_THREADS) sink_grad_heads(sink_job job)
{
    CE_SHARED float scratch[WARPS];
    int64_t head = blockIdx.x;
    float sink = ce_run_read_one(job.sinks, head), sum = 0, y[CE_RUN], dy[CE_RUN];
    ce_range within = { 0, job.width };
    for (int64_t row = ce_warp(); row < job.rows; row += WARPS) {
        int64_t first = (row * job.heads + head) * job.width;
        float share = expf(sink - *lse_at(job, row, head)), dot = 0;
        for (int64_t at = ce_lane() * CE_RUN; at < job.width; at += CE_WARP * CE_RUN) {
            ce_run_read(y, ce_run_from(job.y, first), at, within);
            ce_run_read(dy, ce_run_from(job.dy, first), at, within);
            for (int k = 0; k < CE_RUN; k++)
                dot += y[k] * dy[k];
        }
        sum -= share * dot;
    }
    sum = ce_block_sum(sum, scratch);
    if (threadIdx.x == 0)
        job.dsinks[head] = sum + (job.fresh ? 0 : job.dsinks[head]);
}

extern "C" void ce_cuda_sinks_grad(cs_device *device, cs_tensor dsinks, cs_tensor dy, cs_tensor y, cs_tensor lse,
                                   cs_tensor sinks)
{
    sink_job job = job_of(y, lse, sinks);
    job.dy = ce_run_view(dy);
    job.dsinks = (float *)dsinks.data;
    job.fresh = dsinks.overwrite;
    ce_launch(ce_cuda_compute(device), ce_shape{ dim3((unsigned)job.heads), dim3(CE_RUN_THREADS) }, sink_grad_heads,
              job);
}
