/* narrow.cu - conversion of flat state between float types, times a factor. The kernel is bound by memory. */
#include "device/cuda/run.cuh"

struct convert_job {
    cs_view to, from;
    float factor;
};

static __global__ void __launch_bounds__(CS_RUN_THREADS) convert_runs(convert_job job, cs_flat flat)
{
    cs_range all = cs_run_all(flat);
    for (int64_t at = cs_run_first(flat); at < flat.count; at += cs_run_step()) {
        float wide[CS_RUN];
        cs_run_read(wide, job.from, at, all);
        for (int i = 0; i < CS_RUN; i++)
            wide[i] *= job.factor;
        cs_run_store(job.to, at, all, wide);
    }
}

extern "C" void cs_cuda_convert(cs_stream *stream, cs_tensor to, cs_tensor from, float factor)
{
    convert_job job = { cs_run_view(to), cs_run_view(from), factor };
    cs_flat flat = cs_run_flat(to);
    if (flat.count == 0)
        return;
    cs_launch(cs_cuda_stream(stream), cs_run_shape(flat), convert_runs, job, flat);
}
