/* softcap.cu - the soft cap y = cap * tanh(x / cap) forward and backward. The kernels are bound by memory. They
 * multiply by 1 / cap, which a thread computes once for its eight elements. */
#include "device/cuda/run.cuh"

static __global__ void __launch_bounds__(CE_RUN_THREADS) softcap_runs(ce_view y, ce_view x, float cap, ce_flat flat)
{
    ce_range all = ce_run_all(flat);
    float inverse = 1 / cap;
    for (int64_t at = ce_run_first(flat); at < flat.count; at += ce_run_step()) {
        float wide[CE_RUN];
        ce_run_read(wide, x, at, all);
        for (int i = 0; i < CE_RUN; i++)
            wide[i] = cap * tanhf(wide[i] * inverse);
        ce_run_store(y, at, all, wide);
    }
}

extern "C" void ce_cuda_softcap(cs_device *device, cs_tensor y, cs_tensor x, float cap)
{
    ce_flat flat = ce_run_flat(y);
    ce_launch(ce_cuda_compute(device), ce_run_shape(flat), softcap_runs, ce_run_view(y), ce_run_view(x), cap, flat);
}

/* The derivative is 1 - tanh^2(x / cap). */
static __global__ void __launch_bounds__(CE_RUN_THREADS)
    softcap_grad_runs(ce_view dx, ce_view dy, ce_view x, float cap, ce_flat flat)
{
    ce_range all = ce_run_all(flat);
    float inverse = 1 / cap;
    for (int64_t at = ce_run_first(flat); at < flat.count; at += ce_run_step()) {
        ce_run run_x = ce_run_load(x, at, all), run_dy = ce_run_load(dy, at, all);
        float wide[CE_RUN], out[CE_RUN];
        ce_run_widen(wide, run_x, x.dtype);
        ce_run_widen(out, run_dy, dy.dtype);
        for (int i = 0; i < CE_RUN; i++) {
            float part = tanhf(wide[i] * inverse);
            out[i] *= 1 - part * part;
        }
        ce_run_store(dx, at, all, out);
    }
}

extern "C" void ce_cuda_softcap_grad(cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x, float cap)
{
    ce_flat flat = ce_run_flat(dx);
    ce_launch(ce_cuda_compute(device), ce_run_shape(flat), softcap_grad_runs, ce_run_view(dx), ce_run_view(dy),
              ce_run_view(x), cap, flat);
}
