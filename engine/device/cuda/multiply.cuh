/* multiply.cuh - one tile of a matrix product c = a b, computed by one block with tensor cores.
 *
 * Each factor lies in global memory in one of two orders. If its rows run along the inner dimension (inner order), the
 * matrix in memory is a or the transpose of b. If the inner dimension is the number of its rows (outer order), it is
 * the transpose of a, or b. The block reads the factors in steps of CE_MULTIPLY_DEPTH along the inner dimension.
 * Asynchronous copies (cp.async) fill a ring of stages in shared memory some steps before the stages are needed, which
 * hides the latency of memory. A tile has the order of its matrix; ldmatrix transposes what needs it.
 *
 * The rows of a tile are not padded. Instead, the 16-byte chunks of a row are permuted (swizzled) by the row's number.
 * So the eight rows that one load reads lie in different banks, and a stage needs no more memory than its elements.
 *
 * Each result is the sum of its products in the order of the inner dimension, 16 at a time, whatever the size of the
 * tile is. So the bits of a result depend neither on the tile nor on other rows and columns. */
#ifndef CE_DEVICE_MULTIPLY_CUH
#define CE_DEVICE_MULTIPLY_CUH

#include "device/cuda/tile.cuh"

enum {
    CE_MULTIPLY_THREADS = 128,
    CE_MULTIPLY_COLUMNS = 128, /* columns of the result in a tile */
    CE_MULTIPLY_DEPTH = 32,
    CE_MULTIPLY_SHARED = 64 << 10 /* bytes of dynamic shared memory: an A100 and an H200 hold two blocks */
};

/* A row-major matrix of 16-bit elements in global memory. `columns` is a multiple of 8, and `data` is aligned to 16
 * bytes. */
template <typename T> struct ce_multiply_matrix {
    const T *data;
    int64_t rows, columns;
};

/* How a tile of `rows` rows is divided: `down` times `across` warps; each computes high times wide products of
 * 16 x 8. */
template <int rows> struct ce_multiply_shape {
    static constexpr int warps = CE_MULTIPLY_THREADS / CE_WARP;
    static constexpr int down = rows >= 128 ? 2 : 1, across = warps / down;
    static constexpr int high = rows / down / 16, wide = CE_MULTIPLY_COLUMNS / across / 8;
    static constexpr int stage = (rows + CE_MULTIPLY_COLUMNS) * CE_MULTIPLY_DEPTH; /* elements of both tiles */
    static constexpr int stages = CE_MULTIPLY_SHARED / 2 / stage;
};

/* The part of the result that is in the registers of a warp, in the layout that tensor.cuh gives for C. */
template <int rows> using ce_multiply_result = float[ce_multiply_shape<rows>::high][ce_multiply_shape<rows>::wide][4];

/* Returns the first row of the tile that this warp computes; ce_multiply_column returns the first column. */
template <int rows> __device__ inline int ce_multiply_row()
{
    return ce_warp() / ce_multiply_shape<rows>::across * ce_multiply_shape<rows>::high * 16;
}

template <int rows> __device__ inline int ce_multiply_column()
{
    return ce_warp() % ce_multiply_shape<rows>::across * ce_multiply_shape<rows>::wide * 8;
}

/* Returns the place of an element in a tile whose rows have `width` elements. 128 bytes cover all banks; shorter rows
 * share them. */
template <int width> __device__ inline int ce_multiply_place(int row, int column)
{
    constexpr int sharing = width < 64 ? 64 / width : 1, chunks = width < 64 ? width / 8 : 8;
    return row * width + (column / 8 ^ row / sharing % chunks) * 8 + column % 8;
}

/* Starts copies of the rows from `row` on and the columns from `column` on to a tile of `height` rows of `width`
 * elements. Elements outside of the matrix become zero. */
template <int height, int width, typename T>
__device__ inline void ce_multiply_copy(T *tile, const ce_multiply_matrix<T> &x, int64_t row, int64_t column)
{
    /* `together` rows are copied at once, by all threads */
    constexpr int chunks = width / 8, together = CE_MULTIPLY_THREADS / chunks;
    int first = (int)threadIdx.x / chunks, at = (int)threadIdx.x % chunks * 8;
    int64_t left = column + at < x.columns ? x.rows - row - first : 0;
    const T *from = x.data + (row + first) * x.columns + column + at;
    if (height < together && first >= height)
        return;
#pragma unroll
    for (int i = 0; i < height; i += together, from += together * x.columns)
        ce_tensor_copy(tile + ce_multiply_place<width>(first + i, at), i < left ? from : x.data, i < left);
}

/* Copies the part of a factor that step number `step` needs: `side` rows or columns of the result from `at` on. */
template <int side, bool outer, typename T>
__device__ inline void ce_multiply_take(T *tile, const ce_multiply_matrix<T> &x, int64_t at, int64_t step)
{
    if constexpr (outer)
        ce_multiply_copy<CE_MULTIPLY_DEPTH, side>(tile, x, step * CE_MULTIPLY_DEPTH, at);
    else
        ce_multiply_copy<side, CE_MULTIPLY_DEPTH>(tile, x, at, step * CE_MULTIPLY_DEPTH);
}

/* Loads the operand of 16 rows of a (if `left`) or of 16 columns of b, from `at` on, and of 16 steps of the inner
 * dimension from k on. For b, registers 0 and 1 belong to the first 8 columns, 2 and 3 to the others. */
template <int side, bool outer, bool left, typename T>
__device__ inline void ce_multiply_load(uint32_t (&operand)[4], const T *tile, int at, int k)
{
    int lane = ce_lane();
    int row = left != outer ? lane % 16 : lane / 16 * 8 + lane % 8;
    int column = left != outer ? lane / 16 * 8 : lane / 8 % 2 * 8;
    if constexpr (outer)
        ce_tensor_load_transposed(operand, tile + ce_multiply_place<side>(k + row, at + column));
    else
        ce_tensor_load(operand, tile + ce_multiply_place<CE_MULTIPLY_DEPTH>(at + row, k + column));
}

/* Adds the products of one step to c. */
template <typename T, int rows, bool a_outer, bool b_outer>
__device__ inline void ce_multiply_step(ce_multiply_result<rows> &c, const T *a, const T *b)
{
    using shape = ce_multiply_shape<rows>;
#pragma unroll
    for (int k = 0; k < CE_MULTIPLY_DEPTH; k += 16) {
        uint32_t left[shape::high][4], right[4];
#pragma unroll
        for (int m = 0; m < shape::high; m++)
            ce_multiply_load<rows, a_outer, true>(left[m], a, ce_multiply_row<rows>() + m * 16, k);
#pragma unroll
        for (int n = 0; n < shape::wide; n += 2) {
            ce_multiply_load<CE_MULTIPLY_COLUMNS, b_outer, false>(right, b, ce_multiply_column<rows>() + n * 8, k);
#pragma unroll
            for (int m = 0; m < shape::high; m++) {
                ce_tensor_multiply<T>(c[m][n], left[m], right[0], right[1]);
                ce_tensor_multiply<T>(c[m][n + 1], left[m], right[2], right[3]);
            }
        }
    }
}

/* Computes the tile of c that begins at (row, column). Rows and columns outside of the factors become zero. All threads
 * of the block call this function, once. */
template <typename T, int rows, bool a_outer, bool b_outer>
__device__ inline void ce_multiply(ce_multiply_result<rows> &c, const ce_multiply_matrix<T> &a,
                                   const ce_multiply_matrix<T> &b, int64_t row, int64_t column)
{
    using shape = ce_multiply_shape<rows>;
    T *memory = reinterpret_cast<T *>(ce_shared_memory());
    int64_t depth = a_outer ? a.rows : a.columns;
    int steps = (int)ce_divide_up(depth, CE_MULTIPLY_DEPTH);
    auto start = [&](int step) {
        T *stage = memory + step % shape::stages * shape::stage;
        if (step < steps) {
            ce_multiply_take<rows, a_outer>(stage, a, row, step);
            ce_multiply_take<CE_MULTIPLY_COLUMNS, b_outer>(stage + rows * CE_MULTIPLY_DEPTH, b, column, step);
        }
        ce_tensor_commit();
    };
#pragma unroll
    for (int i = 0; i < shape::high * shape::wide * 4; i++)
        c[i / 4 / shape::wide][i / 4 % shape::wide][i % 4] = 0;
    for (int step = 0; step < shape::stages - 1; step++)
        start(step);
    for (int step = 0; step < steps; step++) {
        ce_tensor_wait<shape::stages - 2>();
        __syncthreads(); /* the stage of this step is filled; all warps have left the stage that is filled next */
        start(step + shape::stages - 1);
        const T *stage = memory + step % shape::stages * shape::stage;
        ce_multiply_step<T, rows, a_outer, b_outer>(c, stage, stage + rows * CE_MULTIPLY_DEPTH);
    }
}

#endif
