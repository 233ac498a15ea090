/* norm_grad.cuh - LayerNorm and RMSNorm backward.
 *
 * With n = (x - mean) * rstd and g = dy * weight: dx = rstd * (g - mean(g) - n * mean(g * n)) + beside, dweight += dy *
 * n, dbias += dy. For RMSNorm, mean and mean(g) are 0. Each block has partial sums of dweight and dbias over the rows
 * that this block processes. If a group is at most a warp, each warp has partial sums of its own instead. `part` is the
 * index of a block or warp that has partial sums, and `parts` is the number of these blocks or warps. columns.cuh adds
 * the partial sums of all parts in order. The kernel is bound by reading x and dy and writing dx. */
#ifndef CE_DEVICE_NORM_GRAD_CUH
#define CE_DEVICE_NORM_GRAD_CUH

#include "device/cuda/columns.cuh"
#include "device/cuda/norm.cuh"

/* Partial sums of dweight and dbias, which one thread adds up for eight columns. */
struct ce_norm_sums {
    float weight[CE_RUN], bias[CE_RUN];
};

/* Processes one run: replaces x by n = (x - mean) * rstd and dy by g = dy * weight, and adds dy * n to the sums of the
 * weight and dy to the sums of the bias. */
__device__ inline void ce_norm_accumulate(float *x, float *dy, const ce_norm_job &job, const ce_norm_work &work,
                                          int64_t at, float mean, float rstd, ce_norm_sums *sums)
{
    float weight[CE_RUN];
    ce_run_read(weight, job.weight, at, work.within);
    for (int i = 0; i < CE_RUN; i++) {
        x[i] = (x[i] - mean) * rstd;
        sums->weight[i] += dy[i] * x[i];
        sums->bias[i] += dy[i];
        dy[i] *= weight[i];
    }
}

/* Like ce_norm_accumulate, but for a run that is not in registers: first reads x and dy of the run. */
__device__ inline void ce_norm_read_accumulate(float *n, float *g, const ce_norm_job &job, const ce_norm_work &work,
                                               int64_t at, float mean, float rstd, ce_norm_sums *sums)
{
    ce_run_read(n, ce_run_from(job.x, work.place), at, work.within);
    ce_run_read(g, ce_run_from(job.dy, work.place), at, work.within);
    ce_norm_accumulate(n, g, job, work, at, mean, rstd, sums);
}

__device__ inline void ce_norm_write_grad(const ce_norm_job &job, const ce_norm_work &work, const float *n,
                                          const float *g, int64_t at, float mean_g, float mean_gn, float rstd)
{
    float dx[CE_RUN], beside[CE_RUN] = {};
    if (job.beside.data)
        ce_run_read(beside, ce_run_from(job.beside, work.place), at, work.within);
    for (int i = 0; i < CE_RUN; i++)
        dx[i] = rstd * (g[i] - mean_g - n[i] * mean_gn) + beside[i];
    ce_run_store(ce_run_from(job.dx, work.place), at, work.within, dx);
}

/* Adds `sums` to the partial sums of a block or warp (index `part`) in job.partial, at the eight columns from `at`
 * on. */
__device__ inline void ce_norm_add_sums(const ce_norm_job &job, int64_t part, int64_t at, const ce_norm_sums &sums)
{
    ce_range all = { 0, job.width };
    ce_view of_weight = ce_run_from(ce_view{ (unsigned char *)job.partial, CS_F32 }, part * job.width);
    ce_view of_bias = ce_run_from(of_weight, job.parts * job.width);
    float sum[CE_RUN];
    ce_run_read(sum, of_weight, at, all);
    for (int i = 0; i < CE_RUN; i++)
        sum[i] += sums.weight[i];
    ce_run_store(of_weight, at, all, sum);
    if (!job.biased)
        return;
    ce_run_read(sum, of_bias, at, all);
    for (int i = 0; i < CE_RUN; i++)
        sum[i] += sums.bias[i];
    ce_run_store(of_bias, at, all, sum);
}

/* Adds the sums of those lanes of the warp that have the same columns. The lanes of the first group get the result. */
__device__ inline void ce_norm_reduce_groups(ce_norm_sums *sums, int group)
{
    for (int apart = group; apart < CE_WARP; apart *= 2)
        for (int i = 0; i < CE_RUN; i++) {
            sums->weight[i] += __shfl_xor_sync(0xffffffffu, sums->weight[i], apart);
            sums->bias[i] += __shfl_xor_sync(0xffffffffu, sums->bias[i], apart);
        }
}

/* Computes dx of one item, and adds the item's contribution to the sums. */
template <bool centered>
__device__ inline void ce_norm_grad_item(const ce_norm_job &job, const ce_norm_work &work, int64_t part,
                                         ce_norm_sums (&sums)[CE_NORM_HELD], float *scratch)
{
    float mean = 0, rstd = 0, sum_g = 0, sum_gn = 0, n[CE_NORM_HELD][CE_RUN], g[CE_NORM_HELD][CE_RUN];
    ce_view x = ce_run_from(job.x, work.place), dy = ce_run_from(job.dy, work.place);
    ce_run run_x[CE_NORM_HELD], run_dy[CE_NORM_HELD];
    auto add = [&](const float *own_n, const float *own_g) {
        for (int i = 0; i < CE_RUN; i++) {
            sum_g += own_g[i];
            sum_gn += own_g[i] * own_n[i];
        }
    };
#pragma unroll
    for (int r = 0; r < CE_NORM_HELD; r++) {
        run_x[r] = ce_run_load(x, ce_norm_at(job, work, r), work.within);
        run_dy[r] = ce_run_load(dy, ce_norm_at(job, work, r), work.within);
    }
    if (work.item < job.items) {
        mean = centered ? job.stats[2 * work.item] : 0;
        rstd = job.stats[centered ? 2 * work.item + 1 : work.item];
    }
#pragma unroll
    for (int r = 0; r < CE_NORM_HELD; r++) {
        ce_run_widen(n[r], run_x[r], job.x.dtype);
        ce_run_widen(g[r], run_dy[r], job.dy.dtype);
        ce_norm_accumulate(n[r], g[r], job, work, ce_norm_at(job, work, r), mean, rstd, &sums[r]);
        add(n[r], g[r]);
    }
    for (int r = CE_NORM_HELD; ce_norm_at(job, work, r) < work.within.to; r++) {
        int64_t at = ce_norm_at(job, work, r);
        ce_norm_sums thread_sums = {};
        float rest_n[CE_RUN], rest_g[CE_RUN];
        ce_norm_read_accumulate(rest_n, rest_g, job, work, at, mean, rstd, &thread_sums);
        ce_norm_add_sums(job, part, at, thread_sums);
        add(rest_n, rest_g);
    }
    float mean_g = centered ? ce_norm_sum(sum_g, job.group, scratch) / (float)job.width : 0;
    if (job.sums)
        sum_gn = work.item < job.items ? job.sums[work.item] * rstd : 0;
    else
        sum_gn = ce_norm_sum(sum_gn, job.group, scratch);
    float mean_gn = sum_gn / (float)job.whole;
#pragma unroll
    for (int r = 0; r < CE_NORM_HELD; r++)
        ce_norm_write_grad(job, work, n[r], g[r], ce_norm_at(job, work, r), mean_g, mean_gn, rstd);
    for (int r = CE_NORM_HELD; ce_norm_at(job, work, r) < work.within.to; r++) {
        int64_t at = ce_norm_at(job, work, r);
        ce_norm_sums unused = {};
        float rest_n[CE_RUN], rest_g[CE_RUN];
        ce_norm_read_accumulate(rest_n, rest_g, job, work, at, mean, rstd, &unused);
        ce_norm_write_grad(job, work, rest_n, rest_g, at, mean_g, mean_gn, rstd);
    }
}

/* The partial sums in memory must be zero when the kernel starts. */
template <bool centered>
static __global__ void __launch_bounds__(CE_NORM_MAX_THREADS) ce_norm_grad_rows(ce_norm_job job)
{
    CE_SHARED float scratch[CE_WARP];
    int warps = job.group > CE_WARP ? 1 : (int)blockDim.x / CE_WARP, together = (int)blockDim.x / job.group;
    int64_t part = (int64_t)blockIdx.x * warps + (warps > 1 ? ce_warp() : 0);
    ce_norm_sums sums[CE_NORM_HELD] = {};
    for (int64_t first = (int64_t)blockIdx.x * together; first < job.items; first += (int64_t)gridDim.x * together)
        ce_norm_grad_item<centered>(job, ce_norm_work_of(job, first), part, sums, scratch);
    ce_norm_work work = ce_norm_work_of(job, 0);
#pragma unroll
    for (int r = 0; r < CE_NORM_HELD; r++) {
        ce_norm_reduce_groups(&sums[r], job.group);
        if (ce_lane() < job.group)
            ce_norm_add_sums(job, part, ce_norm_at(job, work, r), sums[r]);
    }
}

/* Launches enough blocks to fill the GPU, but so few that a group processes at least about MIN_ITEMS items. If dbias is
 * absent, the gradient of the bias is not computed. */
template <bool centered> void cs_norm_backward(cs_device *device, ce_norm_job job, cs_tensor dweight, cs_tensor dbias)
{
    enum { MIN_ITEMS = 4 };
    job.group = ce_norm_group(job.width);
    int threads = ce_norm_threads(job.group), warps = job.group > CE_WARP ? 1 : threads / CE_WARP;
    int64_t together = threads / job.group * MIN_ITEMS, max = ce_divide_up(job.items, together);
    int64_t blocks = (int64_t)ce_cuda_facts_of(device)->processors * (threads > 128 ? 2 : 256 / threads);
    blocks = blocks < max ? blocks : max;
    job.parts = blocks * warps;
    if (blocks == 0)
        return;
    job.biased = dbias.data != NULL;
    size_t bytes = (size_t)((job.biased ? 2 : 1) * job.parts * job.width) * sizeof(float);
    job.partial = (float *)ce_cuda_workspace(device, CE_CUDA_REDUCTION, bytes);
    ce_cuda_clear(device, job.partial, bytes);
    ce_launch(ce_cuda_compute(device), ce_shape{ dim3((unsigned)blocks), dim3((unsigned)threads) },
              ce_norm_grad_rows<centered>, job);
    ce_columns_reduce(device, dweight, job.partial, job.parts);
    if (job.biased)
        ce_columns_reduce(device, dbias, job.partial + job.parts * job.width, job.parts);
}

#endif
