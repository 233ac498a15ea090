/* matmul.c - matrix products by cuBLASLt, with fused bias, bias gradient, GELU and GELU's gradient (epilogues).
 *
 * cuBLASLt is column-major: to cuBLASLt, the row-major product c = a b is c' = b' a'. So the factors change places. A
 * bias, which cuBLASLt adds along the rows of c', is added to every row of c. Products accumulate in fp32. Factors of
 * type fp32 are used unchanged, or rounded to TF32 if the settings allow it. The algorithm for a problem is chosen at
 * the problem's first use (tune.c), and is then used again. */
#include "device/cuda/product.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TILE = 128 }; /* TILE: rows and columns of the tile that one block of cuBLASLt usually computes */

static void check(cublasStatus_t status, const char *what)
{
    if (status != CUBLAS_STATUS_SUCCESS)
        ce_fatal(CS_NO_DEVICE, "cuBLASLt: %s: %s", what, cublasLtGetStatusString(status));
}

/* ---- opening ---- */

cs_status ce_cuda_products_open(cs_device *device, const ce_device_settings *settings)
{
    ce_cuda_products *products = ce_cuda_of(device)->products = calloc(1, sizeof *products);
    if (!products)
        return ce_fail(CS_NO_MEMORY, "no memory for cuBLASLt's plans");
    cublasStatus_t status = cublasLtCreate(&products->handle);
    if (status != CUBLAS_STATUS_SUCCESS)
        return ce_fail(CS_NO_DEVICE, "device \"cuda\": cuBLASLt cannot be opened: %s", cublasLtGetStatusString(status));
    products->wide = settings->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    CE_CUDA(cudaEventCreate(&products->begin));
    CE_CUDA(cudaEventCreate(&products->end));
    products->digest = ce_device_alloc(device, sizeof(uint64_t));
    products->fetched = ce_device_alloc_pinned(device, sizeof(uint64_t));
    device->workspace += sizeof(uint64_t);
    return CS_OK;
}

void ce_cuda_products_close(cs_device *device)
{
    ce_cuda_products *products = ce_cuda_of(device)->products;
    if (!products)
        return;
    for (int i = 0; i < products->count; i++) {
        cublasLtMatmulDescDestroy(products->plans[i].operation);
        cublasLtMatrixLayoutDestroy(products->plans[i].a);
        cublasLtMatrixLayoutDestroy(products->plans[i].b);
        cublasLtMatrixLayoutDestroy(products->plans[i].c);
    }
    if (products->begin)
        CE_CUDA(cudaEventDestroy(products->begin));
    if (products->end)
        CE_CUDA(cudaEventDestroy(products->end));
    if (products->handle)
        cublasLtDestroy(products->handle);
    free(products->plans);
    free(products);
}

/* ---- plans ---- */

static cudaDataType_t type_of(cs_dtype dtype)
{
    return dtype == CS_F32 ? CUDA_R_32F : dtype == CS_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

/* Returns the alignment of an address in bytes, at most 16. 16 bytes are the widest access of a thread, and the
 * alignment that copies of tiles need. The alignment is a part of the key of a plan, so addresses of equal alignment
 * get the same algorithm and the same bits in the result. Alignments above 16 bytes are not distinguished: ZeRO's stage
 * and recomputation change the addresses of operands by multiples of 64 bytes, and must not change the bits. */
static uint32_t alignment(const void *address)
{
    return ce_is_aligned(address) ? 16 : (uint32_t)((uintptr_t)address & -(uintptr_t)address);
}

static ce_cuda_problem problem_of(const ce_product *product, cublasLtEpilogue_t epilogue, const ce_cuda_operands *on)
{
    ce_cuda_problem problem;
    /* memset also sets the padding of the struct to zero, because problems are compared byte by byte */
    memset(&problem, 0, sizeof problem);
    problem.m = cs_rows(product->c);
    problem.n = cs_columns(product->c);
    problem.k = product->transpose_a ? cs_rows(product->a) : cs_columns(product->a);
    problem.pitch = product->pitch ? product->pitch : problem.n;
    problem.epilogue = epilogue;
    problem.from = product->a.dtype;
    problem.to = product->c.dtype;
    problem.transpose_a = product->transpose_a;
    problem.transpose_b = product->transpose_b;
    problem.a_align = alignment(on->a);
    problem.b_align = alignment(on->b);
    problem.c_align = alignment(on->c);
    problem.bias_align = alignment(on->bias);
    problem.pre_align = alignment(on->pre);
    return problem;
}

static void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, const void *value,
                size_t bytes)
{
    check(cublasLtMatmulDescSetAttribute(operation, attribute, value, bytes), "an attribute of a product");
}

/* Creates the layout of a row-major matrix whose rows begin `pitch` elements apart. cuBLASLt reads the same memory as the transposed matrix in column-major
 * order. */
static cublasLtMatrixLayout_t layout(cs_tensor x, int64_t pitch)
{
    cublasLtMatrixLayout_t made;
    check(cublasLtMatrixLayoutCreate(&made, type_of(x.dtype), (uint64_t)cs_columns(x), (uint64_t)cs_rows(x), pitch),
          "a layout");
    return made;
}

/* Stores two addresses in the plan's description: that of `pre`, and that of the bias or the bias's gradient. The
 * addresses of the factors are arguments of the call. */
static void point(const ce_cuda_plan *plan, const ce_cuda_operands *on)
{
    const void *vector = on->sums ? on->sums : on->bias;
    if (vector)
        set(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &vector, sizeof vector);
    if (on->pre)
        set(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &on->pre, sizeof on->pre);
}

static void describe(ce_cuda_plan *plan, const ce_product *product, const ce_cuda_operands *on,
                     cublasComputeType_t compute)
{
    cublasOperation_t first = product->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t second = product->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    int64_t wide = plan->problem.n;
    check(cublasLtMatmulDescCreate(&plan->operation, compute, CUDA_R_32F), "a product");
    set(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    set(plan->operation, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
    set(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &plan->problem.epilogue, sizeof plan->problem.epilogue);
    if (on->pre)
        set(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &wide, sizeof wide);
    plan->a = layout(product->a, cs_columns(product->a));
    plan->b = layout(product->b, cs_columns(product->b));
    plan->c = layout(product->c, plan->problem.pitch);
}

static const ce_cuda_plan *plan_for(cs_device *device, const ce_product *product, cublasLtEpilogue_t epilogue,
                                    const ce_cuda_operands *on)
{
    ce_cuda_products *products = ce_cuda_of(device)->products;
    ce_cuda_problem problem = problem_of(product, epilogue, on);
    for (int i = 0; i < products->count; i++)
        if (memcmp(&products->plans[i].problem, &problem, sizeof problem) == 0)
            return &products->plans[i];
    if (products->count == products->capacity) {
        products->capacity = products->capacity ? 2 * products->capacity : 64;
        products->plans = realloc(products->plans, (size_t)products->capacity * sizeof *products->plans);
        if (!products->plans)
            ce_fatal(CS_NO_MEMORY, "no memory for %d plans of matrix products", products->capacity);
    }
    ce_cuda_plan *plan = &products->plans[products->count++];
    *plan = (ce_cuda_plan){ .problem = problem };
    describe(plan, product, on, product->a.dtype == CS_F32 ? products->wide : CUBLAS_COMPUTE_32F);
    point(plan, on);
    ce_cuda_tune(device, plan);
    return plan;
}

/* ---- running ---- */

cublasStatus_t ce_cuda_plan_run(cs_device *device, const ce_cuda_plan *plan, const ce_cuda_operands *on,
                                const cublasLtMatmulAlgo_t *algorithm)
{
    float one = 1, beta = on->add ? 1.0f : 0.0f;
    point(plan, on);
    return cublasLtMatmul(ce_cuda_of(device)->products->handle, plan->operation, &one, on->b, plan->b, on->a, plan->a,
                          &beta, on->c, plan->c, on->c, plan->c, algorithm,
                          ce_cuda_workspace(device, CE_CUDA_PRODUCT, CE_CUDA_WORKSPACE), CE_CUDA_WORKSPACE,
                          ce_cuda_compute(device));
}

/* Returns a hash that identifies one execution of a plan: the plan and the addresses of its operands. The hash uses the
 * plan's index and not its address, because the list of plans may be reallocated. */
static uint64_t run_hash(const ce_cuda_products *products, const ce_cuda_plan *plan, const ce_cuda_operands *on)
{
    const void *operands[] = { on->a, on->b, on->bias, on->c, on->pre, on->sums };
    uint64_t hash = ce_rng_mix((uint64_t)(plan - products->plans), on->add);
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++)
        hash = ce_rng_mix(hash, (uint64_t)(uintptr_t)operands[i]);
    return hash;
}

/* Runs a product. Returns false if cuBLASLt has no algorithm for the problem. */
static bool run(cs_device *device, const ce_product *product, cublasLtEpilogue_t epilogue, const ce_cuda_operands *on)
{
    const ce_cuda_plan *plan = plan_for(device, product, epilogue, on);
    if (!plan->fits)
        return false;
    if (!ce_cuda_replays(run_hash(ce_cuda_of(device)->products, plan, on)))
        check(ce_cuda_plan_run(device, plan, on, &plan->algorithm), "a product");
    return true;
}

/* Returns an fp32 vector in the workspace, behind the part that cuBLASLt uses. */
static cs_tensor vector_in_workspace(cs_device *device, int64_t count)
{
    char *memory = ce_cuda_workspace(device, CE_CUDA_PRODUCT, CE_CUDA_WORKSPACE + (size_t)count * sizeof(float));
    return cs_vector(memory + CE_CUDA_WORKSPACE, CS_F32, count);
}

/* Returns the bias in the result's type, which cuBLASLt requires. If the bias has another type, it is converted into
 * the workspace. */
static cs_tensor bias_of(cs_device *device, const ce_product *product)
{
    cs_tensor bias = product->bias;
    if (!bias.data || bias.dtype == product->c.dtype)
        return bias;
    cs_tensor wide = vector_in_workspace(device, cs_count(bias));
    ce_cuda_cast(device, wide, bias);
    return wide;
}

void ce_cuda_product(cs_device *device, const ce_product *product)
{
    if (cs_count(product->c) == 0)
        return;
    cs_tensor bias = bias_of(device, product);
    ce_cuda_operands on = {
        .a = product->a.data, .b = product->b.data, .bias = bias.data, .c = product->c.data, .add = product->add
    };
    if (!run(device, product, bias.data ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT, &on))
        ce_fatal(CS_UNSUPPORTED, "cuBLASLt has no algorithm to multiply (%lld, %lld) of type %d",
                 (long long)cs_rows(product->c), (long long)cs_columns(product->c), (int)product->a.dtype);
}

/* Returns whether cuBLASLt is asked for the sums of a factor's columns. Sums are not asked for if the result has fewer
 * tiles than the GPU has multiprocessors. A product with so few tiles is fast only if its inner dimension is divided
 * between several blocks (split-K), and cuBLASLt may not offer split-K together with sums. Sums of fp32 factors are not
 * asked for either, because cuBLASLt may round the factors to TF32 before it adds them. */
static bool is_summed(cs_device *device, const ce_product *product)
{
    int64_t tiles = cs_rows(product->c) / TILE * (cs_columns(product->c) / TILE);
    return product->a.dtype != CS_F32 && tiles >= ce_cuda_facts_of(device)->processors;
}

/* Computes a product and the sums of a factor's columns. cuBLASLt writes the sums to the workspace, because it can only
 * overwrite sums. Then the sums are copied from the workspace to `sums` if `sums` has `overwrite` set (cspeed.h), and otherwise
 * added to `sums`. The workspace is used in both cases, so that the sums of all micro-batches are rounded alike.
 * Returns false if cuBLASLt has no algorithm. */
static bool run_with_sums(cs_device *device, const ce_product *product, cs_tensor sums, bool of_a)
{
    /* cuBLASLt's factor b is our factor a */
    cublasLtEpilogue_t epilogue = of_a ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_BGRADA;
    cs_tensor made = vector_in_workspace(device, cs_count(sums));
    ce_cuda_operands on = {
        .a = product->a.data, .b = product->b.data, .c = product->c.data, .sums = made.data, .add = product->add
    };
    if (!run(device, product, epilogue, &on))
        return false;
    if (sums.overwrite)
        ce_cuda_cast(device, sums, made);
    else
        ce_cuda_add(ce_device_stream(device, CE_COMPUTE), sums, sums, made);
    return true;
}

void ce_cuda_product_sums(cs_device *device, const ce_product *product, cs_tensor sums, bool of_a)
{
    if (is_summed(device, product) && run_with_sums(device, product, sums, of_a))
        return;
    ce_cuda_product(device, product);
    ce_cuda_column_sums(device, sums, of_a ? product->a : product->b);
}

/* Returns whether cuBLASLt fuses GELU with the product. GELU's input and the bias must have the result's type, and the
 * number of columns must be a multiple of 8, so that rows of 16-bit elements are multiples of 16 bytes. Products of
 * fp32 factors are not fused, because the accuracy of cuBLASLt's GELU is not documented. */
static bool is_fused(const ce_product *product, cs_tensor other)
{
    return product->a.dtype != CS_F32 && cs_columns(product->c) % 8 == 0 && product->c.dtype == other.dtype &&
           cs_count(other) > 0 && (!product->bias.data || product->bias.dtype == other.dtype);
}

void ce_cuda_product_gelu(cs_device *device, cs_tensor y, const ce_product *product)
{
    ce_cuda_operands on = {
        .a = product->a.data, .b = product->b.data, .bias = product->bias.data, .c = y.data, .pre = product->c.data
    };
    ce_product into = *product;
    into.c = y;
    if (is_fused(product, y) &&
        run(device, &into, on.bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX, &on))
        return;
    ce_cuda_product(device, product);
    ce_cuda_gelu(device, y, product->c);
}

void ce_cuda_product_gelu_grad(cs_device *device, const ce_product *product, cs_tensor pre)
{
    ce_cuda_operands on = { .a = product->a.data, .b = product->b.data, .c = product->c.data, .pre = pre.data };
    if (is_fused(product, pre) && run(device, product, CUBLASLT_EPILOGUE_DGELU, &on))
        return;
    ce_cuda_product(device, product);
    ce_cuda_gelu_grad(device, product->c, product->c, pre);
}

/* ---- the peak rate of products, for the roofline ---- */

/* Measures the peak rate of products, in FLOP/s. The function multiplies square matrices for about a tenth of a second,
 * and returns the rate of the fastest product. The matrices are large enough to give each multiprocessor many tiles;
 * fp32 products are slower, so their matrices are smaller. Returns 0 (unknown) if there is no memory for the product.
 * The factors are random, because a product of equal numbers draws less power and runs faster than products of real
 * data. */
double ce_cuda_roof(cs_device *device, cs_dtype dtype)
{
    ce_cuda_products *products = ce_cuda_of(device)->products;
    int64_t side = (dtype == CS_F32 ? 32 : 64) * (int64_t)ce_cuda_facts_of(device)->processors;
    size_t bytes = (size_t)(side * side) * cs_dtype_bytes(dtype);
    char *memory = ce_cuda_alloc(device, 3 * bytes);
    cs_tensor matrix[3];
    float best = INFINITY, all = 0, milliseconds;
    if (!memory)
        return 0;
    for (int i = 0; i < 3; i++) {
        matrix[i] = cs_matrix(memory + (size_t)i * bytes, dtype, side, side);
        ce_cuda_noise(ce_cuda_compute(device), matrix[i].data, dtype, side * side, (uint64_t)i + 1);
    }
    ce_product product = { .c = matrix[0], .a = matrix[1], .b = matrix[2] };
    ce_cuda_product(device, &product); /* the first product is tuned and warms up the GPU; its time is not measured */
    for (int round = 0; round < 3 || (all < 100 && round < 100); round++, all += milliseconds) {
        CE_CUDA(cudaEventRecord(products->begin, ce_cuda_compute(device)));
        ce_cuda_product(device, &product);
        CE_CUDA(cudaEventRecord(products->end, ce_cuda_compute(device)));
        CE_CUDA(cudaEventSynchronize(products->end));
        CE_CUDA(cudaEventElapsedTime(&milliseconds, products->begin, products->end));
        best = fminf(best, milliseconds);
    }
    ce_cuda_free(device, memory, 3 * bytes);
    return best > 0 ? 2e3 * (double)side * (double)side * (double)side / (double)best : 0;
}
