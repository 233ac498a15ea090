/* product.h - cuBLASLt's plan of a matrix product: its description and the algorithm chosen for it. For matmul.c and
 * tune.c. */
#ifndef CS_DEVICE_CUDA_PRODUCT_H
#define CS_DEVICE_CUDA_PRODUCT_H

#include "device/cuda/open.h"

#include <cublasLt.h>

enum { CS_CUDA_WORKSPACE = 32 << 20 }; /* bytes of workspace that cuBLASLt may use */

/* The key of a plan: products that agree in all of these run by the same algorithm. Alignments are those of addresses,
 * in bytes, at most 16. */
typedef struct {
    int64_t m, n, k; /* c is (m, n), row-major; k is the inner dimension */
    cublasLtEpilogue_t epilogue;
    cs_dtype from, to;
    int transpose_a, transpose_b;
    uint32_t a_align, b_align, c_align, bias_align, pre_align;
} ce_cuda_problem;

typedef struct {
    ce_cuda_problem problem;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, c; /* of the device table's a, b, c; cuBLASLt swaps a and b (matmul.c) */
    cublasLtMatmulAlgo_t algorithm;
    bool fits; /* false: cuBLASLt has no algorithm for the problem */
} ce_cuda_plan;

/* Addresses that a product runs on. pre: GELU's input, an output of forward and an input of backward. sums: an output
 * (fp32), the sums of a factor over the inner dimension. At most one of bias and sums is given. */
typedef struct {
    const void *a, *b, *bias;
    void *c, *pre, *sums;
    bool add; /* add to c; by the same algorithm, so that the first and the later terms of a sum are rounded alike */
} ce_cuda_operands;

struct ce_cuda_products {
    cublasLtHandle_t handle;
    cublasComputeType_t wide; /* for fp32 factors: fp32 or TF32 */
    ce_cuda_plan *plans;
    int count, room;
    cudaEvent_t begin, end;     /* events with timing, for tuning */
    uint64_t *digest, *fetched; /* the digest in device memory, and its copy in pinned memory */
};

/* Queues the product on the compute stream; cuBLASLt computes it with `algorithm`. */
cublasStatus_t ce_cuda_plan_run(cs_device *device, const ce_cuda_plan *plan, const ce_cuda_operands *on,
                                const cublasLtMatmulAlgo_t *algorithm);

/* tune.c: chooses the fastest algorithm; sets plan->algorithm and plan->fits. The plan's description must already hold
 * addresses of bias, pre and sums with its alignments. */
void ce_cuda_tune(cs_device *device, ce_cuda_plan *plan);

#endif
