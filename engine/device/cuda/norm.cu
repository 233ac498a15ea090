/* norm.cu - LayerNorm forward and backward; the kernels are in norm.cuh and norm_grad.cuh. */
#include "device/cuda/norm_grad.cuh"

static ce_norm_job make_job(cs_tensor x, cs_tensor stats, cs_tensor weight)
{
    ce_norm_job job = {};
    job.x = ce_run_view(x);
    job.stats = (float *)stats.data;
    job.weight = ce_run_view(weight);
    job.items = cs_rows(x);
    job.heads = 1;
    job.width = job.whole = job.stride = cs_columns(x);
    return job;
}

extern "C" void ce_cuda_norm(cs_device *device, cs_tensor y, cs_tensor stats, cs_tensor x, cs_tensor weight,
                             cs_tensor bias, float epsilon)
{
    ce_norm_job job = make_job(x, stats, weight);
    job.y = ce_run_view(y);
    job.bias = ce_run_view(bias);
    job.epsilon = epsilon;
    cs_norm_forward<true>(device, job);
}

extern "C" void ce_cuda_norm_grad(cs_device *device, cs_tensor dx, cs_tensor dweight, cs_tensor dbias, cs_tensor dy,
                                  cs_tensor x, cs_tensor stats, cs_tensor weight)
{
    ce_norm_job job = make_job(x, stats, weight);
    job.dx = ce_run_view(dx);
    job.dy = ce_run_view(dy);
    cs_norm_backward<true>(device, job, dweight, dbias);
}

extern "C" void ce_cuda_add_norm(cs_device *device, cs_tensor y, cs_tensor stats, const cs_addition *x,
                                 cs_tensor weight, cs_tensor bias, float epsilon)
{
    ce_norm_job job = make_job(x->a, stats, weight);
    job.y = ce_run_view(y);
    job.bias = ce_run_view(bias);
    job.epsilon = epsilon;
    ce_norm_set_addition(&job, x);
    cs_norm_forward<true>(device, job);
}

extern "C" void ce_cuda_norm_grad_add(cs_device *device, cs_tensor dx, cs_tensor dweight, cs_tensor dbias, cs_tensor dy,
                                      cs_tensor x, cs_tensor stats, cs_tensor weight, cs_tensor beside)
{
    ce_norm_job job = make_job(x, stats, weight);
    job.dx = ce_run_view(dx);
    job.dy = ce_run_view(dy);
    job.beside = ce_run_view(beside);
    cs_norm_backward<true>(device, job, dweight, dbias);
}
