/* expert_bias.cu - mixtures of experts with biases: each slot gets the bias of its expert. A thread adds up a column of
 * an expert's slots in their order; a warp computes the gradient of a slot's factor. */
#include "device/cuda/run.cuh"
#include "device/slot.h"

enum { WARPS = CE_RUN_THREADS / CE_WARP };

/* In backward, y is the gradient of the biased rows. */
struct bias_job {
    ce_view y, bias, factors;
    float *dbias, *dfactors;
    const int32_t *bounds;
    int64_t slots, columns;
    int experts;
    bool fresh; /* dbias is set instead of added to */
};

static bias_job job_of(cs_tensor y, cs_tensor bias, cs_tensor factors, const cs_routing *routing)
{
    return bias_job{
        ce_run_view(y), ce_run_view(bias), ce_run_view(factors), NULL, NULL, (const int32_t *)routing->bounds.data,
        cs_rows(y),     cs_columns(y),     (int)cs_rows(bias),   false
    };
}

static __device__ float factor_of(const bias_job &job, int64_t slot)
{
    return job.factors.data ? ce_run_read_one(job.factors, slot) : 1;
}

static __global__ void __launch_bounds__(CE_RUN_THREADS) add_bias_rows(bias_job job)
{
    ce_range within = { 0, job.columns };
    for (int64_t slot = blockIdx.x; slot < job.slots; slot += gridDim.x) {
        float factor = factor_of(job, slot), y[CE_RUN], bias[CE_RUN];
        ce_view row = ce_run_from(job.y, slot * job.columns);
        ce_view from = ce_run_from(job.bias, ce_slot_expert(job.bounds, job.experts, (int32_t)slot) * job.columns);
        for (int64_t at = threadIdx.x * CE_RUN; at < job.columns; at += blockDim.x * CE_RUN) {
            ce_run_read(y, row, at, within);
            ce_run_read(bias, from, at, within);
            for (int k = 0; k < CE_RUN; k++)
                y[k] += factor * bias[k];
            ce_run_store(row, at, within, y);
        }
    }
}

extern "C" void ce_cuda_expert_bias(cs_device *device, cs_tensor y, cs_tensor bias, cs_tensor factors,
                                    const cs_routing *routing)
{
    bias_job job = job_of(y, bias, factors, routing);
    if (job.slots > 0)
        ce_launch(ce_cuda_compute(device), ce_run_rows_shape(job.slots, job.columns), add_bias_rows, job);
}

static __global__ void __launch_bounds__(CE_RUN_THREADS) sum_bias_columns(bias_job job)
{
    int64_t all = job.experts * job.columns, step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < all; i += step) {
        int64_t e = i / job.columns;
        float sum = 0;
        for (int64_t slot = job.bounds[e]; slot < job.bounds[e + 1]; slot++)
            sum += factor_of(job, slot) * ce_run_read_one(job.y, slot * job.columns + i % job.columns);
        job.dbias[i] = sum + (job.fresh ? 0 : job.dbias[i]);
    }
}

static __global__ void __launch_bounds__(CE_RUN_THREADS) dot_bias_rows(bias_job job)
{
    ce_range within = { 0, job.columns };
    int64_t first = (int64_t)blockIdx.x * WARPS + ce_warp(), step = (int64_t)gridDim.x * WARPS;
    for (int64_t slot = first; slot < job.slots; slot += step) {
        ce_view row = ce_run_from(job.y, slot * job.columns);
        ce_view from = ce_run_from(job.bias, ce_slot_expert(job.bounds, job.experts, (int32_t)slot) * job.columns);
        float sum = 0, dy[CE_RUN], bias[CE_RUN];
        for (int64_t at = ce_lane() * CE_RUN; at < job.columns; at += CE_WARP * CE_RUN) {
            ce_run_read(dy, row, at, within);
            ce_run_read(bias, from, at, within);
            for (int k = 0; k < CE_RUN; k++)
                sum += dy[k] * bias[k];
        }
        sum = ce_warp_sum(sum);
        if (ce_lane() == 0)
            job.dfactors[slot] += sum;
    }
}

extern "C" void ce_cuda_expert_bias_grad(cs_device *device, cs_tensor dbias, cs_tensor dfactors, cs_tensor dy,
                                         cs_tensor bias, cs_tensor factors, const cs_routing *routing)
{
    bias_job job = job_of(dy, bias, factors, routing);
    job.dbias = (float *)dbias.data;
    job.dfactors = (float *)dfactors.data;
    job.fresh = dbias.overwrite;
    int64_t columns = ce_divide_up(job.experts * job.columns, CE_RUN_THREADS), rows = ce_divide_up(job.slots, WARPS);
    if (job.dbias)
        ce_launch(ce_cuda_compute(device), ce_shape{ dim3(ce_bounded_grid(columns)), dim3(CE_RUN_THREADS) },
                  sum_bias_columns, job);
    if (job.dfactors && rows > 0)
        ce_launch(ce_cuda_compute(device), ce_shape{ dim3(ce_bounded_grid(rows)), dim3(CE_RUN_THREADS) }, dot_bias_rows,
                  job);
}
