/* columns.cu - sums over rows: of biases' gradients, and of what other kernels left in parts.
 *
 * Reading x bounds the first step: a warp reads 256 columns of a row, four rows of them at a time. The parts are few
 * beside the rows, so that they stay in the second-level cache for the second step. */
#include "device/cuda/columns.cuh"
#include "device/cuda/run.cuh"

enum { WARPS = 8, TILE = CS_WARP * CS_RUN, TOGETHER = 4, LEAST_ROWS = 64 };

static __device__ void add_rows(float *sum, cs_view x, int64_t at, int64_t row, int64_t step, int64_t rows,
                                int64_t columns)
{
    for (; row < rows; row += TOGETHER * step) {
        cs_run run[TOGETHER];
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
            int64_t own = row + k * step;
            run[k] = cs_run_load(cs_run_from(x, own * columns), at, cs_range{ 0, own < rows ? columns : 0 });
        }
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
            float wide[CS_RUN];
            cs_run_widen(wide, run[k], x.dtype);
            for (int i = 0; i < CS_RUN; i++)
                sum[i] += wide[i];
        }
    }
}

/* A block sums 256 columns of the rows that are its part's, and joins its warps in order. */
static __global__ void __launch_bounds__(WARPS *CS_WARP)
    sum_tiles(float *partial, cs_view x, int64_t rows, int64_t columns)
{
    CS_SHARED float of_warp[WARPS][TILE];
    int lane = (int)threadIdx.x % CS_WARP, warp = (int)threadIdx.x / CS_WARP;
    float sum[CS_RUN] = {};
    int64_t first = (int64_t)blockIdx.x * TILE;
    add_rows(sum, x, first + lane * CS_RUN, (int64_t)blockIdx.y * WARPS + warp, (int64_t)gridDim.y * WARPS, rows,
             columns);
    for (int i = 0; i < CS_RUN; i++)
        of_warp[warp][lane * CS_RUN + i] = sum[i];
    __syncthreads();
    int64_t column = first + threadIdx.x;
    if (column >= columns)
        return;
    float all = 0;
    for (int i = 0; i < WARPS; i++)
        all += of_warp[i][threadIdx.x];
    partial[(int64_t)blockIdx.y * columns + column] = all;
}

extern "C" void cs_cuda_column_sums(cs_device *device, cs_tensor sums, cs_tensor x)
{
    int64_t rows = cs_rows(x), columns = cs_columns(x), tiles = (columns + TILE - 1) / TILE;
    int64_t max = (rows + LEAST_ROWS - 1) / LEAST_ROWS;
    int64_t wide = (4 * (int64_t)cs_cuda_facts_of(device)->processors + tiles - 1) / tiles;
    int64_t parts = max < wide ? max : wide;
    if (parts == 0 || columns == 0)
        return;
    float *partial = (float *)cs_cuda_workspace(device, CS_CUDA_REDUCTION, (size_t)(parts * columns) * sizeof(float));
    cs_launch(cs_cuda_compute(device), cs_shape{ dim3((unsigned)tiles, (unsigned)parts), dim3(WARPS * CS_WARP) },
              sum_tiles, partial, cs_run_view(x), rows, columns);
    cs_columns_join(device, sums, partial, parts);
}

/* 32 columns a block; each warp adds the parts of its own, every eighth, and then those eight are added in order. */
static __global__ void __launch_bounds__(WARPS *CS_WARP)
    join_parts(float *into, const float *partial, int64_t parts, int64_t columns, int set)
{
    CS_SHARED float of_warp[WARPS][CS_WARP];
    int lane = (int)threadIdx.x % CS_WARP, warp = (int)threadIdx.x / CS_WARP;
    int64_t column = (int64_t)blockIdx.x * CS_WARP + lane;
    float sum = 0;
    if (column < columns) {
#pragma unroll 8
        for (int64_t part = warp; part < parts; part += WARPS)
            sum += partial[part * columns + column];
    }
    of_warp[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || column >= columns)
        return;
    for (int i = 1; i < WARPS; i++)
        sum += of_warp[i][lane];
    into[column] = set ? sum : into[column] + sum;
}

void cs_columns_join(cs_device *device, cs_tensor into, const float *partial, int64_t parts)
{
    int64_t columns = cs_count(into), blocks = (columns + CS_WARP - 1) / CS_WARP;
    cs_launch(cs_cuda_compute(device), cs_shape{ dim3((unsigned)blocks), dim3(WARPS * CS_WARP) }, join_parts,
              (float *)into.data, partial, parts, columns, into.fresh ? 1 : 0);
}
