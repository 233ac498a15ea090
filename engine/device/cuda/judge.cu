/* judge.cu - the verdict on a step (overflow, gradient norm, loss scale), and the initial gradient of backward.
 *
 * One thread computes the verdict: some hundred integer additions. Latency bounds both kernels. The file is compiled
 * without fused multiply-adds, for the CPU's bits. */
#include "device/cuda/run.cuh"

static __global__ void __launch_bounds__(1)
    judge_step(cs_verdict *verdict, const cs_step_sums *words, cs_step_terms terms)
{
    *verdict = cs_verdict_judge(words, &terms, verdict->scaler);
}

extern "C" void cs_cuda_judge(cs_stream *stream, cs_verdict *verdict, const cs_step_sums *words,
                              const cs_step_terms *terms)
{
    cs_launch(cs_cuda_stream(stream), cs_shape{ dim3(1), dim3(1) }, judge_step, verdict, words, *terms);
}

/* dy = scale / divisor in all elements: the gradient that backward starts from. */
static __global__ void __launch_bounds__(CS_RUN_THREADS)
    seed_gradient_runs(cs_view dy, const double *scale, double divisor, cs_flat flat)
{
    float seed[CS_RUN];
    for (int i = 0; i < CS_RUN; i++)
        seed[i] = (float)(*scale / divisor);
    for (int64_t at = cs_run_first(flat); at < flat.count; at += cs_run_step())
        cs_run_store(dy, at, cs_run_all(flat), seed);
}

extern "C" void cs_cuda_seed(cs_stream *stream, cs_tensor dy, const double *scale, double divisor)
{
    cs_flat flat = cs_run_flat(dy);
    cs_launch(cs_cuda_stream(stream), cs_run_shape(flat), seed_gradient_runs, cs_run_view(dy), scale, divisor, flat);
}
