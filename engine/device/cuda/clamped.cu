/* clamped.cu - the clamped SwiGLU of gpt-oss, in whose rows gate and up alternate. A thread computes a run of y from two
 * runs of x. The kernels are bound by memory. */
#include "device/cuda/run.cuh"

/* Reads the elements 2 at to 2 at + 15 of x. */
static __device__ void read_pairs(float *pairs, ce_view x, int64_t at, int64_t count)
{
    ce_range all = { 0, 2 * count };
    ce_run_read(pairs, x, 2 * at, all);
    ce_run_read(pairs + CE_RUN, x, 2 * at + CE_RUN, all);
}

/* A comparison with NaN is false, so that NaN stays NaN. */
static __device__ float limited(float x, float limit)
{
    return x > limit ? limit : x < -limit ? -limit : x;
}

static __global__ void __launch_bounds__(CE_RUN_THREADS)
    clamped_runs(ce_view y, ce_view x, float alpha, float limit, ce_flat flat)
{
    for (int64_t at = ce_run_first(flat); at < flat.count; at += ce_run_step()) {
        float pairs[2 * CE_RUN], out[CE_RUN];
        read_pairs(pairs, x, at, flat.count);
        for (int i = 0; i < CE_RUN; i++) {
            float gate = pairs[2 * i] > limit ? limit : pairs[2 * i];
            out[i] = (limited(pairs[2 * i + 1], limit) + 1) * gate / (1 + expf(-alpha * gate));
        }
        ce_run_store(y, at, ce_run_all(flat), out);
    }
}

extern "C" void ce_cuda_clamped(cs_device *device, cs_tensor y, cs_tensor x, cs_clamp clamp)
{
    ce_flat flat = ce_run_flat(y);
    ce_launch(ce_cuda_compute(device), ce_run_shape(flat), clamped_runs, ce_run_view(y), ce_run_view(x), clamp.alpha,
              clamp.limit, flat);
}

/* With s = logistic(alpha g), the derivative of g s is s + alpha g s (1 - s). Beyond a limit it is 0. */
static __global__ void __launch_bounds__(CE_RUN_THREADS)
    clamped_grad_runs(ce_view dx, ce_view dy, ce_view x, float alpha, float limit, ce_flat flat)
{
    for (int64_t at = ce_run_first(flat); at < flat.count; at += ce_run_step()) {
        float pairs[2 * CE_RUN], given[CE_RUN];
        read_pairs(pairs, x, at, flat.count);
        ce_run_read(given, dy, at, ce_run_all(flat));
        for (int i = 0; i < CE_RUN; i++) {
            float gate = pairs[2 * i], up = pairs[2 * i + 1], g = gate > limit ? limit : gate;
            float s = 1 / (1 + expf(-alpha * g));
            float slope = given[i] * (limited(up, limit) + 1) * (s + alpha * g * s * (1 - s));
            pairs[2 * i] = gate > limit ? 0 : slope;
            pairs[2 * i + 1] = up > limit || up < -limit ? 0 : given[i] * g * s;
        }
        ce_run_store(dx, 2 * at, ce_range{ 0, 2 * flat.count }, pairs);
        ce_run_store(dx, 2 * at + CE_RUN, ce_range{ 0, 2 * flat.count }, pairs + CE_RUN);
    }
}

extern "C" void ce_cuda_clamped_grad(cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x, cs_clamp clamp)
{
    ce_flat flat = ce_run_flat(dy);
    ce_launch(ce_cuda_compute(device), ce_run_shape(flat), clamped_grad_runs, ce_run_view(dx), ce_run_view(dy),
              ce_run_view(x), clamp.alpha, clamp.limit, flat);
}
