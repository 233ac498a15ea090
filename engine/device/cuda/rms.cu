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
    job.width = cs_count(weight);
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
