/* activation.cu - activation functions forward and backward.
 *
 * The kernels are bound by memory in fp32. In 16 bits, the about 30 instructions of an element of GELU take about as
 * long as the 4 or 6 bytes that are read and written for it; ReLU needs few instructions. */
#include "device/cuda/function.cuh"
#include "device/cuda/run.cuh"

template <typename F>
static __global__ void __launch_bounds__(CE_RUN_THREADS) activation_runs(ce_view y, ce_view x, ce_flat flat)
{
    ce_range all = ce_run_all(flat);
    for (int64_t at = ce_run_first(flat); at < flat.count; at += ce_run_step()) {
        float wide[CE_RUN];
        ce_run_read(wide, x, at, all);
        for (int i = 0; i < CE_RUN; i++)
            wide[i] = F::value(wide[i]);
        ce_run_store(y, at, all, wide);
    }
}

extern "C" void ce_cuda_activation(cs_device *device, cs_tensor y, cs_tensor x, cs_activation function)
{
    ce_flat flat = ce_run_flat(y);
    ce_by_function(function, [&](auto f) {
        ce_launch(ce_cuda_compute(device), ce_run_shape(flat), activation_runs<decltype(f)>, ce_run_view(y),
                  ce_run_view(x), flat);
    });
}

extern "C" void ce_cuda_gelu(cs_device *device, cs_tensor y, cs_tensor x)
{
    ce_cuda_activation(device, y, x, CS_GELU_TANH);
}

template <typename F>
static __global__ void __launch_bounds__(CE_RUN_THREADS)
    activation_grad_runs(ce_view dx, ce_view dy, ce_view x, ce_flat flat)
{
    ce_range all = ce_run_all(flat);
    for (int64_t at = ce_run_first(flat); at < flat.count; at += ce_run_step()) {
        ce_run run_x = ce_run_load(x, at, all), run_dy = ce_run_load(dy, at, all);
        float wide[CE_RUN], out[CE_RUN];
        ce_run_widen(wide, run_x, x.dtype);
        ce_run_widen(out, run_dy, dy.dtype);
        for (int i = 0; i < CE_RUN; i++)
            out[i] *= F::terms(wide[i]).derivative;
        ce_run_store(dx, at, all, out);
    }
}

extern "C" void ce_cuda_activation_grad(cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x,
                                        cs_activation function)
{
    ce_flat flat = ce_run_flat(dx);
    ce_by_function(function, [&](auto f) {
        ce_launch(ce_cuda_compute(device), ce_run_shape(flat), activation_grad_runs<decltype(f)>, ce_run_view(dx),
                  ce_run_view(dy), ce_run_view(x), flat);
    });
}

extern "C" void ce_cuda_gelu_grad(cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x)
{
    ce_cuda_activation_grad(device, dx, dy, x, CS_GELU_TANH);
}
