/* tune.c - choosing cuBLASLt's algorithm for a matrix product by measurement, at the product's first use.
 *
 * The candidates are the first few algorithms of cuBLASLt's heuristic. Only candidates whose result is bitwise equal to
 * the result of the first candidate may be chosen, so that the measurement changes the speed but never the result:
 * every rank and every run on this kind of GPU computes the same bits. So two ranks may choose different algorithms.
 * Candidates run on random numbers, because real operands may be zero. They run in temporary memory, because a product
 * that adds to its result must run only once on the real operands. A split-K algorithm is allowed if it adds its
 * partial results in fp32, in a fixed order, in a separate step. Algorithms that add partial results by atomics are not
 * allowed. */
#include "base/log.h"
#include "base/range.h"
#include "device/cuda/product.h"

#include <math.h>
#include <stdio.h>

enum { CANDIDATES = 6, MANY = 32, ROUNDS = 3 };

static void prefer(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
                   uint32_t value)
{
    if (cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value) != CUBLAS_STATUS_SUCCESS)
        ce_fatal(CS_NO_DEVICE, "cuBLASLt refuses preference %d of %u", (int)attribute, value);
}

/* Moves the algorithms that the heuristic found valid to the front, in the same order, and returns their number. */
static int keep_valid(cublasLtMatmulHeuristicResult_t *found, int count)
{
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS)
            found[kept++] = found[i];
    return kept;
}

/* Asks the heuristic for at most `most` algorithms and returns their number. `a` and `b` are passed in the opposite
 * order, because cuBLASLt is column-major (matmul.c). `c` is passed twice, as addend and as result. */
static int candidates(cs_device *device, const ce_cuda_plan *plan, cublasLtMatmulHeuristicResult_t *found, int most)
{
    const ce_cuda_problem *problem = &plan->problem;
    size_t capacity = CE_CUDA_WORKSPACE;
    cublasLtMatmulPreference_t preference;
    int count = 0;
    if (cublasLtMatmulPreferenceCreate(&preference) != CUBLAS_STATUS_SUCCESS)
        ce_fatal(CS_NO_DEVICE, "cuBLASLt cannot create a preference");
    if (cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &capacity,
                                             sizeof capacity) != CUBLAS_STATUS_SUCCESS)
        ce_fatal(CS_NO_DEVICE, "cuBLASLt refuses a workspace of %zu bytes", capacity);
    prefer(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, problem->b_align);
    prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, problem->a_align);
    prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, problem->c_align);
    prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, problem->c_align);
    if (cublasLtMatmulAlgoGetHeuristic(ce_cuda_of(device)->products->handle, plan->operation, plan->b, plan->a, plan->c,
                                       plan->c, preference, most, found, &count) != CUBLAS_STATUS_SUCCESS)
        count = 0;
    cublasLtMatmulPreferenceDestroy(preference);
    return keep_valid(found, count);
}

/* ---- trial runs of a product ---- */

static int64_t padded_bytes(cs_dtype dtype, int64_t count)
{
    return ce_round_up(count * (int64_t)cs_dtype_bytes(dtype), 256);
}

/* Returns *memory, advances *memory by the size of `count` elements, rounded up to a multiple of 256 bytes, and fills
 * the elements with random numbers. */
static void *place(cs_device *device, char **memory, cs_dtype dtype, int64_t count)
{
    void *from = *memory;
    *memory += padded_bytes(dtype, count);
    ce_cuda_noise(ce_cuda_compute(device), from, dtype, count, (uint64_t)(*memory - (char *)from));
    return from;
}

/* Returns the number of sums over the inner dimension that the epilogue computes. The sums of cuBLASLt's first factor
 * (BGRADA) are those of `b`, with n elements; the sums of its second factor (BGRADB) are those of `a`, with m
 * elements. */
static int64_t sums_of(const ce_cuda_problem *problem)
{
    return problem->epilogue == CUBLASLT_EPILOGUE_BGRADA   ? problem->n
           : problem->epilogue == CUBLASLT_EPILOGUE_BGRADB ? problem->m
                                                           : 0;
}

/* Allocates operands in one block of memory, which begins with c. Returns false if there is no memory for the
 * operands. */
static bool open_trial(cs_device *device, const ce_cuda_problem *problem, ce_cuda_operands *trial, size_t *bytes)
{
    int64_t m = problem->m, n = problem->n, k = problem->k;
    bool biased = problem->epilogue & CUBLASLT_EPILOGUE_BIAS;
    int64_t sums = sums_of(problem);
    bool fused = !sums && problem->epilogue != CUBLASLT_EPILOGUE_DEFAULT && problem->epilogue != CUBLASLT_EPILOGUE_BIAS;
    *bytes = (size_t)(padded_bytes(problem->from, m * k) + padded_bytes(problem->from, k * n) +
                      2 * padded_bytes(problem->to, m * problem->pitch) + padded_bytes(problem->to, n) +
                      padded_bytes(CS_F32, sums));
    char *memory = ce_cuda_alloc(device, *bytes);
    if (!memory)
        return false;
    *trial = (ce_cuda_operands){ 0 };
    trial->c = place(device, &memory, problem->to, m * problem->pitch);
    trial->a = place(device, &memory, problem->from, m * k);
    trial->b = place(device, &memory, problem->from, k * n);
    trial->bias = biased ? place(device, &memory, problem->to, n) : NULL;
    trial->pre = fused ? place(device, &memory, problem->to, m * n) : NULL;
    trial->sums = sums ? place(device, &memory, CS_F32, sums) : NULL;
    return true;
}

/* Runs the product and adds the results to the device's digest: c, the sums, and GELU's input if it is an output.
 * Returns false if the algorithm cannot run the product. */
static bool digest_result(cs_device *device, const ce_cuda_plan *plan, const ce_cuda_operands *trial,
                          const cublasLtMatmulAlgo_t *algorithm)
{
    const ce_cuda_products *products = ce_cuda_of(device)->products;
    cudaStream_t stream = ce_cuda_compute(device);
    int64_t count = plan->problem.m * plan->problem.pitch;
    int64_t words = count * (int64_t)cs_dtype_bytes(plan->problem.to) / 2;
    ce_cuda_noise(stream, trial->c, plan->problem.to, count, 1);
    if (ce_cuda_plan_run(device, plan, trial, algorithm) != CUBLAS_STATUS_SUCCESS)
        return false;
    ce_cuda_digest(stream, products->digest, trial->c, words);
    if (trial->pre)
        ce_cuda_digest(stream, products->digest, trial->pre, words);
    if (trial->sums)
        ce_cuda_digest(stream, products->digest, trial->sums, 2 * sums_of(&plan->problem));
    return true;
}

/* Computes the digest of a product's result. If the result is fp32, the product may also be added to c; then the digest
 * covers two results: c = a b and c += a b. */
static bool digest(cs_device *device, const ce_cuda_plan *plan, const ce_cuda_operands *trial,
                   const cublasLtMatmulAlgo_t *algorithm, uint64_t *bits)
{
    const ce_cuda_products *products = ce_cuda_of(device)->products;
    cudaStream_t stream = ce_cuda_compute(device);
    ce_cuda_operands added = *trial;
    added.add = true;
    CE_CUDA(cudaMemsetAsync(products->digest, 0, sizeof(uint64_t), stream));
    if (!digest_result(device, plan, trial, algorithm) ||
        (plan->problem.to == CS_F32 && !digest_result(device, plan, &added, algorithm)))
        return false;
    CE_CUDA(cudaMemcpyAsync(products->fetched, products->digest, sizeof(uint64_t), cudaMemcpyDeviceToHost, stream));
    CE_CUDA(cudaStreamSynchronize(stream));
    *bits = *products->fetched;
    return true;
}

/* Runs the product ROUNDS times and returns the shortest time in milliseconds, or INFINITY if the algorithm cannot run
 * the product. */
static float measure(cs_device *device, const ce_cuda_plan *plan, const ce_cuda_operands *trial,
                     const cublasLtMatmulAlgo_t *algorithm)
{
    const ce_cuda_products *products = ce_cuda_of(device)->products;
    cudaStream_t stream = ce_cuda_compute(device);
    float best = INFINITY, milliseconds;
    for (int round = 0; round < ROUNDS; round++) {
        CE_CUDA(cudaEventRecord(products->begin, stream));
        if (ce_cuda_plan_run(device, plan, trial, algorithm) != CUBLAS_STATUS_SUCCESS)
            return INFINITY;
        CE_CUDA(cudaEventRecord(products->end, stream));
        CE_CUDA(cudaEventSynchronize(products->end));
        CE_CUDA(cudaEventElapsedTime(&milliseconds, products->begin, products->end));
        best = fminf(best, milliseconds);
    }
    return best;
}

/* ---- choosing the algorithm ---- */

/* Logs the choice, and what a choice among the heuristic's first MANY algorithms, which may compute other bits, would
 * gain. */
static void log_choice(cs_device *device, const ce_cuda_plan *plan, const ce_cuda_operands *trial, const char *choice)
{
    static const char *const types[] = { "fp32", "bf16", "fp16" };
    const ce_cuda_problem *problem = &plan->problem;
    cublasLtMatmulHeuristicResult_t found[MANY];
    int count = candidates(device, plan, found, MANY);
    float fastest = INFINITY;
    for (int i = 0; i < count; i++)
        fastest = fminf(fastest, measure(device, plan, trial, &found[i].algo));
    ce_log(CE_LOG_DEBUG,
           "product (%lld, %lld) over %lld, %s to %s, %c%c, epilogue %d: %s, fastest of %d, of any bits: %.3f)",
           (long long)problem->m, (long long)problem->n, (long long)problem->k, types[problem->from],
           types[problem->to], problem->transpose_a ? 'T' : 'N', problem->transpose_b ? 'T' : 'N',
           (int)problem->epilogue, choice, count, (double)fastest);
}

/* Returns the index of the fastest algorithm whose result has the same bits as the result of the first algorithm that
 * runs. Returns -1 if no algorithm runs. */
static int choose(cs_device *device, const ce_cuda_plan *plan, const ce_cuda_operands *trial,
                  const cublasLtMatmulHeuristicResult_t *found, int count)
{
    int chosen = -1;
    float best = INFINITY, first = INFINITY;
    uint64_t wanted = 0, bits;
    for (int i = 0; i < count; i++) {
        if (!digest(device, plan, trial, &found[i].algo, &bits) || (chosen >= 0 && bits != wanted))
            continue;
        float milliseconds = measure(device, plan, trial, &found[i].algo);
        if (chosen < 0) {
            wanted = bits;
            first = milliseconds;
        }
        if (chosen < 0 || milliseconds < best) {
            chosen = i;
            best = milliseconds;
        }
    }
    if (ce_log_shows(CE_LOG_DEBUG)) {
        char choice[80];
        snprintf(choice, sizeof choice, "algorithm %d of %d, %.3f ms (first: %.3f", chosen + 1, count, (double)best,
                 (double)first);
        log_choice(device, plan, trial, choice);
    }
    return chosen;
}

/* Returns the least number of elements that a result must have, so that equal bits show that two algorithms add in the
 * same order. Two algorithms that add in different orders differ in at least a fifth of the elements if the result is
 * fp32, but only in one of 5,000 to 50,000 elements if the result is rounded to bf16 (measured at inner dimensions of
 * 768 and 32). */
static int64_t enough(cs_dtype to)
{
    return to == CS_F32 ? 4096 : 1 << 20;
}

/* Chooses the heuristic's first algorithm without measurement if there is no memory for trials, or if the result is so
 * small that equal bits would prove little. */
void ce_cuda_tune(cs_device *device, ce_cuda_plan *plan)
{
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    ce_cuda_operands trial;
    size_t bytes;
    int count = candidates(device, plan, found, CANDIDATES), chosen = 0;
    if (count > 1 && plan->problem.m * plan->problem.n >= enough(plan->problem.to) &&
        open_trial(device, &plan->problem, &trial, &bytes)) {
        chosen = choose(device, plan, &trial, found, count);
        ce_cuda_free(device, trial.c, bytes);
    }
    plan->fits = count > 0 && chosen >= 0;
    if (plan->fits)
        plan->algorithm = found[chosen].algo;
}
