/* rms.cu - RMSNorm forward and backward, of rows or of heads of rows; the kernels are in norm.cuh and norm_grad.cuh. */
#include "device/cuda/norm_grad.cuh"

static ce_norm_job make_job(cs_tensor x, cs_tensor stats, cs_tensor weight, int64_t first)
{
    ce_norm_job job = {};
    job.x = ce_run_view(x);
    job.stats = (float *)stats.data;
    job.weight = ce_run_view(weight);
    job.heads = cs_columns(stats);
    job.items = cs_rows(x) * job.heads;
    job.width = job.whole = cs_count(weight);
    job.stride = cs_columns(x);
    job.first = first;
    return job;
}

extern "C" void ce_cuda_rms(cs_device *device, cs_tensor y, cs_tensor stats, cs_tensor x, cs_tensor weight,
                            int64_t first, float epsilon)
{
    ce_norm_job job = make_job(x, stats, weight, first);
    job.y = ce_run_view(y);
    job.epsilon = epsilon;
    cs_norm_forward<false>(device, job);
}

extern "C" void ce_cuda_rms_grad(cs_device *device, cs_tensor dx, cs_tensor dweight, cs_tensor dy, cs_tensor x,
                                 cs_tensor stats, cs_tensor weight, int64_t first)
{
    ce_norm_job job = make_job(x, stats, weight, first);
    job.dx = ce_run_view(dx);
    job.dy = ce_run_view(dy);
    cs_norm_backward<false>(device, job, dweight, cs_tensor{});
}

extern "C" void ce_cuda_add_rms(cs_device *device, cs_tensor y, cs_tensor stats, const cs_addition *x, cs_tensor weight,
                                float epsilon)
{
    ce_norm_job job = make_job(x->a, stats, weight, 0);
    job.y = ce_run_view(y);
    job.epsilon = epsilon;
    ce_norm_set_addition(&job, x);
    cs_norm_forward<false>(device, job);
}

extern "C" void ce_cuda_rms_grad_add(cs_device *device, cs_tensor dx, cs_tensor dweight, cs_tensor dy, cs_tensor x,
                                     cs_tensor stats, cs_tensor weight, cs_tensor beside)
{
    ce_norm_job job = make_job(x, stats, weight, 0);
    job.dx = ce_run_view(dx);
    job.dy = ce_run_view(dy);
    job.beside = ce_run_view(beside);
    cs_norm_backward<false>(device, job, dweight, cs_tensor{});
}

/* ---- rows whose columns are divided over ranks ---- */

/* Sets stats to the sums of x^2, or of dy weight x if dy is not absent. */
static __global__ void __launch_bounds__(CE_NORM_MAX_THREADS) rms_sums_rows(ce_norm_job job)
{
    CE_SHARED float scratch[CE_WARP];
    int64_t together = blockDim.x / job.group;
    for (int64_t first = blockIdx.x * together; first < job.items; first += gridDim.x * together) {
        ce_norm_work work = ce_norm_work_of(job, first);
        float sum = 0;
        for (int r = 0; ce_norm_at(job, work, r) < work.within.to; r++) {
            int64_t at = ce_norm_at(job, work, r);
            float x[CE_RUN], dy[CE_RUN], weight[CE_RUN];
            ce_run_read(x, ce_run_from(job.x, work.place), at, work.within);
            if (job.dy.data) {
                ce_run_read(dy, ce_run_from(job.dy, work.place), at, work.within);
                ce_run_read(weight, job.weight, at, work.within);
            }
            for (int i = 0; i < CE_RUN; i++)
                sum += job.dy.data ? dy[i] * weight[i] * x[i] : x[i] * x[i];
        }
        sum = ce_norm_sum(sum, job.group, scratch);
        if (work.lane == 0 && work.item < job.items)
            job.stats[work.item] = sum;
    }
}

extern "C" void ce_cuda_rms_sums(cs_device *device, cs_tensor sums, cs_tensor dy, cs_tensor x, cs_tensor weight,
                                 int64_t first, int64_t columns)
{
    ce_norm_job job = make_job(x, sums, weight, first);
    job.dy = ce_run_view(dy);
    job.width = columns;
    job.group = ce_norm_group(columns);
    int threads = ce_norm_threads(job.group);
    ce_launch(ce_cuda_compute(device),
              ce_shape{ dim3(ce_bounded_grid(ce_divide_up(job.items, threads / job.group))), dim3(threads) },
              rms_sums_rows, job);
}

extern "C" void ce_cuda_rms_apply(cs_device *device, cs_tensor y, cs_tensor stats, cs_tensor sums, cs_tensor x,
                                  cs_tensor weight, int64_t first, int64_t whole, float epsilon)
{
    ce_norm_job job = make_job(x, stats, weight, first);
    job.y = ce_run_view(y);
    job.sums = (const float *)sums.data;
    job.whole = whole;
    job.epsilon = epsilon;
    cs_norm_forward<false>(device, job);
}

extern "C" void ce_cuda_rms_grad_apply(cs_device *device, cs_tensor dx, cs_tensor dweight, cs_tensor dots, cs_tensor dy,
                                       cs_tensor x, cs_tensor stats, cs_tensor weight, int64_t first, int64_t whole)
{
    ce_norm_job job = make_job(x, stats, weight, first);
    job.dx = ce_run_view(dx);
    job.dy = ce_run_view(dy);
    job.sums = (const float *)dots.data;
    job.whole = whole;
    cs_norm_backward<false>(device, job, dweight, cs_tensor{});
}
