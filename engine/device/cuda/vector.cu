/* vector.cu - elementwise operations: add, cast, fill. They are bound by memory. */
#include "device/cuda/run.cuh"

static __global__ void __launch_bounds__(CS_RUN_THREADS) add_runs(cs_view y, cs_view a, cs_view b, cs_flat flat)
{
    cs_range all = cs_run_all(flat);
    for (int64_t at = cs_run_first(flat); at < flat.count; at += cs_run_step()) {
        cs_run run_a = cs_run_load(a, at, all), run_b = cs_run_load(b, at, all);
        float sum[CS_RUN], more[CS_RUN];
        cs_run_widen(sum, run_a, a.dtype);
        cs_run_widen(more, run_b, b.dtype);
        for (int i = 0; i < CS_RUN; i++)
            sum[i] += more[i];
        cs_run_store(y, at, all, sum);
    }
}

extern "C" void cs_cuda_add(cs_stream *stream, cs_tensor y, cs_tensor a, cs_tensor b)
{
    cs_flat flat = cs_run_flat(y);
    cs_launch(cs_cuda_stream(stream), cs_run_shape(flat), add_runs, cs_run_view(y), cs_run_view(a), cs_run_view(b),
              flat);
}

static __global__ void __launch_bounds__(CS_RUN_THREADS) cast_runs(cs_view y, cs_view x, cs_flat flat)
{
    cs_range all = cs_run_all(flat);
    for (int64_t at = cs_run_first(flat); at < flat.count; at += cs_run_step()) {
        float wide[CS_RUN];
        cs_run_read(wide, x, at, all);
        cs_run_store(y, at, all, wide);
    }
}

extern "C" void cs_cuda_cast(cs_device *device, cs_tensor y, cs_tensor x)
{
    cs_flat flat = cs_run_flat(y);
    if (y.dtype == x.dtype)
        cs_stream_copy(cs_device_stream(device, CS_COMPUTE), y.data, x.data,
                       (size_t)flat.count * cs_dtype_bytes(y.dtype));
    else
        cs_launch(cs_cuda_compute(device), cs_run_shape(flat), cast_runs, cs_run_view(y), cs_run_view(x), flat);
}

static __global__ void __launch_bounds__(CS_RUN_THREADS) fill_runs(cs_view y, float value, cs_flat flat)
{
    float values[CS_RUN];
    for (int i = 0; i < CS_RUN; i++)
        values[i] = value;
    for (int64_t at = cs_run_first(flat); at < flat.count; at += cs_run_step())
        cs_run_store(y, at, cs_run_all(flat), values);
}

extern "C" void cs_cuda_fill(cs_device *device, cs_tensor y, float value)
{
    cs_flat flat = cs_run_flat(y);
    cs_launch(cs_cuda_compute(device), cs_run_shape(flat), fill_runs, cs_run_view(y), value, flat);
}
