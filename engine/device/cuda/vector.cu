/* vector.cu - elementwise operations: add, cast, fill, and the operations on columns of a matrix. The kernels are bound
 * by memory. */
#include "device/cuda/run.cuh"

static __global__ void __launch_bounds__(CE_RUN_THREADS) add_runs(ce_view y, ce_view a, ce_view b, ce_flat flat)
{
    ce_range all = ce_run_all(flat);
    for (int64_t at = ce_run_first(flat); at < flat.count; at += ce_run_step()) {
        ce_run run_a = ce_run_load(a, at, all), run_b = ce_run_load(b, at, all);
        float sum[CE_RUN], more[CE_RUN];
        ce_run_widen(sum, run_a, a.dtype);
        ce_run_widen(more, run_b, b.dtype);
        for (int i = 0; i < CE_RUN; i++)
            sum[i] += more[i];
        ce_run_store(y, at, all, sum);
    }
}

extern "C" void ce_cuda_add(cs_stream *stream, cs_tensor y, cs_tensor a, cs_tensor b)
{
    ce_flat flat = ce_run_flat(y);
    ce_launch(ce_cuda_stream(stream), ce_run_shape(flat), add_runs, ce_run_view(y), ce_run_view(a), ce_run_view(b),
              flat);
}

static __global__ void __launch_bounds__(CE_RUN_THREADS) cast_runs(ce_view y, ce_view x, ce_flat flat)
{
    ce_range all = ce_run_all(flat);
    for (int64_t at = ce_run_first(flat); at < flat.count; at += ce_run_step()) {
        float wide[CE_RUN];
        ce_run_read(wide, x, at, all);
        ce_run_store(y, at, all, wide);
    }
}

extern "C" void ce_cuda_cast(cs_device *device, cs_tensor y, cs_tensor x)
{
    ce_flat flat = ce_run_flat(y);
    if (y.dtype == x.dtype)
        ce_stream_copy(ce_device_stream(device, CE_COMPUTE), y.data, x.data,
                       (size_t)flat.count * cs_dtype_bytes(y.dtype));
    else
        ce_launch(ce_cuda_compute(device), ce_run_shape(flat), cast_runs, ce_run_view(y), ce_run_view(x), flat);
}

static __global__ void __launch_bounds__(CE_RUN_THREADS) fill_runs(ce_view y, float value, ce_flat flat)
{
    float values[CE_RUN];
    for (int i = 0; i < CE_RUN; i++)
        values[i] = value;
    for (int64_t at = ce_run_first(flat); at < flat.count; at += ce_run_step())
        ce_run_store(y, at, ce_run_all(flat), values);
}

extern "C" void ce_cuda_fill(cs_device *device, cs_tensor y, float value)
{
    ce_flat flat = ce_run_flat(y);
    ce_launch(ce_cuda_compute(device), ce_run_shape(flat), fill_runs, ce_run_view(y), value, flat);
}

static __global__ void __launch_bounds__(CE_RUN_THREADS)
    columns_rows(ce_view narrow, ce_view wide, int64_t rows, int64_t columns, int64_t stride, float scale, bool takes)
{
    ce_range row_range = { 0, columns };
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        ce_view x = ce_run_from(narrow, row * columns), y = ce_run_from(wide, row * stride);
        for (int64_t at = threadIdx.x * CE_RUN; at < columns; at += blockDim.x * CE_RUN) {
            float from[CE_RUN], to[CE_RUN];
            ce_run_read(to, y, at, row_range);
            ce_run_read(from, x, at, row_range);
            for (int i = 0; i < CE_RUN; i++)
                to[i] = takes ? scale * to[i] : to[i] + scale * from[i];
            ce_run_store(takes ? x : y, at, row_range, to);
        }
    }
}

/* If job->takes is set, the old values of `narrow` are not needed, but the kernel reads them nevertheless: a separate
 * kernel for this case would save only the reading. */
extern "C" void ce_cuda_columns(cs_device *device, const ce_columns *job)
{
    ce_view wide = ce_run_view(job->wide);
    wide.data += (size_t)job->first * cs_dtype_bytes(wide.dtype);
    ce_launch(ce_cuda_compute(device), ce_run_rows_shape(cs_rows(job->narrow), cs_columns(job->narrow)), columns_rows,
              ce_run_view(job->narrow), wide, cs_rows(job->narrow), cs_columns(job->narrow), cs_columns(job->wide),
              job->scale, job->takes);
}

static __global__ void __launch_bounds__(CE_RUN_THREADS) add_counts(int64_t *sums, const int32_t *counts, int64_t count)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (int64_t)gridDim.x * blockDim.x)
        sums[i] += counts[i];
}

extern "C" void ce_cuda_add_counts(cs_stream *stream, int64_t *sums, const int32_t *counts, int64_t count)
{
    unsigned blocks = (unsigned)ce_divide_up(count, CE_RUN_THREADS);
    ce_launch(ce_cuda_stream(stream), ce_shape{ dim3(blocks), dim3(CE_RUN_THREADS) }, add_counts, sums, counts, count);
}
