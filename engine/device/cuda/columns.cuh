/* columns.cuh - column sums (sums over rows) in two steps, for kernels that also do other work on a matrix.
 *
 * In the first step, each block adds some rows of 256 columns (ce_columns_shape). A thread adds eight columns of every
 * row from ce_columns_first_row on, in steps of ce_columns_row_step. Then ce_columns_store adds the sums of the warps
 * and stores them as partial sums. The second step, ce_columns_reduce, adds the partial sums in a fixed order. */
#ifndef CE_DEVICE_COLUMNS_CUH
#define CE_DEVICE_COLUMNS_CUH

#include "device/cuda/run.cuh"

enum { CE_COLUMNS_WARPS = 8, CE_COLUMNS_TILE = CE_WARP * CE_RUN };

struct ce_columns_scratch {
    float sums[CE_COLUMNS_WARPS][CE_COLUMNS_TILE];
};

/* Returns the launch configuration of the first step: grid.x blocks for the columns, and grid.y parts of the rows.
 * There is at least one part, so the partial sums of a matrix without rows are 0. */
ce_shape ce_columns_shape(cs_device *device, int64_t rows, int64_t columns);

/* Returns workspace for the partial sums, of shape (shape.grid.y, columns). */
float *ce_columns_partial(cs_device *device, ce_shape shape, int64_t columns);

/* Returns the first of the thread's eight columns. */
__device__ inline int64_t ce_columns_at()
{
    return (int64_t)blockIdx.x * CE_COLUMNS_TILE + ce_lane() * CE_RUN;
}

__device__ inline int64_t ce_columns_first_row()
{
    return (int64_t)blockIdx.y * CE_COLUMNS_WARPS + ce_warp();
}

__device__ inline int64_t ce_columns_row_step()
{
    return (int64_t)gridDim.y * CE_COLUMNS_WARPS;
}

/* Adds the sums of the block's warps in order, and stores the totals in the part's row of `partial`. `sum` has the sums
 * of the thread's eight columns; `scratch` is shared memory. */
__device__ inline void ce_columns_store(float *partial, const float *sum, int64_t columns, ce_columns_scratch *scratch)
{
    for (int i = 0; i < CE_RUN; i++)
        scratch->sums[ce_warp()][ce_lane() * CE_RUN + i] = sum[i];
    __syncthreads();
    int64_t column = (int64_t)blockIdx.x * CE_COLUMNS_TILE + threadIdx.x;
    if (column >= columns)
        return;
    float all = 0;
    for (int i = 0; i < CE_COLUMNS_WARPS; i++)
        all += scratch->sums[i][threadIdx.x];
    partial[(int64_t)blockIdx.y * columns + column] = all;
}

/* Adds to into[c] the sum of partial[part][c] over all parts, in the order of the parts. If `into` has `overwrite` set (cspeed.h),
 * its old values are ignored. `partial` has the shape (parts, number of elements of `into`). */
void ce_columns_reduce(cs_device *device, cs_tensor into, const float *partial, int64_t parts);

#endif
