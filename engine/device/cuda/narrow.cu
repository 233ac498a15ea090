/* narrow.cu - conversion of flat state between float types, with multiplication by a factor. The kernel is bound by
 * memory. */
#include "device/cuda/run.cuh"

struct convert_job {
    ce_view to, from;
    float factor;
};

static __global__ void __launch_bounds__(CE_RUN_THREADS) convert_runs(convert_job job, ce_flat flat)
{
    ce_range all = ce_run_all(flat);
    for (int64_t at = ce_run_first(flat); at < flat.count; at += ce_run_step()) {
        float wide[CE_RUN];
        ce_run_read(wide, job.from, at, all);
        for (int i = 0; i < CE_RUN; i++)
            wide[i] *= job.factor;
        ce_run_store(job.to, at, all, wide);
    }
}

extern "C" void ce_cuda_convert(cs_stream *stream, cs_tensor to, cs_tensor from, float factor)
{
    convert_job job = { ce_run_view(to), ce_run_view(from), factor };
    ce_flat flat = ce_run_flat(to);
    if (flat.count == 0)
        return;
    ce_launch(ce_cuda_stream(stream), ce_run_shape(flat), convert_runs, job, flat);
}
