/* tile.cuh - products of tiles in shared memory by one warp, into its registers.
 *
 * A tile has rows of D 16-bit elements and TILE_PAD more, which put the rows that one load reads into different banks.
 * A warp's share of a result is `tiles` times 16 rows; columns lie in registers as tensor.cuh says of C. */
#ifndef CS_DEVICE_TILE_CUH
#define CS_DEVICE_TILE_CUH

#include "device/cuda/tensor.cuh"

constexpr int CS_TILE_PAD = 8;

template <int D> constexpr int cs_tile_wide = D + CS_TILE_PAD;

__device__ inline int cs_tile_lane()
{
    return (int)threadIdx.x % CS_WARP;
}

__device__ inline int cs_tile_warp()
{
    return (int)threadIdx.x / CS_WARP;
}

/* Rows of one head of one sample. */
template <typename T> struct cs_tile_view {
    const T *head;
    int64_t wide; /* elements from one row to the next */
    int count;

    __device__ const T *operator()(int row) const
    {
        return row < count ? head + row * wide : nullptr;
    }
};

/* Begins to copy rows [from, from + rows) of `width` elements, a multiple of 8; view(row) is where one lies, or NULL:
 * zeros. What D has more than width is zeros too. The first row is there. By all threads of the block. */
template <int D, int rows, typename T, typename View>
__device__ inline void cs_tile_copy(T *tile, const View &view, int from, int width)
{
    for (int i = (int)threadIdx.x; i < rows * (D / 8); i += (int)blockDim.x) {
        int row = i / (D / 8), column = i % (D / 8) * 8;
        const T *begin = view(from + row);
        bool there = begin && column < width;
        cs_tensor_copy(tile + row * cs_tile_wide<D> + column, there ? begin + column : view(from), there);
    }
}

/* c = a b^T: a has this warp's rows, b `columns` rows, both of D. */
template <typename T, int D, int tiles, int columns>
__device__ inline void cs_tile_scores(float (&c)[tiles][columns / 8][4], const T *a, const T *b)
{
    constexpr int wide = cs_tile_wide<D>;
    int lane = cs_tile_lane();
    a += lane % 16 * wide + lane / 16 * 8;
    b += (lane / 16 * 8 + lane % 8) * wide + lane / 8 % 2 * 8;
#pragma unroll
    for (int i = 0; i < tiles * (columns / 8) * 4; i++)
        c[i / 4 / (columns / 8)][i / 4 % (columns / 8)][i % 4] = 0;
#pragma unroll
    for (int k = 0; k < D; k += 16) {
        uint32_t left[tiles][4], right[4];
#pragma unroll
        for (int tile = 0; tile < tiles; tile++)
            cs_tensor_load(left[tile], a + tile * 16 * wide + k);
#pragma unroll
        for (int n = 0; n < columns; n += 16) {
            cs_tensor_load(right, b + n * wide + k);
#pragma unroll
            for (int tile = 0; tile < tiles; tile++) {
                cs_tensor_multiply<T>(c[tile][n / 8], left[tile], right[0], right[1]);
                cs_tensor_multiply<T>(c[tile][n / 8 + 1], left[tile], right[2], right[3]);
            }
        }
    }
}

/* c += p b: p is in registers, rounded to T here; b has `depth` rows of D. */
template <typename T, int D, int tiles, int depth>
__device__ inline void cs_tile_gather(float (&c)[tiles][D / 8][4], const float (&p)[tiles][depth / 8][4], const T *b)
{
    constexpr int wide = cs_tile_wide<D>;
    int lane = cs_tile_lane();
    b += lane % 16 * wide + lane / 16 * 8;
#pragma unroll
    for (int k = 0; k < depth; k += 16) {
        uint32_t left[tiles][4], right[4];
#pragma unroll
        for (int tile = 0; tile < tiles; tile++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float *two = &p[tile][k / 8 + i / 2][i % 2 * 2];
                left[tile][i] = cs_tensor_pair<T>(two[0], two[1]);
            }
#pragma unroll
        for (int n = 0; n < D; n += 16) {
            cs_tensor_load_turned(right, b + k * wide + n);
#pragma unroll
            for (int tile = 0; tile < tiles; tile++) {
                cs_tensor_multiply<T>(c[tile][n / 8], left[tile], right[0], right[1]);
                cs_tensor_multiply<T>(c[tile][n / 8 + 1], left[tile], right[2], right[3]);
            }
        }
    }
}

/* The sum, the largest of a row: of the four lanes that hold it. */
__device__ inline float cs_tile_sum(float value)
{
    value += __shfl_xor_sync(0xffffffffu, value, 1);
    return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

__device__ inline float cs_tile_max(float value)
{
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
    return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

/* Which of the block's rows this lane holds in registers 2 * lower, 2 * lower + 1 of tile `tile`. */
template <int tiles> __device__ inline int cs_tile_row(int tile, int lower)
{
    return (cs_tile_warp() * tiles + tile) * 16 + lower * 8 + cs_tile_lane() / 4;
}

/* That row, from the registers of the four lanes that hold it. */
template <typename T, int D>
__device__ inline void cs_tile_store(T *row, const float (&c)[D / 8][4], int lower, int width, float factor)
{
#pragma unroll
    for (int n = 0; n < D / 8; n++)
        if (n * 8 < width)
            *reinterpret_cast<uint32_t *>(row + n * 8 + cs_tile_lane() % 4 * 2) =
                cs_tensor_pair<T>(c[n][2 * lower] * factor, c[n][2 * lower + 1] * factor);
}

#endif
