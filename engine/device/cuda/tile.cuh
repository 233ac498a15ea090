/* tile.cuh - matrix products of tiles in shared memory, computed by one warp into its registers.
 *
 * A row of a tile has D 16-bit elements and CE_TILE_PAD elements of padding, which places the rows that one load reads
 * in different banks of shared memory. A warp computes `tiles` times 16 rows of a result; registers hold the columns in
 * the layout that tensor.cuh gives for C. */
#ifndef CE_DEVICE_TILE_CUH
#define CE_DEVICE_TILE_CUH

#include "device/cuda/tensor.cuh"

constexpr int CE_TILE_PAD = 8;

template <int D> constexpr int ce_tile_stride = D + CE_TILE_PAD;

/* The rows of one head of one sample in global memory. */
template <typename T> struct ce_tile_view {
    const T *head;
    int64_t stride; /* number of elements from one row to the next */
    int count;

    __device__ const T *operator()(int row) const
    {
        return row < count ? head + row * stride : nullptr;
    }
};

/* Starts asynchronous copies of rows [from, from + rows) of `width` elements, a multiple of 8. view(row) returns the
 * address of a row, or NULL for a row of zeros; the first row always exists. Columns from `width` to D become zero. All
 * threads of the block must call this function. */
template <int D, int rows, typename T, typename View>
__device__ inline void ce_tile_copy(T *tile, const View &view, int from, int width)
{
    for (int i = (int)threadIdx.x; i < rows * (D / 8); i += (int)blockDim.x) {
        int row = i / (D / 8), column = i % (D / 8) * 8;
        const T *begin = view(from + row);
        bool there = begin && column < width;
        ce_tensor_copy(tile + row * ce_tile_stride<D> + column, there ? begin + column : view(from), there);
    }
}

/* Computes c = a b^T. `a` points to the rows of this warp in a tile, and `b` points to `columns` rows of another tile;
 * both have D columns. */
template <typename T, int D, int tiles, int columns>
__device__ inline void ce_tile_scores(float (&c)[tiles][columns / 8][4], const T *a, const T *b)
{
    constexpr int stride = ce_tile_stride<D>;
    int lane = ce_lane();
    a += lane % 16 * stride + lane / 16 * 8;
    b += (lane / 16 * 8 + lane % 8) * stride + lane / 8 % 2 * 8;
#pragma unroll
    for (int i = 0; i < tiles * (columns / 8) * 4; i++)
        c[i / 4 / (columns / 8)][i / 4 % (columns / 8)][i % 4] = 0;
#pragma unroll
    for (int k = 0; k < D; k += 16) {
        uint32_t left[tiles][4], right[4];
#pragma unroll
        for (int tile = 0; tile < tiles; tile++)
            ce_tensor_load(left[tile], a + tile * 16 * stride + k);
#pragma unroll
        for (int n = 0; n < columns; n += 16) {
            ce_tensor_load(right, b + n * stride + k);
#pragma unroll
            for (int tile = 0; tile < tiles; tile++) {
                ce_tensor_multiply<T>(c[tile][n / 8], left[tile], right[0], right[1]);
                ce_tensor_multiply<T>(c[tile][n / 8 + 1], left[tile], right[2], right[3]);
            }
        }
    }
}

/* Computes c += p b. `p` is in registers and is rounded to T; `b` has `depth` rows of D columns. */
template <typename T, int D, int tiles, int depth>
__device__ inline void ce_tile_multiply_add(float (&c)[tiles][D / 8][4], const float (&p)[tiles][depth / 8][4],
                                            const T *b)
{
    constexpr int stride = ce_tile_stride<D>;
    int lane = ce_lane();
    b += lane % 16 * stride + lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < depth; k += 16) {
        uint32_t left[tiles][4], right[4];
#pragma unroll
        for (int tile = 0; tile < tiles; tile++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float *two = &p[tile][k / 8 + i / 2][i % 2 * 2];
                left[tile][i] = ce_tensor_pair<T>(two[0], two[1]);
            }
#pragma unroll
        for (int n = 0; n < D; n += 16) {
            ce_tensor_load_transposed(right, b + k * stride + n);
#pragma unroll
            for (int tile = 0; tile < tiles; tile++) {
                ce_tensor_multiply<T>(c[tile][n / 8], left[tile], right[0], right[1]);
                ce_tensor_multiply<T>(c[tile][n / 8 + 1], left[tile], right[2], right[3]);
            }
        }
    }
}

/* Returns tanh(x) = 1 - 2 / (1 + e^2x). The absolute error is about 2^-21. For small x the subtraction loses digits, so
 * x itself is returned there, and the relative error is at most about 2^-13. The instruction tanh.approx would be half
 * of the work, but its relative error is 2^-11. A capped score of 20 would have an error of 0.01, and its probability
 * an error of 1 percent, five times the rounding of a probability to bf16. */
__device__ inline float ce_tile_tanh_of(float x)
{
    constexpr float log2e_twice = 2.88539008177792681f;
    float large = 1 - 2 * ce_tensor_reciprocal(1 + ce_tensor_exp2(log2e_twice * x));
    return fabsf(x) < 0x1p-8f ? x : large;
}

/* Replaces c by tanh(factor * c). */
template <int tiles, int count> __device__ inline void ce_tile_tanh(float (&c)[tiles][count][4], float factor)
{
#pragma unroll
    for (int tile = 0; tile < tiles; tile++)
#pragma unroll
        for (int n = 0; n < count; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                c[tile][n][i] = ce_tile_tanh_of(factor * c[tile][n][i]);
}

/* Returns the sum over the four lanes that hold a row. ce_tile_max returns the maximum over these lanes. */
__device__ inline float ce_tile_sum(float value)
{
    value += __shfl_xor_sync(0xffffffffu, value, 1);
    return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

__device__ inline float ce_tile_max(float value)
{
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
    return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

/* Returns the row of the block that this lane holds in registers 2 * lower and 2 * lower + 1 of tile `tile`. */
template <int tiles> __device__ inline int ce_tile_row(int tile, int lower)
{
    return (ce_warp() * tiles + tile) * 16 + lower * 8 + ce_lane() / 4;
}

/* Stores the row that ce_tile_row returns, multiplied by `factor`, from the registers of the four lanes that hold
 * it. */
template <typename T, int D>
__device__ inline void ce_tile_store(T *row, const float (&c)[D / 8][4], int lower, int width, float factor)
{
#pragma unroll
    for (int n = 0; n < D / 8; n++)
        if (n * 8 < width)
            *reinterpret_cast<uint32_t *>(row + n * 8 + ce_lane() % 4 * 2) =
                ce_tensor_pair<T>(c[n][2 * lower] * factor, c[n][2 * lower + 1] * factor);
}

#endif
