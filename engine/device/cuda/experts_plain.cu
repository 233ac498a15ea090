/* experts_plain.cu - the products of experts without tensor cores: fp32, and 16-bit types whose rows are not aligned to
 * 16 bytes.
 *
 * A block computes a tile of 64 x 64 from factors in shared memory, which are converted to fp32 when they are stored
 * there. Shared memory holds two steps: while one is multiplied, the runs of the next are loaded into registers. A
 * thread computes 4 rows of 8 columns. The kernel is bound by fp32 multiply-adds. fp32 factors are never rounded to
 * TF32, also if the setting cspeed.tf32 allows it. */
#include "device/cuda/experts.cuh"
#include "device/cuda/run.cuh"

namespace
{

enum { THREADS = 128, SIDE = 64, DEPTH = 16, HIGH = 4, PAD = 4 };

using four = ce_pack<float, 4>;
using tile_of_factor = float[DEPTH][SIDE + PAD];

/* A factor of an expert's product. outer: whether the inner dimension is the number of its rows. */
struct factor {
    ce_view view;
    int64_t rows, columns;
    bool outer;
};

__device__ factor factor_of(const void *data, int32_t dtype, ce_experts_rows part, bool outer)
{
    ce_view whole = { (unsigned char *)data, (cs_dtype)dtype };
    return factor{ ce_run_from(whole, part.first), part.rows, part.columns, outer };
}

__device__ ce_range row_range(int64_t row, int64_t rows, int64_t columns)
{
    return row < rows ? ce_range{ row * columns, (row + 1) * columns } : ce_range{ 0, 0 };
}

/* Loads this thread's run of the factor's next tile, which holds the rows or columns of the result from `at` on, and
 * the inner dimension from k on. */
__device__ void load(float *run, const factor &x, int64_t at, int64_t k)
{
    int thread = (int)threadIdx.x;
    int64_t row = x.outer ? k + thread / (SIDE / CE_RUN) : at + thread / (DEPTH / CE_RUN);
    int64_t column = x.outer ? at + thread % (SIDE / CE_RUN) * CE_RUN : k + thread % (DEPTH / CE_RUN) * CE_RUN;
    ce_run_read(run, x.view, row * x.columns + column, row_range(row, x.rows, x.columns));
}

/* Stores the run that `load` has loaded. */
__device__ void put(tile_of_factor &tile, const float *run, bool outer)
{
    int thread = (int)threadIdx.x;
#pragma unroll
    for (int i = 0; i < CE_RUN; i++)
        if (outer)
            tile[thread / (SIDE / CE_RUN)][thread % (SIDE / CE_RUN) * CE_RUN + i] = run[i];
        else
            tile[thread % (DEPTH / CE_RUN) * CE_RUN + i][thread / (DEPTH / CE_RUN)] = run[i];
}

/* Returns the first row of the tile that this thread computes; column_of returns the first column. */
__device__ int row_of()
{
    return (int)threadIdx.x / (SIDE / CE_RUN) * HIGH;
}

__device__ int column_of()
{
    return (int)threadIdx.x % (SIDE / CE_RUN) * CE_RUN;
}

__device__ void multiply(float (&c)[HIGH][CE_RUN], const tile_of_factor &a, const tile_of_factor &b)
{
#pragma unroll
    for (int k = 0; k < DEPTH; k++) {
        four left = *reinterpret_cast<const four *>(&a[k][row_of()]), right[2];
        right[0] = *reinterpret_cast<const four *>(&b[k][column_of()]);
        right[1] = *reinterpret_cast<const four *>(&b[k][column_of() + 4]);
#pragma unroll
        for (int i = 0; i < HIGH * CE_RUN; i++)
            c[i / CE_RUN][i % CE_RUN] += left.element[i / CE_RUN] * right[i % CE_RUN / 4].element[i % 4];
    }
}

__device__ void store(const ce_experts_job &job, const ce_experts_rows &part, const ce_experts_tile &tile,
                      float (&c)[HIGH][CE_RUN])
{
    ce_view out = ce_run_from(ce_view{ static_cast<unsigned char *>(job.c), (cs_dtype)job.to }, part.first);
#pragma unroll
    for (int i = 0; i < HIGH; i++) {
        int64_t row = tile.row + row_of() + i, at = row * part.columns + tile.column + column_of();
        ce_range within = row_range(row, part.rows, part.columns);
        float old[CE_RUN] = {};
        if (job.add)
            ce_run_read(old, out, at, within);
#pragma unroll
        for (int j = 0; j < CE_RUN; j++)
            c[i][j] += old[j];
        ce_run_store(out, at, within, c[i]);
    }
}

__global__ void __launch_bounds__(THREADS) multiply_plain(ce_experts_job job)
{
    CE_SHARED __align__(16) tile_of_factor a_tiles[2], b_tiles[2];
    ce_experts_tile tile;
    float c[HIGH][CE_RUN] = {}, left[CE_RUN], right[CE_RUN];
    if (!ce_experts_find(&tile, job, SIDE, SIDE))
        return;
    ce_experts_rows own = ce_experts_own(job, tile, job.sums ? job.c_columns : job.b_columns);
    ce_experts_rows slots = ce_experts_slots(tile, job.sums ? job.b_columns : job.c_columns);
    factor a = factor_of(job.a, job.from, ce_experts_slots(tile, job.a_columns), job.sums);
    factor b = factor_of(job.b, job.from, job.sums ? slots : own, !job.b_inner);
    int64_t depth = a.outer ? a.rows : a.columns;
    for (int64_t k = -DEPTH; k < depth; k += DEPTH) {
        int now = (int)(k / DEPTH & 1), next = now ^ 1;
        if (k + DEPTH < depth) {
            load(left, a, tile.row, k + DEPTH);
            load(right, b, tile.column, k + DEPTH);
        }
        if (k >= 0)
            multiply(c, a_tiles[now], b_tiles[now]);
        if (k + DEPTH < depth) {
            put(a_tiles[next], left, a.outer);
            put(b_tiles[next], right, b.outer);
        }
        __syncthreads();
    }
    store(job, job.sums ? own : slots, tile, c);
}

} // namespace

void ce_experts_plain(cudaStream_t stream, const ce_experts_job &job)
{
    ce_launch(stream, (ce_shape{ ce_experts_grid(job, SIDE, SIDE), dim3(THREADS) }), multiply_plain, job);
}
