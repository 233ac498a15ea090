/* activation.cu - GELU (tanh approximation) forward and backward.
 *
 * The tanh form equals x times a logistic function: x / (1 + e^(-2 u)), u = c (x + a x^3). The kernels are bound by
 * memory: they execute about 20 instructions for each element, for which at least 4 bytes are read and written. */
#include "device/cuda/run.cuh"

#define TWICE_ROOT 1.5957691216057308f /* 2 c, where c = sqrt(2 / pi) */
#define CUBIC 0.044715f                /* the factor a in u */

static __global__ void __launch_bounds__(CS_RUN_THREADS) gelu_runs(ce_view y, ce_view x, ce_flat flat)
{
    ce_range all = ce_run_all(flat);
    for (int64_t at = ce_run_first(flat); at < flat.count; at += ce_run_step()) {
        float wide[CS_RUN];
        ce_run_read(wide, x, at, all);
        for (int i = 0; i < CS_RUN; i++) {
            float twice_u = TWICE_ROOT * (wide[i] + CUBIC * wide[i] * wide[i] * wide[i]);
            wide[i] = wide[i] / (1 + expf(-twice_u));
        }
        ce_run_store(y, at, all, wide);
    }
}

extern "C" void ce_cuda_gelu(cs_device *device, cs_tensor y, cs_tensor x)
{
    ce_flat flat = ce_run_flat(y);
    ce_launch(ce_cuda_compute(device), ce_run_shape(flat), gelu_runs, ce_run_view(y), ce_run_view(x), flat);
}

/* Computes the derivative of x s(2u), where s is the logistic function and u' is the derivative of u: s + x s (1 - s) 2
 * u'. With e = e^(-2u), 1 - s is computed as e s: the difference 1 - s would lose its digits for large u. The exponent
 * is limited so that e stays finite and 0 times e is 0. */
static __device__ float gelu_derivative(float x)
{
    float square = x * x;
    float twice_u = TWICE_ROOT * (x + CUBIC * x * square);
    float slope = TWICE_ROOT * (1 + 3 * CUBIC * square);
    float e = expf(twice_u < -88 ? 88 : -twice_u);
    float s = 1 / (1 + e);
    return s + x * slope * (e * s * s);
}

static __global__ void __launch_bounds__(CS_RUN_THREADS) gelu_grad_runs(ce_view dx, ce_view dy, ce_view x, ce_flat flat)
{
    ce_range all = ce_run_all(flat);
    for (int64_t at = ce_run_first(flat); at < flat.count; at += ce_run_step()) {
        ce_run run_x = ce_run_load(x, at, all), run_dy = ce_run_load(dy, at, all);
        float wide[CS_RUN], out[CS_RUN];
        ce_run_widen(wide, run_x, x.dtype);
        ce_run_widen(out, run_dy, dy.dtype);
        for (int i = 0; i < CS_RUN; i++)
            out[i] *= gelu_derivative(wide[i]);
        ce_run_store(dx, at, all, out);
    }
}

extern "C" void ce_cuda_gelu_grad(cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x)
{
    ce_flat flat = ce_run_flat(dx);
    ce_launch(ce_cuda_compute(device), ce_run_shape(flat), gelu_grad_runs, ce_run_view(dx), ce_run_view(dy),
              ce_run_view(x), flat);
}
