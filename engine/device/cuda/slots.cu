/* slots.cu - mixtures of experts: copies of rows to slots, sums of slots, and the multiplication of rows by factors.
 *
 * A slot is a pair of a row and one of the row's experts. A block copies four slots, or computes the sum of one row's
 * slots. The address of a run (run.cuh) depends on a number that is loaded first, so each thread then has four runs in
 * flight. The gradient of a factor is a sum over a row, so one warp processes a row. The gradient of x does not depend
 * on this sum and is stored in the same pass. A thread loads a run of dy before it stores this run of dx, so dx and dy
 * may be the same memory. The kernels are bound by memory. */
#include "device/cuda/run.cuh"

enum { TOGETHER = 4 };

/* ---- slots ---- */

/* Copies four rows of x to four consecutive slots of y at a time. rows[slot] is the row of a slot. */
static __global__ void __launch_bounds__(CE_RUN_THREADS)
    take_rows(ce_view y, ce_view x, const int32_t *rows, int64_t slots, int64_t columns)
{
    for (int64_t first = (int64_t)blockIdx.x * TOGETHER; first < slots; first += (int64_t)gridDim.x * TOGETHER) {
        ce_range within[TOGETHER]; /* empty for a slot that does not exist */
        ce_view from[TOGETHER];
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
            bool exists = first + k < slots;
            within[k] = ce_range{ 0, exists ? columns : 0 };
            from[k] = ce_run_from(x, exists ? rows[first + k] * columns : 0);
        }
        for (int64_t at = threadIdx.x * CE_RUN; at < columns; at += blockDim.x * CE_RUN) {
            ce_run run[TOGETHER];
#pragma unroll
            for (int k = 0; k < TOGETHER; k++)
                run[k] = ce_run_load(from[k], at, within[k]);
#pragma unroll
            for (int k = 0; k < TOGETHER; k++)
                ce_run_put(ce_run_from(y, (first + k) * columns), at, within[k], run[k]);
        }
    }
}

extern "C" void ce_cuda_take_slots(cs_device *device, cs_tensor y, cs_tensor x, const cs_routing *routing)
{
    int64_t slots = cs_rows(y), columns = cs_columns(y);
    ce_launch(ce_cuda_compute(device), ce_run_rows_shape(ce_divide_up(slots, TOGETHER), columns), take_rows,
              ce_run_view(y), ce_run_view(x), (const int32_t *)routing->rows.data, slots, columns);
}

/* Adds the elements `at` to `at` + 7 of the `chosen` slots of a row to `sum`, in the order of `slots`. */
static __device__ void add_runs(float *sum, ce_view x, const int32_t *slots, int chosen, int64_t at, int64_t columns)
{
    for (int first = 0; first < chosen; first += TOGETHER) {
        ce_run run[TOGETHER];
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
            bool exists = first + k < chosen;
            run[k] = ce_run_load(ce_run_from(x, exists ? slots[first + k] * columns : 0), at,
                                 ce_range{ 0, exists ? columns : 0 });
        }
        ce_run_add(sum, run, x.dtype);
    }
}

static __global__ void __launch_bounds__(CE_RUN_THREADS)
    add_rows(ce_view y, ce_view x, const int32_t *slots, int64_t rows, int64_t columns, int chosen)
{
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        for (int64_t at = threadIdx.x * CE_RUN; at < columns; at += blockDim.x * CE_RUN) {
            float sum[CE_RUN] = {};
            add_runs(sum, x, slots + row * chosen, chosen, at, columns);
            ce_run_store(ce_run_from(y, row * columns), at, ce_range{ 0, columns }, sum);
        }
    }
}

extern "C" void ce_cuda_add_slots(cs_device *device, cs_tensor y, cs_tensor x, const cs_routing *routing)
{
    ce_launch(ce_cuda_compute(device), ce_run_rows_shape(cs_rows(y), cs_columns(y)), add_rows, ce_run_view(y),
              ce_run_view(x), (const int32_t *)routing->slots.data, cs_rows(y), cs_columns(y),
              (int)cs_columns(routing->slots));
}

/* ---- multiplication of rows by factors ---- */

/* Forward computes y from x. Backward computes y, which is the gradient of x, from dy, and dfactors from x and dy. */
struct scale_job {
    ce_view y, x, dy, factors, dfactors;
    int64_t rows, columns;
    bool logistic; /* a row is multiplied by the logistic function of its factor */
};

static __device__ float factor_of(const scale_job &job, int64_t row)
{
    float factor = ce_run_read_one(job.factors, row);
    return job.logistic ? 1 / (1 + expf(-factor)) : factor;
}

static __device__ void scale_run(ce_view y, int64_t at, ce_range within, float *values, float factor)
{
    for (int i = 0; i < CE_RUN; i++)
        values[i] *= factor;
    ce_run_store(y, at, within, values);
}

static __global__ void __launch_bounds__(CE_RUN_THREADS) scale_factor_rows(scale_job job)
{
    ce_range within = { 0, job.columns };
    for (int64_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
        float factor = factor_of(job, row), x[CE_RUN];
        ce_view from = ce_run_from(job.x, row * job.columns), to = ce_run_from(job.y, row * job.columns);
        for (int64_t at = threadIdx.x * CE_RUN; at < job.columns; at += blockDim.x * CE_RUN) {
            ce_run_read(x, from, at, within);
            scale_run(to, at, within, x, factor);
        }
    }
}

extern "C" void ce_cuda_scale_rows(cs_device *device, cs_tensor y, cs_tensor x, cs_tensor factors, bool logistic)
{
    scale_job job = { ce_run_view(y), ce_run_view(x), ce_view{},     ce_run_view(factors),
                      ce_view{},      cs_rows(x),     cs_columns(x), logistic };
    ce_launch(ce_cuda_compute(device), ce_run_rows_shape(job.rows, job.columns), scale_factor_rows, job);
}

enum { WARPS = CE_RUN_THREADS / CE_WARP, STEP = CE_WARP * CE_RUN, PAIRS = 2 };

/* Computes this lane's runs of a row of y, the gradient of x. Returns the lane's part of the row's sum of x * dy. */
static __device__ float scale_grad_row(const scale_job &job, int64_t row, float factor)
{
    ce_view from_x = ce_run_from(job.x, row * job.columns), from_dy = ce_run_from(job.dy, row * job.columns);
    ce_view to = ce_run_from(job.y, row * job.columns);
    ce_range within = { 0, job.columns };
    float sum = 0;
    for (int64_t at = ce_lane() * CE_RUN; at < job.columns; at += PAIRS * STEP) {
        ce_run run_x[PAIRS], run_dy[PAIRS];
#pragma unroll
        for (int k = 0; k < PAIRS; k++) {
            run_x[k] = ce_run_load(from_x, at + k * STEP, within);
            run_dy[k] = ce_run_load(from_dy, at + k * STEP, within);
        }
#pragma unroll
        for (int k = 0; k < PAIRS; k++) {
            float x[CE_RUN], dy[CE_RUN];
            ce_run_widen(x, run_x[k], job.x.dtype);
            ce_run_widen(dy, run_dy[k], job.dy.dtype);
            for (int i = 0; i < CE_RUN; i++)
                sum += x[i] * dy[i];
            scale_run(to, at + k * STEP, within, dy, factor);
        }
    }
    return sum;
}

static __global__ void __launch_bounds__(CE_RUN_THREADS) scale_grad_rows(scale_job job)
{
    int64_t warp = (int64_t)blockIdx.x * WARPS + ce_warp();
    for (int64_t row = warp; row < job.rows; row += (int64_t)gridDim.x * WARPS) {
        float factor = factor_of(job, row), slope = job.logistic ? factor * (1 - factor) : 1;
        float sum = ce_warp_sum(scale_grad_row(job, row, factor));
        if (ce_lane() == 0)
            ce_run_store_one(job.dfactors, row, slope * sum);
    }
}

extern "C" void ce_cuda_scale_rows_grad(cs_device *device, cs_tensor dx, cs_tensor dfactors, cs_tensor dy, cs_tensor x,
                                        cs_tensor factors, bool logistic)
{
    scale_job job = { ce_run_view(dx),       ce_run_view(x), ce_run_view(dy), ce_run_view(factors),
                      ce_run_view(dfactors), cs_rows(x),     cs_columns(x),   logistic };
    int64_t blocks = ce_divide_up(job.rows, WARPS);
    ce_launch(ce_cuda_compute(device), ce_shape{ dim3(ce_bounded_grid(blocks)), dim3(CE_RUN_THREADS) }, scale_grad_rows,
              job);
}
