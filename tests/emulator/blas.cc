/* blas.cc - emulated cuBLASLt by plain loops: d = epilogue(alpha op(a) op(b) + beta c), column-major, summed in fp32.
 *
 * It refuses what cuBLASLt refuses. The first result of the heuristic has a state other than success; its algorithm
 * does not run. Of the next three algorithms, two give the same bits, and the third adds in the reverse order. So tests
 * find code that expects the bits of one algorithm but runs another algorithm. */
#include "shadow.h"

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>
#include <string.h>
#include <vector>

enum { ALGORITHMS = 3 };

struct cublasLtContext {
    int unused;
};

struct cublasLtMatmulDescOpaque {
    cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
    cudaDataType_t scale = CUDA_R_32F;
    int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
    uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    void *bias = nullptr, *pre = nullptr;
    int64_t pre_ld = 0;
    int32_t bias_type = -1, pre_type = -1; /* -1: the type is that of d */
};

struct cublasLtMatrixLayoutOpaque {
    cudaDataType_t type;
    int64_t rows, columns, ld;
    int32_t batch = 1;
    int64_t apart = 0;
};

struct cublasLtPreferenceOpaque {
    uint64_t workspace = 0;
};

/* A copy of a product's arguments at the time of the call. */
struct product {
    cublasLtMatmulDescOpaque how;
    cublasLtMatrixLayoutOpaque a_layout, b_layout, c_layout, d_layout;
    float alpha, beta;
    const char *a, *b, *c;
    char *d;
    uint64_t algorithm;
};

static size_t bytes_of(cudaDataType_t type)
{
    return type == CUDA_R_32F ? 4 : 2;
}

static float load(const void *base, int64_t at, cudaDataType_t type)
{
    switch (type) {
    case CUDA_R_16F:
        return (float)((const __half *)base)[at];
    case CUDA_R_16BF:
        return (float)((const __nv_bfloat16 *)base)[at];
    default:
        return ((const float *)base)[at];
    }
}

static void store(void *base, int64_t at, cudaDataType_t type, float value)
{
    switch (type) {
    case CUDA_R_16F:
        ((__half *)base)[at] = __half(value);
        break;
    case CUDA_R_16BF:
        ((__nv_bfloat16 *)base)[at] = __nv_bfloat16(value);
        break;
    default:
        ((float *)base)[at] = value;
        break;
    }
}

/* ---- validation ---- */

static bool is_type(int type)
{
    return type == CUDA_R_32F || type == CUDA_R_16F || type == CUDA_R_16BF;
}

static bool has(const cublasLtMatmulDescOpaque &how, uint32_t bits)
{
    return (how.epilogue & bits) == bits;
}

static bool is_known(uint32_t epilogue)
{
    for (uint32_t known :
         { CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_BGRADA, CUBLASLT_EPILOGUE_BGRADB,
           CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX,
           CUBLASLT_EPILOGUE_GELU_AUX_BIAS, CUBLASLT_EPILOGUE_DGELU, CUBLASLT_EPILOGUE_DGELU_BGRAD })
        if (epilogue == known)
            return true;
    return false;
}

static bool same_shape(const cublasLtMatrixLayoutOpaque &c, const cublasLtMatrixLayoutOpaque &d)
{
    return c.rows == d.rows && c.columns == d.columns && c.type == d.type && c.batch == d.batch;
}

/* Returns whether the types are supported: a and b must have one type, and d must have that type or fp32. */
static bool types_fit(const product &p)
{
    cudaDataType_t from = p.a_layout.type, to = p.d_layout.type;
    bool fast = p.how.compute == CUBLAS_COMPUTE_32F_FAST_TF32 || p.how.compute == CUBLAS_COMPUTE_32F_FAST_16F ||
                p.how.compute == CUBLAS_COMPUTE_32F_FAST_16BF;
    return (p.how.compute == CUBLAS_COMPUTE_32F || p.how.compute == CUBLAS_COMPUTE_32F_PEDANTIC ||
            (fast && from == CUDA_R_32F)) &&
           p.how.scale == CUDA_R_32F && p.b_layout.type == from && (to == from || to == CUDA_R_32F);
}

static cublasStatus_t check_shapes(const product &p)
{
    const auto &a = p.a_layout, &b = p.b_layout, &d = p.d_layout;
    int64_t m = p.how.transpose_a ? a.columns : a.rows, k = p.how.transpose_a ? a.rows : a.columns;
    int64_t n = p.how.transpose_b ? b.rows : b.columns, inner = p.how.transpose_b ? b.columns : b.rows;
    for (const auto *layout : { &a, &b, &p.c_layout, &d })
        if (layout->ld < layout->rows || layout->rows < 1 || layout->columns < 1 || layout->batch != d.batch)
            return CUBLAS_STATUS_INVALID_VALUE;
    if (m != d.rows || n != d.columns || k != inner || !same_shape(p.c_layout, d))
        return CUBLAS_STATUS_INVALID_VALUE;
    return types_fit(p) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static cublasStatus_t check_epilogue(const product &p)
{
    const auto &how = p.how;
    if (!is_known(how.epilogue))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    bool wants_bias = has(how, 4) || has(how, 16) || has(how, 256) || has(how, 512);
    if (wants_bias && (!how.bias || (how.bias_type != -1 && how.bias_type != (int)p.d_layout.type)))
        return how.bias ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_INVALID_VALUE;
    if (!has(how, 128))
        return CUBLAS_STATUS_SUCCESS;
    if (!how.pre || (uintptr_t)how.pre % 16 != 0 || how.pre_ld % 8 != 0 || how.pre_ld < p.d_layout.rows)
        return CUBLAS_STATUS_INVALID_VALUE;
    return how.pre_type == -1 || how.pre_type == (int)p.d_layout.type ? CUBLAS_STATUS_SUCCESS
                                                                      : CUBLAS_STATUS_NOT_SUPPORTED;
}

static bool aligned(const void *pointer, const cublasLtMatrixLayoutOpaque &layout)
{
    return pointer && (uintptr_t)pointer % bytes_of(layout.type) == 0;
}

static cublasStatus_t check(const product &p)
{
    cublasStatus_t status = check_shapes(p);
    return status == CUBLAS_STATUS_SUCCESS ? check_epilogue(p) : status;
}

/* ---- computing ---- */

static void use_matrix(const char *what, const void *base, const cublasLtMatrixLayoutOpaque &layout,
                       emulator_access access)
{
    int64_t last = (layout.batch - 1) * layout.apart + (layout.columns - 1) * layout.ld + layout.rows;
    size_t size = bytes_of(layout.type);
    emulator_check_range(what, base, (size_t)last * size);
    for (int64_t i = 0; i < layout.batch * layout.columns; i++) {
        int64_t at = i / layout.columns * layout.apart + i % layout.columns * layout.ld;
        shadow_touch("a product", (const char *)base + (size_t)at * size, (size_t)layout.rows * size, access);
    }
}

/* Rounds to TF32, 10 bits of mantissa, as tensor cores do. */
static float round_tf32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7f800000u) != 0x7f800000u)
        bits = (bits + 0x0fffu + (bits >> 13 & 1)) & ~0x1fffu;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Returns op(x) as an array of shape (inner, outer), whose outer dimension is contiguous. */
static std::vector<float> pack(const char *base, const cublasLtMatrixLayoutOpaque &x, bool by_columns)
{
    std::vector<float> packed((size_t)(x.rows * x.columns));
    for (int64_t column = 0; column < x.columns; column++)
        for (int64_t row = 0; row < x.rows; row++)
            packed[(size_t)(by_columns ? column * x.rows + row : row * x.columns + column)] =
                load(base, column * x.ld + row, x.type);
    return packed;
}

static float gelu(float x)
{
    float inner = 0.7978845608f * (x + 0.044715f * x * x * x);
    return 0.5f * x * (1 + tanhf(inner));
}

static float gelu_slope(float x)
{
    float inner = 0.7978845608f * (x + 0.044715f * x * x * x), t = tanhf(inner);
    return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.7978845608f * (1 + 3 * 0.044715f * x * x);
}

/* Applies the epilogue to one element. `pre` is GELU's input. Forward writes `pre`; backward reads `pre`. */
static float finish(const product &p, float value, int64_t row, int64_t column)
{
    cudaDataType_t type = p.d_layout.type;
    int64_t at = column * p.how.pre_ld + row;
    if (has(p.how, 4))
        value += load(p.how.bias, row, type);
    if (has(p.how, 64))
        return value * gelu_slope(load(p.how.pre, at, type));
    if (has(p.how, 128))
        store(p.how.pre, at, type, value);
    return has(p.how, 32) ? gelu(value) : value;
}

static void sum_rows(const product &p, const std::vector<float> &packed, int64_t outer, int64_t inner)
{
    for (int64_t i = 0; i < outer; i++) {
        float sum = 0;
        for (int64_t k = 0; k < inner; k++)
            sum += packed[(size_t)(k * outer + i)];
        store(p.how.bias, i, p.d_layout.type, sum);
    }
}

static void multiply_one(const product &p, int64_t number)
{
    const char *at_a = p.a + number * p.a_layout.apart * (int64_t)bytes_of(p.a_layout.type);
    const char *at_b = p.b + number * p.b_layout.apart * (int64_t)bytes_of(p.b_layout.type);
    int64_t skip = number * p.d_layout.apart, m = p.d_layout.rows, n = p.d_layout.columns;
    int64_t inner = p.how.transpose_a ? p.a_layout.rows : p.a_layout.columns;
    std::vector<float> a = pack(at_a, p.a_layout, !p.how.transpose_a), b = pack(at_b, p.b_layout, p.how.transpose_b);
    if (p.how.compute == CUBLAS_COMPUTE_32F_FAST_TF32)
        for (std::vector<float> *factor : { &a, &b })
            for (float &value : *factor)
                value = round_tf32(value);
    std::vector<float> sums((size_t)m), gathered((size_t)m);
    for (int64_t column = 0; column < n; column++) {
        std::fill(sums.begin(), sums.end(), 0.0f);
        for (int64_t i = 0; i < inner; i++) {
            int64_t k = p.algorithm == 2 ? inner - 1 - i : i;
            float factor = b[(size_t)(k * n + column)];
            const float *from = &a[(size_t)(k * m)];
            for (int64_t row = 0; row < m; row++)
                sums[(size_t)row] += from[row] * factor;
        }
        for (int64_t row = 0; row < m; row++) {
            float value = p.alpha * sums[(size_t)row];
            if (p.beta != 0)
                value += p.beta * load(p.c, number * p.c_layout.apart + column * p.c_layout.ld + row, p.c_layout.type);
            value = finish(p, value, row, column);
            gathered[(size_t)row] += value;
            store(p.d, skip + column * p.d_layout.ld + row, p.d_layout.type, value);
        }
    }
    if (has(p.how, CUBLASLT_EPILOGUE_BGRADA))
        sum_rows(p, a, m, inner);
    if (has(p.how, CUBLASLT_EPILOGUE_BGRADB))
        sum_rows(p, b, n, inner);
    for (int64_t row = 0; has(p.how, 16) && row < m; row++)
        store(p.how.bias, row, p.d_layout.type, gathered[(size_t)row]);
}

/* Notes the memory accesses to the bias or its gradient, and to GELU's input. */
static void touch_epilogue(const product &p)
{
    const auto &how = p.how;
    bool sums = has(how, 16) || has(how, CUBLASLT_EPILOGUE_BGRADA) || has(how, CUBLASLT_EPILOGUE_BGRADB);
    int64_t length = has(how, CUBLASLT_EPILOGUE_BGRADB) ? p.d_layout.columns : p.d_layout.rows;
    if (has(how, 4) || sums)
        shadow_touch("a product", how.bias, (size_t)length * bytes_of(p.d_layout.type),
                     sums ? EMULATOR_WRITE : EMULATOR_READ);
    cublasLtMatrixLayoutOpaque pre = p.d_layout;
    pre.ld = how.pre_ld;
    if (has(how, 64) || has(how, 128))
        use_matrix("a product's input of GELU", how.pre, pre, has(how, 64) ? EMULATOR_READ : EMULATOR_WRITE);
}

static void multiply(const product &p)
{
    use_matrix("a product's a", p.a, p.a_layout, EMULATOR_READ);
    use_matrix("a product's b", p.b, p.b_layout, EMULATOR_READ);
    if (p.beta != 0)
        use_matrix("a product's c", p.c, p.c_layout, EMULATOR_READ);
    use_matrix("a product's d", p.d, p.d_layout, EMULATOR_WRITE);
    touch_epilogue(p);
    for (int64_t number = 0; number < p.d_layout.batch; number++)
        multiply_one(p, number);
}

static bool rows_aligned(const void *matrix, const cublasLtMatrixLayoutOpaque &layout)
{
    size_t bytes = bytes_of(layout.type);
    return (uintptr_t)matrix % 16 == 0 && (size_t)layout.ld * bytes % 16 == 0 &&
           (layout.batch == 1 || (size_t)layout.apart * bytes % 16 == 0);
}

uint64_t emulator_multiply_adds, emulator_unaligned_multiply_adds;

static void count_work(const product &p)
{
    int64_t inner = p.how.transpose_a ? p.a_layout.rows : p.a_layout.columns;
    auto work = (uint64_t)(p.d_layout.batch * p.d_layout.rows * p.d_layout.columns * inner);
    emulator_multiply_adds += work;
    if (!rows_aligned(p.a, p.a_layout) || !rows_aligned(p.b, p.b_layout) || !rows_aligned(p.d, p.d_layout))
        emulator_unaligned_multiply_adds += work;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    emulator_guard guard(emulator_lock);
    product p = { *description,
                  *a_layout,
                  *b_layout,
                  *c_layout,
                  *d_layout,
                  *(const float *)alpha,
                  *(const float *)beta,
                  (const char *)a,
                  (const char *)b,
                  (const char *)c,
                  (char *)d,
                  algorithm ? algorithm->data[0] : 0 };
    cublasStatus_t status = check(p);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    if (!aligned(a, *a_layout) || !aligned(b, *b_layout) || !aligned(d, *d_layout) ||
        (p.beta != 0 && !aligned(c, *c_layout)) || p.algorithm >= ALGORITHMS)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (algorithm && (workspace_bytes < algorithm->data[1] || (uintptr_t)workspace % 16 != 0))
        return CUBLAS_STATUS_INVALID_VALUE;
    emulator_check_range("a product's workspace", workspace, workspace_bytes);
    count_work(p);
    bool given = emulator_enqueue(stream, [p, workspace, needed = algorithm ? algorithm->data[1] : 0] {
                     shadow_touch("a product", workspace, needed, EMULATOR_WRITE);
                     multiply(p);
                 }) == cudaSuccess;
    return given ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

/* ---- descriptors and the heuristic ---- */

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t *results, int *found)
{
    product p = { *description, *a, *b, *c, *d, 1, 0, nullptr, nullptr, nullptr, nullptr, 0 };
    cublasStatus_t status = check(p);
    *found = 0;
    if (status != CUBLAS_STATUS_SUCCESS)
        return status == CUBLAS_STATUS_INVALID_VALUE ? status : CUBLAS_STATUS_NOT_SUPPORTED;
    results[*found] = {};
    results[*found].algo.data[0] = ALGORITHMS;
    results[(*found)++].state = CUBLAS_STATUS_NOT_SUPPORTED;
    for (uint64_t i = 0; i < ALGORITHMS && *found < wanted; i++) {
        uint64_t workspace = i * 4096;
        if (workspace > preference->workspace)
            continue;
        results[*found] = {};
        results[*found].algo.data[0] = i;
        results[*found].algo.data[1] = workspace;
        results[*found].workspaceSize = workspace;
        results[(*found)++].state = CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_SUCCESS;
}

template <typename T> static cublasStatus_t take(T &into, const void *value, size_t bytes)
{
    if (bytes != sizeof into)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(&into, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t it, cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes)
{
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
        return take(it->compute, value, bytes);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
        return take(it->scale, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return take(it->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return take(it->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return take(it->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return take(it->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
        return take(it->pre, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
        return take(it->pre_ld, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        return take(it->bias_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
        return take(it->pre_type, value, bytes);
    default:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *description, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    *description = new cublasLtMatmulDescOpaque;
    (*description)->compute = compute;
    (*description)->scale = scale;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description)
{
    delete description;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType_t type, uint64_t rows,
                                          uint64_t columns, int64_t ld)
{
    if (!is_type(type))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *layout = new cublasLtMatrixLayoutOpaque{ type, (int64_t)rows, (int64_t)columns, ld };
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    delete layout;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t bytes)
{
    switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
        return take(layout->batch, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
        return take(layout->apart, value, bytes);
    default:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = new cublasLtPreferenceOpaque;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    delete preference;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                                                    size_t bytes)
{
    uint32_t unused;
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES)
        return take(preference->workspace, value, bytes);
    return take(unused, value, bytes);
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = new cublasLtContext;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}
