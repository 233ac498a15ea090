/* product.h - a matrix product as cuBLASLt is given it, with the algorithm that was chosen for it; for matmul.c and
 * tune.c. */
#ifndef CS_DEVICE_CUDA_PRODUCT_H
#define CS_DEVICE_CUDA_PRODUCT_H

#include "device/cuda/open.h"

#include <cublasLt.h>

enum { CS_CUDA_WORKSPACE = 32 << 20 }; /* bytes cuBLASLt may use */

/* What products must agree in to run by the same algorithm. Alignments are of addresses, in bytes, 16 at most. */
typedef struct {
    int64_t m, n, k; /* of row-major c (m, n) */
    cublasLtEpilogue_t epilogue;
    cs_dtype from, to;
    int transpose_a, transpose_b;
    uint32_t a_align, b_align, c_align, bias_align, pre_align;
} cs_cuda_problem;

typedef struct {
    cs_cuda_problem problem;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, c; /* of the row's a, b, c */
    cublasLtMatmulAlgo_t algorithm;
    bool fits; /* false: cuBLASLt knows no algorithm for it */
} cs_cuda_plan;

/* What a product is run on. */
typedef struct {
    const void *a, *b, *bias;
    void *c, *pre;
    bool add; /* to what c holds: by the same algorithm, so that a sum's first term and its others have one rounding */
} cs_cuda_operands;

struct cs_cuda_products {
    cublasLtHandle_t handle;
    cublasComputeType_t wide; /* of fp32 factors */
    cs_cuda_plan *plans;
    int count, room;
    cudaEvent_t begin, end;     /* with timing */
    uint64_t *digest, *fetched; /* on the device; pinned */
};

cublasStatus_t cs_cuda_plan_run(cs_device *device, const cs_cuda_plan *plan, const cs_cuda_operands *on,
                                const cublasLtMatmulAlgo_t *algorithm);

/* tune.c: sets plan->algorithm and plan->fits. The plan points at operands of its alignments. */
void cs_cuda_tune(cs_device *device, cs_cuda_plan *plan);

#endif
