/* judge.cu - the verdict on a step (overflow, gradient norm, loss scale), and the initial gradient of backward.
 *
 * One thread computes the verdict by some hundred integer additions. Both kernels are bound by latency. This file is
 * compiled without fused multiply-adds, so that results have the same bits as on the CPU. */
#include "device/cuda/run.cuh"

static __global__ void __launch_bounds__(1)
    judge_step(ce_verdict *verdict, const ce_step_sums *words, ce_step_terms terms)
{
    *verdict = ce_verdict_judge(words, &terms, verdict->scaler);
}

extern "C" void ce_cuda_judge(cs_stream *stream, ce_verdict *verdict, const ce_step_sums *words,
                              const ce_step_terms *terms)
{
    ce_launch(ce_cuda_stream(stream), ce_shape{ dim3(1), dim3(1) }, judge_step, verdict, words, *terms);
}

/* Sets all elements of dy to scale / divisor: the gradient from which backward starts. */
static __global__ void __launch_bounds__(CE_RUN_THREADS)
    seed_gradient_runs(ce_view dy, const double *scale, double divisor, ce_flat flat)
{
    float seed[CE_RUN];
    for (int i = 0; i < CE_RUN; i++)
        seed[i] = (float)(*scale / divisor);
    for (int64_t at = ce_run_first(flat); at < flat.count; at += ce_run_step())
        ce_run_store(dy, at, ce_run_all(flat), seed);
}

extern "C" void ce_cuda_seed(cs_stream *stream, cs_tensor dy, const double *scale, double divisor)
{
    ce_flat flat = ce_run_flat(dy);
    ce_launch(ce_cuda_stream(stream), ce_run_shape(flat), seed_gradient_runs, ce_run_view(dy), scale, divisor, flat);
}
