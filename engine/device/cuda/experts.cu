/* experts.cu - the products of a mixture of experts: for each expert, the product of its slots and its matrix.
 *
 * The slots of an expert are a range of rows that the host does not know (experts.cuh). Tensor cores multiply 16-bit
 * types whose rows are aligned to 16 bytes; experts_plain.cu computes all other products. Each block computes one tile
 * of one expert's result, in one pass over the inner dimension, so that results are deterministic.
 *
 * The products of many slots are bound by the tensor cores. The kernels use mma.sync, which exists from compute
 * capability 8.0 on; on Hopper, wgmma would be faster. The gradient of the weights also writes, or
 * reads and writes, 4 bytes for each weight of all experts; with few slots for each expert this is its bound. If the
 * experts have few slots, as in generation, the other products are bound by reading the matrices of the chosen experts
 * once. A tile then has 16 rows, so that little is computed for rows that do not exist. */
#include "device/cuda/experts.cuh"
#include "device/cuda/multiply.cuh"

namespace
{

enum { THREADS = CE_MULTIPLY_THREADS, ROWS = 128, FEW_ROWS = 16, COLUMNS = CE_MULTIPLY_COLUMNS };

template <typename T> __device__ ce_multiply_matrix<T> matrix_of(const void *data, ce_experts_rows part)
{
    return ce_multiply_matrix<T>{ static_cast<const T *>(data) + part.first, part.rows, part.columns };
}

/* Stores a result in 16 bits. The lanes 2i and 2i + 1 exchange registers of two adjacent tiles of 8 columns, so that
 * each has four consecutive elements, and the four lanes of a row write 32 consecutive bytes. */
template <typename T, int rows>
__device__ void store_slots(T *y, const ce_experts_rows &part, const ce_experts_tile &tile,
                            const ce_multiply_result<rows> &c)
{
    using shape = ce_multiply_shape<rows>;
    int lane = ce_lane(), odd = lane % 2;
    int64_t column = tile.column + ce_multiply_column<rows>() + odd * 8 + lane % 4 / 2 * 4;
#pragma unroll
    for (int i = 0; i < shape::high * 2; i++) {
        int64_t row = tile.row + ce_multiply_row<rows>() + i * 8 + lane / 4;
        T *out = y + part.first + row * part.columns + column;
#pragma unroll
        for (int n = 0; n < shape::wide; n += 2) {
            const float *first = &c[i / 2][n][i % 2 * 2], *second = &c[i / 2][n + 1][i % 2 * 2];
            uint32_t low = ce_tensor_pair<T>(first[0], first[1]), high = ce_tensor_pair<T>(second[0], second[1]);
            uint32_t got = __shfl_xor_sync(0xffffffffu, odd ? low : high, 1);
            ce_pack<uint32_t, 2> four = { { odd ? got : low, odd ? high : got } };
            if (row < part.rows && column + n * 8 < part.columns)
                *reinterpret_cast<ce_pack<uint32_t, 2> *>(out + n * 8) = four;
        }
    }
}

/* Multiplies the slots of an expert by its matrix, whose rows run along the inner dimension unless `outer` is set. */
template <typename T, int rows, bool outer>
__global__ void __launch_bounds__(THREADS, 2) multiply_slots(ce_experts_job job)
{
    ce_experts_tile tile;
    ce_multiply_result<rows> c;
    if (!ce_experts_find(&tile, job, rows, COLUMNS))
        return;
    ce_multiply<T, rows, false, outer>(c, matrix_of<T>(job.a, ce_experts_slots(tile, job.a_columns)),
                                       matrix_of<T>(job.b, ce_experts_own(job, tile, job.b_columns)), tile.row,
                                       tile.column);
    store_slots<T, rows>(static_cast<T *>(job.c), ce_experts_slots(tile, job.c_columns), tile, c);
}

/* Stores 16 rows of sums, from row `at` of the tile on, or adds them to the sums in memory. All loads come before the
 * first store, so that they are in flight at the same time. */
__device__ void store_sums(float *dw, const ce_experts_rows &part, int64_t row, int64_t column,
                           const float (&c)[ce_multiply_shape<ROWS>::wide][4], bool add)
{
    constexpr int count = ce_multiply_shape<ROWS>::wide * 2;
    using two = ce_pack<float, 2>;
    two old[count] = {};
    auto at = [&](int i) {
        return reinterpret_cast<two *>(dw + (row + i % 2 * 8) * part.columns + column + i / 2 * 8);
    };
    auto there = [&](int i) { return row + i % 2 * 8 < part.rows && column + i / 2 * 8 < part.columns; };
#pragma unroll
    for (int i = 0; i < count; i++)
        if (add && there(i))
            old[i] = *at(i);
#pragma unroll
    for (int i = 0; i < count; i++)
        if (there(i))
            *at(i) = two{ { old[i].element[0] + c[i / 2][i % 2 * 2], old[i].element[1] + c[i / 2][i % 2 * 2 + 1] } };
}

/* Sums products over the slots of an expert: the gradient of its matrix. */
template <typename T> __global__ void __launch_bounds__(THREADS, 2) sum_slots(ce_experts_job job)
{
    ce_experts_tile tile;
    ce_multiply_result<ROWS> c;
    if (!ce_experts_find(&tile, job, ROWS, COLUMNS))
        return;
    ce_multiply<T, ROWS, true, true>(c, matrix_of<T>(job.a, ce_experts_slots(tile, job.a_columns)),
                                     matrix_of<T>(job.b, ce_experts_slots(tile, job.b_columns)), tile.row, tile.column);
    ce_experts_rows part = ce_experts_own(job, tile, job.c_columns);
    float *dw = static_cast<float *>(job.c) + part.first;
    int64_t row = tile.row + ce_multiply_row<ROWS>() + ce_lane() / 4;
    int64_t column = tile.column + ce_multiply_column<ROWS>() + ce_lane() % 4 * 2;
#pragma unroll
    for (int m = 0; m < ce_multiply_shape<ROWS>::high; m++)
        store_sums(dw, part, row + m * 16, column, c[m], job.add);
}

ce_experts_job job_of(const ce_experts *given)
{
    const ce_product *product = &given->product;
    int64_t experts = cs_count(given->bounds) - 1;
    ce_experts_job job = {};
    job.c = product->c.data, job.a = product->a.data, job.b = product->b.data;
    job.bounds = static_cast<const int32_t *>(given->bounds.data);
    job.a_columns = cs_columns(product->a), job.b_columns = cs_columns(product->b);
    job.c_columns = cs_columns(product->c);
    job.height = cs_rows(product->transpose_a ? product->c : product->b) / experts;
    job.slots = cs_rows(product->a);
    job.experts = (int32_t)experts;
    job.sums = product->transpose_a;
    job.add = product->add;
    job.from = product->a.dtype, job.to = product->c.dtype;
    job.b_inner = product->transpose_b;
    return job;
}

/* Returns whether 16 bytes can be copied at once from each row of 16-bit elements. */
bool is_aligned(const void *data, int64_t columns)
{
    return ce_is_aligned(data) && columns % 8 == 0;
}

template <typename T, int rows> void launch_slots(cudaStream_t stream, const ce_experts_job &job)
{
    ce_launch(stream, (ce_shape{ ce_experts_grid(job, rows, COLUMNS), dim3(THREADS), CE_MULTIPLY_SHARED }),
              job.b_inner ? multiply_slots<T, rows, false> : multiply_slots<T, rows, true>, job);
}

template <typename T> void launch(cudaStream_t stream, const ce_experts_job &job)
{
    if (job.sums)
        ce_launch(stream, (ce_shape{ ce_experts_grid(job, ROWS, COLUMNS), dim3(THREADS), CE_MULTIPLY_SHARED }),
                  sum_slots<T>, job);
    else if (job.slots <= FEW_ROWS * (int64_t)job.experts)
        launch_slots<T, FEW_ROWS>(stream, job);
    else
        launch_slots<T, ROWS>(stream, job);
}

} // namespace

void ce_cuda_experts(cs_device *device, const ce_experts *given)
{
    cudaStream_t stream = ce_cuda_compute(device);
    ce_experts_job job = job_of(given);
    bool aligned =
        is_aligned(job.a, job.a_columns) && is_aligned(job.b, job.b_columns) && is_aligned(job.c, job.c_columns);
    if (job.from == CS_F32 || !aligned)
        ce_experts_plain(stream, job);
    else if (job.from == CS_BF16)
        launch<bf16>(stream, job);
    else
        launch<half_t>(stream, job);
}
