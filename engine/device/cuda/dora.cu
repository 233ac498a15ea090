/* dora.cu - DoRA's scaling of columns of a layer's result by magnitude / norm, forward and backward.
 *
 * Both kernels are bound by memory. A thread processes eight columns of many rows, so that it reads the columns'
 * magnitudes, norms and biases only once. A warp reads 256 columns of a row. Backward also needs column sums, for which
 * columns.cuh adds the sums of warps and blocks. */
#include "device/cuda/columns.cuh"

enum { THREADS = CE_COLUMNS_WARPS * CE_WARP };

/* y is the first of the scaled columns of the layer's result, or of its gradient. `stride` is the number of elements
 * from one row of y to the next. */
struct dora_job {
    ce_view y, z, magnitude, bias;
    const float *norms;
    int64_t rows, columns, stride;
    float scale;
};

static dora_job job_of(cs_tensor y, cs_tensor z, cs_tensor norms, const cs_dora *dora)
{
    dora_job job = {};
    job.y = ce_run_view(y);
    job.y.data += (size_t)dora->first * cs_dtype_bytes(y.dtype);
    job.z = ce_run_view(z);
    job.magnitude = ce_run_view(dora->magnitude);
    job.bias = ce_run_view(dora->bias);
    job.norms = (const float *)norms.data;
    job.rows = cs_rows(z);
    job.columns = cs_columns(z);
    job.stride = cs_columns(y);
    job.scale = dora->scale;
    return job;
}

/* Calls body(y, z) for the thread's eight columns of each of its rows. `body` changes y, which is then stored. If
 * `stores_z` is true, z is stored too. */
template <bool stores_z, typename Body> static __device__ void for_rows(const dora_job &job, const Body &body)
{
    ce_range within = { 0, job.columns };
    int64_t at = ce_columns_at();
    for (int64_t row = ce_columns_first_row(); row < job.rows; row += ce_columns_row_step()) {
        ce_view row_y = ce_run_from(job.y, row * job.stride), row_z = ce_run_from(job.z, row * job.columns);
        ce_run run_y = ce_run_load(row_y, at, within), run_z = ce_run_load(row_z, at, within);
        float y[CE_RUN], z[CE_RUN];
        ce_run_widen(y, run_y, job.y.dtype);
        ce_run_widen(z, run_z, job.z.dtype);
        body(y, z);
        ce_run_store(row_y, at, within, y);
        if (stores_z)
            ce_run_store(row_z, at, within, z);
    }
}

/* Reads the norms of the thread's columns. */
static __device__ void read_norms(float *norms, const dora_job &job)
{
    ce_run_read(norms, ce_view{ (unsigned char *)job.norms, CS_F32 }, ce_columns_at(), ce_range{ 0, job.columns });
}

/* Reads magnitude / norm of the thread's columns. */
static __device__ void read_gains(float *gains, const dora_job &job)
{
    float norms[CE_RUN];
    ce_run_read(gains, job.magnitude, ce_columns_at(), ce_range{ 0, job.columns });
    read_norms(norms, job);
    for (int i = 0; i < CE_RUN; i++)
        gains[i] /= norms[i];
}

static __global__ void __launch_bounds__(THREADS) dora_tiles(dora_job job)
{
    float gains[CE_RUN], bias[CE_RUN] = {};
    read_gains(gains, job);
    if (job.bias.data)
        ce_run_read(bias, job.bias, ce_columns_at(), ce_range{ 0, job.columns });
    for_rows<true>(job, [&](float *y, float *z) {
        for (int i = 0; i < CE_RUN; i++) {
            z[i] = y[i] - bias[i] + job.scale * z[i];
            y[i] = bias[i] + gains[i] * z[i];
        }
    });
}

extern "C" void ce_cuda_dora(cs_device *device, cs_tensor y, cs_tensor z, cs_tensor norms, const cs_dora *dora)
{
    ce_launch(ce_cuda_compute(device), ce_columns_shape(device, cs_rows(z), cs_columns(z)), dora_tiles,
              job_of(y, z, norms, dora));
}

/* Scales the columns of dy (job.y), and stores the part's sums of dy * z / norm in `partial`. */
static __global__ void __launch_bounds__(THREADS) dora_grad_tiles(float *partial, dora_job job)
{
    CE_SHARED ce_columns_scratch scratch;
    float gains[CE_RUN], norms[CE_RUN], sum[CE_RUN] = {};
    read_gains(gains, job);
    for_rows<false>(job, [&](float *dy, const float *z) {
        for (int i = 0; i < CE_RUN; i++) {
            sum[i] += dy[i] * z[i];
            dy[i] *= gains[i];
        }
    });
    read_norms(norms, job);
    for (int i = 0; i < CE_RUN; i++)
        sum[i] /= norms[i];
    ce_columns_store(partial, sum, job.columns, &scratch);
}

extern "C" void ce_cuda_dora_grad(cs_device *device, cs_tensor dy, cs_tensor dmagnitude, cs_tensor z, cs_tensor norms,
                                  const cs_dora *dora)
{
    ce_shape shape = ce_columns_shape(device, cs_rows(z), cs_columns(z));
    float *partial = ce_columns_partial(device, shape, cs_columns(z));
    ce_launch(ce_cuda_compute(device), shape, dora_grad_tiles, partial, job_of(dy, z, norms, dora));
    ce_columns_reduce(device, dmagnitude, partial, shape.grid.y);
}

static __global__ void __launch_bounds__(CE_RUN_THREADS)
    join_norms(float *norms, const float *x, int64_t rows, int64_t columns)
{
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    if (i >= columns)
        return;
    for (int64_t row = 0; row < rows; row++)
        sum += x[row * columns + i] * x[row * columns + i];
    norms[i] = sqrtf(sum);
}

extern "C" void ce_cuda_join_norms(cs_device *device, cs_tensor norms, cs_tensor x)
{
    ce_shape shape = { dim3((unsigned)ce_divide_up(cs_count(norms), CE_RUN_THREADS)), dim3(CE_RUN_THREADS) };
    ce_launch(ce_cuda_compute(device), shape, join_norms, (float *)norms.data, (const float *)x.data, cs_rows(x),
              cs_columns(x));
}
