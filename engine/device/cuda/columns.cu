/* columns.cu - column sums (sums over rows), for gradients of biases, and the final addition of partial sums.
 *
 * The first kernel divides the rows into parts and computes the column sums of each part. It is bound by reading x: a
 * warp reads 256 columns of four rows at a time. The second kernel adds the partial sums in a fixed order. There are
 * few parts compared with rows, so the partial sums are still in the L2 cache. */
#include "device/cuda/columns.cuh"

enum { WARPS = CE_COLUMNS_WARPS, TOGETHER = 4, MIN_ROWS = 64 };

/* Adds eight columns, from column `at` on, of the rows `row`, `row` + `step` and so on to `sum`. */
static __device__ void add_rows(float *sum, ce_view x, int64_t at, int64_t row, int64_t step, int64_t rows,
                                int64_t columns)
{
    for (; row < rows; row += TOGETHER * step) {
        ce_run run[TOGETHER];
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
            int64_t this_row = row + k * step;
            run[k] = ce_run_load(ce_run_from(x, this_row * columns), at, ce_range{ 0, this_row < rows ? columns : 0 });
        }
        ce_run_add(sum, run, x.dtype);
    }
}

/* Computes the sums of 256 columns over the rows of one part (blockIdx.y). Each warp adds some of the rows. */
static __global__ void __launch_bounds__(WARPS *CE_WARP)
    column_sum_tiles(float *partial, ce_view x, int64_t rows, int64_t columns)
{
    CE_SHARED ce_columns_scratch scratch;
    float sum[CE_RUN] = {};
    add_rows(sum, x, ce_columns_at(), ce_columns_first_row(), ce_columns_row_step(), rows, columns);
    ce_columns_store(partial, sum, columns, &scratch);
}

ce_shape ce_columns_shape(cs_device *device, int64_t rows, int64_t columns)
{
    int64_t tiles = ce_divide_up(columns, CE_COLUMNS_TILE), max = ce_divide_up(rows, MIN_ROWS);
    if (tiles == 0)
        return ce_shape{ dim3(0), dim3(WARPS * CE_WARP) };
    int64_t wide = ce_divide_up(4 * (int64_t)ce_cuda_facts_of(device)->processors, tiles);
    int64_t parts = max < wide ? max : wide;
    return ce_shape{ dim3((unsigned)tiles, (unsigned)(parts > 0 ? parts : 1)), dim3(WARPS * CE_WARP) };
}

float *ce_columns_partial(cs_device *device, ce_shape shape, int64_t columns)
{
    return (float *)ce_cuda_workspace(device, CE_CUDA_REDUCTION, shape.grid.y * (size_t)columns * sizeof(float));
}

extern "C" void ce_cuda_column_sums(cs_device *device, cs_tensor sums, cs_tensor x)
{
    ce_shape shape = ce_columns_shape(device, cs_rows(x), cs_columns(x));
    float *partial = ce_columns_partial(device, shape, cs_columns(x));
    ce_launch(ce_cuda_compute(device), shape, column_sum_tiles, partial, ce_run_view(x), cs_rows(x), cs_columns(x));
    ce_columns_reduce(device, sums, partial, shape.grid.y);
}

/* Adds the partial sums of all parts, for 32 columns in each block. Each warp adds every eighth part; then the sums of
 * the eight warps are added in order. If `set` is true, the old values of `into` are ignored. */
static __global__ void __launch_bounds__(WARPS *CE_WARP)
    reduce_partials(float *into, const float *partial, int64_t parts, int64_t columns, int set)
{
    CE_SHARED float warp_sums[WARPS][CE_WARP];
    int lane = ce_lane(), warp = ce_warp();
    int64_t column = (int64_t)blockIdx.x * CE_WARP + lane;
    float sum = 0;
    if (column < columns) {
#pragma unroll 8
        for (int64_t part = warp; part < parts; part += WARPS)
            sum += partial[part * columns + column];
    }
    warp_sums[warp][lane] = sum;
    __syncthreads();
    if (warp > 0 || column >= columns)
        return;
    for (int i = 1; i < WARPS; i++)
        sum += warp_sums[i][lane];
    into[column] = set ? sum : into[column] + sum;
}

void ce_columns_reduce(cs_device *device, cs_tensor into, const float *partial, int64_t parts)
{
    int64_t columns = cs_count(into), blocks = ce_divide_up(columns, CE_WARP);
    ce_launch(ce_cuda_compute(device), ce_shape{ dim3((unsigned)blocks), dim3(WARPS * CE_WARP) }, reduce_partials,
              (float *)into.data, partial, parts, columns, into.overwrite ? 1 : 0);
}
