/* swiglu.cu - SwiGLU forward and backward: y = silu(gate) * up, where a row of x is gate | up. The kernels are bound by
 * memory. */
#include "device/cuda/run.cuh"

/* Returns e^-x, but at most e^88. The result is finite, so the product of 0 and the result is 0 and not NaN. */
static __device__ float exp_minus(float x)
{
    return expf(x < -88 ? 88 : -x);
}

static __global__ void __launch_bounds__(CS_RUN_THREADS)
    swiglu_rows(ce_view y, ce_view x, int64_t rows, int64_t columns)
{
    ce_range row_range = { 0, columns };
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        ce_view gate = ce_run_from(x, 2 * row * columns), up = ce_run_from(gate, columns);
        ce_view out = ce_run_from(y, row * columns);
        for (int64_t at = threadIdx.x * CS_RUN; at < columns; at += blockDim.x * CS_RUN) {
            ce_run run_gate = ce_run_load(gate, at, row_range), run_up = ce_run_load(up, at, row_range);
            float g[CS_RUN], u[CS_RUN];
            ce_run_widen(g, run_gate, x.dtype);
            ce_run_widen(u, run_up, x.dtype);
            for (int i = 0; i < CS_RUN; i++)
                u[i] *= g[i] / (1 + exp_minus(g[i]));
            ce_run_store(out, at, row_range, u);
        }
    }
}

extern "C" void ce_cuda_swiglu(cs_device *device, cs_tensor y, cs_tensor x)
{
    ce_launch(ce_cuda_compute(device), ce_run_rows_shape(cs_rows(y), cs_columns(y)), swiglu_rows, ce_run_view(y),
              ce_run_view(x), cs_rows(y), cs_columns(y));
}

/* Replaces gate and up by their gradients. With the logistic function s, silu(x) = x s has the derivative
 * s + x s (1 - s), where 1 - s = e^-x s. */
static __device__ void swiglu_grad_run(float *gate, float *up, const float *dy)
{
    for (int i = 0; i < CS_RUN; i++) {
        float e = exp_minus(gate[i]);
        float s = 1 / (1 + e);
        float derivative = s + gate[i] * (e * s * s);
        float dup = dy[i] * gate[i] * s;
        gate[i] = dy[i] * up[i] * derivative;
        up[i] = dup;
    }
}

static __global__ void __launch_bounds__(CS_RUN_THREADS)
    swiglu_grad_rows(ce_view dx, ce_view dy, ce_view x, int64_t rows, int64_t columns)
{
    ce_range row_range = { 0, columns };
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        ce_view gate = ce_run_from(x, 2 * row * columns), up = ce_run_from(gate, columns);
        ce_view dgate = ce_run_from(dx, 2 * row * columns), dup = ce_run_from(dgate, columns);
        ce_view from = ce_run_from(dy, row * columns);
        for (int64_t at = threadIdx.x * CS_RUN; at < columns; at += blockDim.x * CS_RUN) {
            ce_run run_gate = ce_run_load(gate, at, row_range), run_up = ce_run_load(up, at, row_range);
            ce_run run_dy = ce_run_load(from, at, row_range);
            float g[CS_RUN], u[CS_RUN], d[CS_RUN];
            ce_run_widen(g, run_gate, x.dtype);
            ce_run_widen(u, run_up, x.dtype);
            ce_run_widen(d, run_dy, dy.dtype);
            swiglu_grad_run(g, u, d);
            ce_run_store(dgate, at, row_range, g);
            ce_run_store(dup, at, row_range, u);
        }
    }
}

extern "C" void ce_cuda_swiglu_grad(cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x)
{
    ce_launch(ce_cuda_compute(device), ce_run_rows_shape(cs_rows(dy), cs_columns(dy)), swiglu_grad_rows,
              ce_run_view(dx), ce_run_view(dy), ce_run_view(x), cs_rows(dy), cs_columns(dy));
}
