/* product.h - cuBLASLt's plan of a matrix product: its description and the algorithm chosen for it. matmul.c and tune.c
 * use it. */
#ifndef CE_DEVICE_CUDA_PRODUCT_H
#define CE_DEVICE_CUDA_PRODUCT_H

#include "device/cuda/open.h"

#include <cublasLt.h>

enum { CE_CUDA_WORKSPACE = 32 << 20 }; /* bytes of workspace that cuBLASLt may use */

/* The key of a plan: products for which all these members are equal run by the same algorithm. The members *_align are
 * alignments of addresses in bytes, at most 16. */
typedef struct {
    int64_t m, n, k; /* c has m rows and n columns, row-major; k is the inner dimension */
    int64_t pitch;   /* elements from one row of c to the next */
    cublasLtEpilogue_t epilogue;
    cs_dtype from, to;
    int transpose_a, transpose_b;
    uint32_t a_align, b_align, c_align, bias_align, pre_align;
} ce_cuda_problem;

typedef struct {
    ce_cuda_problem problem;
    cublasLtMatmulDesc_t operation;
    /* layouts of `a`, `b` and `c` of the ce_product; cuBLASLt gets `a` and `b` in the opposite order (matmul.c) */
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
    bool fits; /* whether cuBLASLt has an algorithm for the problem */
} ce_cuda_plan;

/* The addresses that a product uses. `pre` is GELU's input: forward writes it, backward reads it. `sums` is an output
 * in fp32: the sums of a factor over the inner dimension. At most one of `bias` and `sums` is given. */
typedef struct {
    const void *a, *b, *bias;
    void *c, *pre, *sums;
    /* add: whether the product is added to c. The algorithm is the same with and without the addition, so that all
     * terms of a sum are rounded alike. */
    bool add;
} ce_cuda_operands;

struct ce_cuda_products {
    cublasLtHandle_t handle;
    cublasComputeType_t wide; /* the type in which fp32 factors are multiplied: fp32 or TF32 */
    ce_cuda_plan *plans;
    int count, capacity;
    cudaEvent_t begin, end; /* events that measure the time of products */
    /* digest: a digest of results, in device memory; fetched: a copy of *digest in pinned memory */
    uint64_t *digest, *fetched;
};

/* Puts the product into the compute stream. cuBLASLt computes it by `algorithm`. */
cublasStatus_t ce_cuda_plan_run(cs_device *device, const ce_cuda_plan *plan, const ce_cuda_operands *on,
                                const cublasLtMatmulAlgo_t *algorithm);

/* tune.c: chooses the fastest algorithm, and sets plan->algorithm and plan->fits. The plan's description must already
 * hold addresses of bias, pre and sums that have the alignments of the plan's problem. */
void ce_cuda_tune(cs_device *device, ce_cuda_plan *plan);

#endif
