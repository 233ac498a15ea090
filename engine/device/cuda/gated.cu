/* gated.cu - gated activations forward and backward: y = f(gate) * up, where a row of x is gate | up and f is an
 * activation function; SwiGLU is the gate with f = silu. The kernels are bound by memory. */
#include "device/cuda/function.cuh"
#include "device/cuda/run.cuh"

template <typename F>
static __global__ void __launch_bounds__(CE_RUN_THREADS) gated_rows(ce_view y, ce_view x, int64_t rows, int64_t columns)
{
    ce_range row_range = { 0, columns };
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        ce_view gate = ce_run_from(x, 2 * row * columns), up = ce_run_from(gate, columns);
        ce_view out = ce_run_from(y, row * columns);
        for (int64_t at = threadIdx.x * CE_RUN; at < columns; at += blockDim.x * CE_RUN) {
            ce_run run_gate = ce_run_load(gate, at, row_range), run_up = ce_run_load(up, at, row_range);
            float g[CE_RUN], u[CE_RUN];
            ce_run_widen(g, run_gate, x.dtype);
            ce_run_widen(u, run_up, x.dtype);
            for (int i = 0; i < CE_RUN; i++)
                u[i] *= F::value(g[i]);
            ce_run_store(out, at, row_range, u);
        }
    }
}

extern "C" void ce_cuda_gated(cs_device *device, cs_tensor y, cs_tensor x, cs_activation function)
{
    int64_t rows = cs_rows(y), columns = cs_columns(y);
    ce_by_function(function, [&](auto f) {
        ce_launch(ce_cuda_compute(device), ce_run_rows_shape(rows, columns), gated_rows<decltype(f)>, ce_run_view(y),
                  ce_run_view(x), rows, columns);
    });
}

extern "C" void ce_cuda_swiglu(cs_device *device, cs_tensor y, cs_tensor x)
{
    ce_cuda_gated(device, y, x, CS_SILU);
}

/* Replaces gate and up by their gradients. */
template <typename F> static __device__ void gated_grad_run(float *gate, float *up, const float *dy)
{
    for (int i = 0; i < CE_RUN; i++) {
        ce_terms terms = F::terms(gate[i]);
        float dup = dy[i] * terms.first * terms.second;
        gate[i] = dy[i] * up[i] * terms.derivative;
        up[i] = dup;
    }
}

template <typename F>
static __global__ void __launch_bounds__(CE_RUN_THREADS)
    gated_grad_rows(ce_view dx, ce_view dy, ce_view x, int64_t rows, int64_t columns)
{
    ce_range row_range = { 0, columns };
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        ce_view gate = ce_run_from(x, 2 * row * columns), up = ce_run_from(gate, columns);
        ce_view dgate = ce_run_from(dx, 2 * row * columns), dup = ce_run_from(dgate, columns);
        ce_view from = ce_run_from(dy, row * columns);
        for (int64_t at = threadIdx.x * CE_RUN; at < columns; at += blockDim.x * CE_RUN) {
            ce_run run_gate = ce_run_load(gate, at, row_range), run_up = ce_run_load(up, at, row_range);
            ce_run run_dy = ce_run_load(from, at, row_range);
            float g[CE_RUN], u[CE_RUN], d[CE_RUN];
            ce_run_widen(g, run_gate, x.dtype);
            ce_run_widen(u, run_up, x.dtype);
            ce_run_widen(d, run_dy, dy.dtype);
            gated_grad_run<F>(g, u, d);
            ce_run_store(dgate, at, row_range, g);
            ce_run_store(dup, at, row_range, u);
        }
    }
}

extern "C" void ce_cuda_gated_grad(cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x, cs_activation function)
{
    int64_t rows = cs_rows(dy), columns = cs_columns(dy);
    ce_by_function(function, [&](auto f) {
        ce_launch(ce_cuda_compute(device), ce_run_rows_shape(rows, columns), gated_grad_rows<decltype(f)>,
                  ce_run_view(dx), ce_run_view(dy), ce_run_view(x), rows, columns);
    });
}

extern "C" void ce_cuda_swiglu_grad(cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x)
{
    ce_cuda_gated_grad(device, dx, dy, x, CS_SILU);
}
