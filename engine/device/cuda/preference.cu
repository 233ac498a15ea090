/* preference.cu - the losses of pairs of answers in preference training, and the weights of the answers' rows.
 *
 * A thread block works on one pair. For each of the two answers, each thread adds the losses of every THREADS-th row in
 * double; then a tree adds the sums of all threads. One thread computes the pair's loss; all threads write the weights.
 * The kernel reads and writes each row once: it is bound by memory. */
#include "device/cuda/kernel.cuh"

enum { THREADS = 256 };

/* Returns the sum of `value` over all threads to every thread. `shared` is shared memory with THREADS elements. */
template <typename T> static __device__ T sum_threads(T *shared, T value)
{
    shared[threadIdx.x] = value;
    for (int apart = THREADS / 2; apart > 0; apart /= 2) {
        __syncthreads();
        if ((int)threadIdx.x < apart)
            shared[threadIdx.x] += shared[threadIdx.x + apart];
    }
    __syncthreads();
    T sum = shared[0];
    __syncthreads();
    return sum;
}

static __device__ void write_facts(float *facts, int64_t pairs, const ce_preference_pair *pair,
                                   const ce_preference_result *result)
{
    bool real = pair->tokens[CE_CHOSEN] + pair->tokens[CE_REJECTED] > 0;
    facts[CE_PREFERENCE_LOSS * pairs] = real ? (float)result->loss : 0;
    facts[CE_PREFERENCE_CHOSEN_REWARD * pairs] = real ? (float)result->reward[CE_CHOSEN] : 0;
    facts[CE_PREFERENCE_REJECTED_REWARD * pairs] = real ? (float)result->reward[CE_REJECTED] : 0;
    facts[CE_PREFERENCE_CORRECT * pairs] = real && result->reward[CE_CHOSEN] > result->reward[CE_REJECTED] ? 1 : 0;
    facts[CE_PREFERENCE_CHOSEN_LOGP * pairs] = real ? pair->logp[CE_CHOSEN] : 0;
    facts[CE_PREFERENCE_REJECTED_LOGP * pairs] = real ? pair->logp[CE_REJECTED] : 0;
}

static __global__ void __launch_bounds__(THREADS)
    judge_pairs(ce_preference rule, const float *losses, const int32_t *targets, const float *references,
                float *weights, float *facts, int64_t length)
{
    CE_SHARED double shared[THREADS];
    CE_SHARED int64_t counts[THREADS];
    ce_preference_pair pair;
    int64_t b = blockIdx.x;
#pragma unroll /* the loop is unrolled, so that `pair` stays in registers */
    for (int i = 0; i < CE_ANSWERS; i++) {
        int64_t first = (CE_ANSWERS * b + i) * length, tokens = 0;
        double sum = 0;
        for (int64_t t = threadIdx.x; t < length; t += THREADS) {
            sum += (double)losses[first + t];
            tokens += targets[first + t] >= 0;
        }
        pair.logp[i] = (float)-sum_threads(shared, sum);
        pair.tokens[i] = sum_threads(counts, tokens);
        pair.reference[i] = references ? references[CE_ANSWERS * b + i] : 0;
    }
    ce_preference_result result = ce_preference_judge(&rule, &pair);
    if (threadIdx.x == 0)
        write_facts(facts + b, gridDim.x, &pair, &result);
    for (int64_t at = threadIdx.x; weights && at < CE_ANSWERS * length; at += THREADS) {
        float *weight = weights + CE_ANSWERS * b * length + at;
        *weight = (float)((double)*weight * -(at < length ? result.slope[CE_CHOSEN] : result.slope[CE_REJECTED]));
    }
}

extern "C" void ce_cuda_preference(cs_stream *stream, const ce_preference_rows *rows)
{
    ce_shape shape = { dim3((unsigned)cs_columns(rows->facts)), dim3(THREADS) };
    ce_launch(ce_cuda_stream(stream), shape, judge_pairs, rows->rule, (const float *)rows->losses.data,
              (const int32_t *)rows->targets.data, (const float *)rows->references.data, (float *)rows->weights.data,
              (float *)rows->facts.data, cs_columns(rows->targets));
}
