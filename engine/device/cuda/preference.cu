/* preference.cu - the losses of pairs of answers in preference training, and the weights of the answers' rows.
 *
 * A thread block works on one pair. In the first kernel, each thread adds the losses of every THREADS-th row of both answers
 * in double; then a tree adds the sums of all threads. Some losses depend on the log-probabilities of all pairs, so a
 * second kernel computes the losses; one thread computes the pair's loss, and all threads write the weights. Each row is
 * read and written once: the kernels are bound by memory. */
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

/* Returns the number of rows of an answer whose log-probabilities have the factor 1. Each thread counts all rows. */
static __device__ int64_t whole_rows(double ld_alpha, const int32_t *target, int64_t length,
                                     const int64_t tokens[CE_ANSWERS])
{
    int64_t shared = tokens[CE_CHOSEN] < tokens[CE_REJECTED] ? tokens[CE_CHOSEN] : tokens[CE_REJECTED];
    return ld_alpha >= 1 ? length : ce_preference_rows_of(target, length, shared);
}

/* Sets the facts of each pair that only depend on its own rows. */
static __global__ void __launch_bounds__(THREADS)
    read_pairs(ce_preference rule, const float *losses, const int32_t *targets, float *facts, int64_t length)
{
    CE_SHARED double shared[THREADS];
    CE_SHARED int64_t counts[THREADS];
    int64_t pairs = gridDim.x, b = blockIdx.x, tokens[CE_ANSWERS];
    for (int i = 0; i < CE_ANSWERS; i++) {
        const int32_t *target = targets + (CE_ANSWERS * b + i) * length;
        tokens[i] = 0;
        for (int64_t t = threadIdx.x; t < length; t += THREADS)
            tokens[i] += target[t] >= 0;
        tokens[i] = sum_threads(counts, tokens[i]);
    }
    for (int i = 0; i < CE_ANSWERS; i++) {
        const float *loss = losses + (CE_ANSWERS * b + i) * length;
        int64_t whole = whole_rows(rule.ld_alpha, targets + (CE_ANSWERS * b + i) * length, length, tokens);
        double sum = 0, rest = 0;
        for (int64_t t = threadIdx.x; t < whole; t += THREADS)
            sum += (double)loss[t];
        for (int64_t t = whole + threadIdx.x; t < length; t += THREADS)
            rest += (double)loss[t];
        sum = sum_threads(shared, sum);
        rest = sum_threads(shared, rest);
        if (threadIdx.x > 0)
            continue;
        facts[(CE_PREFERENCE_TOKENS + i) * pairs + b] = (float)tokens[i];
        facts[(CE_PREFERENCE_CHOSEN_LOGP + i) * pairs + b] =
            (float)(-(sum + rule.ld_alpha * rest) / ce_preference_divisor(&rule, (double)tokens[i]));
        if (i == CE_CHOSEN)
            facts[CE_PREFERENCE_CHOSEN_SUM * pairs + b] = (float)-(sum + rest);
    }
}

static __device__ void write_facts(float *facts, int64_t pairs, const ce_preference_result *result)
{
    facts[CE_PREFERENCE_LOSS * pairs] = (float)result->loss;
    facts[CE_PREFERENCE_CHOSEN_REWARD * pairs] = (float)result->reward[CE_CHOSEN];
    facts[CE_PREFERENCE_REJECTED_REWARD * pairs] = (float)result->reward[CE_REJECTED];
    facts[CE_PREFERENCE_CORRECT * pairs] = result->reward[CE_CHOSEN] > result->reward[CE_REJECTED] ? 1 : 0;
}

static __global__ void __launch_bounds__(THREADS)
    judge_pairs(ce_preference rule, const int32_t *targets, const float *references, float *weights, float *facts,
                int64_t length)
{
    CE_SHARED ce_preference_result result;
    ce_preference_pairs of = { facts, references, gridDim.x };
    int64_t b = blockIdx.x;
    int64_t tokens[CE_ANSWERS] = { (int64_t)ce_preference_fact(&of, CE_PREFERENCE_TOKENS, b),
                                   (int64_t)ce_preference_fact(&of, CE_PREFERENCE_REJECTED_TOKENS, b) };
    if (threadIdx.x == 0) {
        result = ce_preference_judge(&rule, &of, b);
        write_facts(facts + b, gridDim.x, &result);
    }
    __syncthreads();
    for (int i = 0; i < CE_ANSWERS && weights; i++) {
        float *weight = weights + (CE_ANSWERS * b + i) * length;
        int64_t whole = whole_rows(rule.ld_alpha, targets + (CE_ANSWERS * b + i) * length, length, tokens);
        double slope = result.slope[i] / ce_preference_divisor(&rule, (double)tokens[i]),
               plain = i == CE_CHOSEN ? result.plain : 0;
        for (int64_t t = threadIdx.x; t < length; t += THREADS)
            weight[t] = (float)((double)weight[t] * -((t < whole ? slope : rule.ld_alpha * slope) + plain));
    }
}

extern "C" void ce_cuda_preference(cs_stream *stream, const ce_preference_rows *rows)
{
    ce_shape shape = { dim3((unsigned)cs_columns(rows->facts)), dim3(THREADS) };
    const int32_t *targets = (const int32_t *)rows->targets.data;
    float *facts = (float *)rows->facts.data;
    ce_launch(ce_cuda_stream(stream), shape, read_pairs, rows->rule, (const float *)rows->losses.data, targets, facts,
              cs_columns(rows->targets));
    ce_launch(ce_cuda_stream(stream), shape, judge_pairs, rows->rule, targets, (const float *)rows->references.data,
              (float *)rows->weights.data, facts, cs_columns(rows->targets));
}
