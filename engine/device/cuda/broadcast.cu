/* broadcast.cu - sums and products of a matrix and a matrix, a row, a column or a number; the sums of rows. The kernels are
 * bound by memory. */
#include "device/cuda/run.cuh"

#include <math.h>

/* A block computes one row at a time. If b has as many elements as y, all elements are one line that is cut into rows of
 * one run for each thread. */
struct broadcast_job {
    ce_view y, a, b;
    float factor;
    bool multiplies, one;           /* `one`: a row of b is one element */
    int64_t count, columns, b_step; /* `b_step`: elements from one row of b to the next */
};

static __global__ void __launch_bounds__(CE_RUN_THREADS) broadcast_rows(broadcast_job job, int64_t rows)
{
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        int64_t first = row * job.columns, rest = job.count - first;
        ce_range within = { 0, rest < job.columns ? rest : job.columns };
        for (int64_t at = (int64_t)threadIdx.x * CE_RUN; at < within.to; at += (int64_t)blockDim.x * CE_RUN) {
            float a[CE_RUN] = {}, b[CE_RUN];
            if (job.a.data)
                ce_run_read(a, ce_run_from(job.a, first), at, within);
            if (!job.one)
                ce_run_read(b, ce_run_from(job.b, row * job.b_step), at, within);
            for (int i = 0; i < CE_RUN; i++) {
                float value = job.one ? ce_run_read_one(job.b, row * job.b_step) : b[i];
                a[i] = job.multiplies ? a[i] * value : a[i] + job.factor * value;
            }
            ce_run_store(ce_run_from(job.y, first), at, within, a);
        }
    }
}

extern "C" void ce_cuda_broadcast(cs_device *device, const ce_broadcast *given)
{
    int64_t count = cs_count(given->y), columns = cs_columns(given->y);
    bool same = cs_count(given->b) == count;
    if (count == 0)
        return;
    broadcast_job job = {};
    job.y = ce_run_view(given->y), job.a = ce_run_view(given->a), job.b = ce_run_view(given->b);
    job.factor = given->factor, job.multiplies = given->multiplies;
    job.count = count;
    job.columns = same ? CE_RUN_THREADS * CE_RUN : columns;
    job.one = !same && cs_columns(given->b) == 1;
    job.b_step = same ? job.columns : cs_rows(given->b) == 1 ? 0 : cs_columns(given->b);
    int64_t rows = ce_divide_up(count, job.columns);
    ce_launch(ce_cuda_compute(device), ce_run_rows_shape(rows, job.columns), broadcast_rows, job, rows);
}

static __global__ void __launch_bounds__(CE_RUN_THREADS)
    sum_rows(float *sums, ce_view x, float factor, int64_t rows, int64_t columns)
{
    CE_SHARED float scratch[CE_RUN_THREADS / CE_WARP];
    ce_range within = { 0, columns };
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        float sum = 0;
        for (int64_t at = (int64_t)threadIdx.x * CE_RUN; at < columns; at += (int64_t)blockDim.x * CE_RUN) {
            float wide[CE_RUN];
            ce_run_read(wide, ce_run_from(x, row * columns), at, within);
            for (int i = 0; i < CE_RUN; i++)
                sum += wide[i];
        }
        sum = ce_block_sum(sum, scratch);
        if (threadIdx.x == 0)
            sums[row] = factor * sum;
    }
}

extern "C" void ce_cuda_row_sums(cs_device *device, cs_tensor sums, cs_tensor x, float factor)
{
    ce_launch(ce_cuda_compute(device), ce_run_rows_shape(cs_rows(x), cs_columns(x)), sum_rows, (float *)sums.data,
              ce_run_view(x), factor, cs_rows(x), cs_columns(x));
}
