/* dora_norms.cu - the norms that DoRA divides by: for each output, the Euclidean norm of its weights in W + scale B A.
 *
 * A block computes a tile of W + scale B A in registers, and stores partial sums of its squares. columns.cu adds the
 * partial sums of the tiles, and a last kernel takes the square roots. W is read once. The first kernel is bound by
 * reading W if the adapter's rank is low: a warp loads its part of W, 16 rows of 64 columns, before it multiplies the
 * factors.
 *
 * Tensor cores multiply the factors: they multiply bf16 numbers exactly and add in fp32. A factor of another type is
 * the sum of two (fp16) or three (fp32) bf16 numbers, its parts. The product of two factors is then the sum of the
 * products of their parts; products below about 2^-26 of the whole are left out. So a pair of factors becomes 1, 4 or 6
 * pairs of bf16 numbers, and the norms of fp32 tensors are as accurate as with products in fp32. */
#include "device/cuda/columns.cuh"
#include "device/cuda/tile.cuh"

/* A tile has ROWS rows and COLUMNS columns of W as it is stored. A warp computes one band of 16 rows, and WIDTH columns
 * of it in groups of 32. The products of up to DEPTH pairs are added before the next pairs are loaded; the number of
 * inner indexes that are loaded at a time is a multiple of STEP, and so is the number of pairs. */
enum { ROWS = 64, COLUMNS = 128, DEPTH = 96, STEP = 16, WARPS = 8, THREADS = WARPS * CE_WARP };
enum { BANDS = ROWS / 16, WIDTH = COLUMNS / (WARPS / BANDS), GROUP = 32, GROUPS = WIDTH / GROUP };
enum { STRIDE = ce_tile_stride<DEPTH>, PARTS = 3, MAX_PAIRS = 6 };

/* A or B. Each row or column of W, a line here, has `rank` factors. If `by_line` is true, the factors of a line are a
 * row of the matrix, otherwise a column. */
struct dora_factors {
    ce_view matrix;
    int64_t rows, columns;
    int by_line;
};

struct dora_norms_job {
    ce_view weight;
    dora_factors of_rows, of_columns;
    float *partial;
    int64_t rows, columns, rank;
    float scale;
    int pairs; /* number of pairs of bf16 numbers that a pair of factors becomes */
};

/* The factors of a tile's lines as pairs of bf16 numbers. The columns have the order of column_place. */
struct alignas(16) dora_norms_shared {
    bf16 of_rows[ROWS * STRIDE], of_columns[COLUMNS * STRIDE];
    float sums[BANDS][COLUMNS];
};

/* The position of the block's tile in W, and of this lane's elements in the tile. */
struct dora_place {
    int64_t row, column;
    int band, half, group_row, group_lane;
};

static __device__ dora_place place_of(const dora_norms_job &job)
{
    int64_t across = ce_divide_up(job.columns, COLUMNS), tile = blockIdx.x;
    int lane = ce_lane(), warp = ce_warp();
    return dora_place{ tile / across * ROWS, tile % across * COLUMNS, warp % BANDS, warp / BANDS, lane / 4, lane % 4 };
}

/* Returns the column of the product of tensor cores that computes a column of the tile. The order of columns within a
 * group of 32 is such that the eight results of a lane are consecutive columns of W, which it can load at once. */
static __device__ int column_place(int column)
{
    int in_group = column % GROUP, lane = in_group / CE_RUN, element = in_group % CE_RUN;
    return column / GROUP * GROUP + element / 2 * 8 + lane * 2 + element % 2;
}

/* Stores a factor's part of each pair. The products of the parts with the numbers p and q have about 2^(-9 (p + q)) of
 * the size of the whole product; the first `pairs` pairs include all products that count for the types. */
template <bool of_rows> static __device__ void store_parts(bf16 *to, float factor, int pairs)
{
    constexpr int part_of_row[MAX_PAIRS] = { 0, 0, 1, 1, 0, 2 }, part_of_column[MAX_PAIRS] = { 0, 1, 0, 1, 2, 0 };
    bf16 part[PARTS];
#pragma unroll
    for (int i = 0; i < PARTS; i++) {
        part[i] = ce_narrow<bf16>(factor);
        factor -= ce_wide(part[i]);
    }
#pragma unroll
    for (int i = 0; i < MAX_PAIRS; i++)
        if (i < pairs)
            to[i] = part[of_rows ? part_of_row[i] : part_of_column[i]];
}

/* Loads `count` factors, from inner index `inner` on, of `lines` lines, from `line` on. Factors outside of the matrix
 * are 0. */
template <int lines, bool of_rows>
static __device__ void load_factors(bf16 *to, const dora_factors &from, int64_t line, int64_t inner, int count,
                                    int pairs)
{
    int rows = from.by_line ? lines : count, columns = from.by_line ? count : lines;
    int64_t first_row = from.by_line ? line : inner, first_column = from.by_line ? inner : line;
    for (int i = (int)threadIdx.x; i < rows * columns / CE_RUN; i += THREADS) {
        int row = i % rows, column = i / rows * CE_RUN;
        ce_range within = { 0, first_row + row < from.rows ? from.columns : 0 };
        float values[CE_RUN];
        ce_run_read(values, ce_run_from(from.matrix, (first_row + row) * from.columns), first_column + column, within);
#pragma unroll
        for (int k = 0; k < CE_RUN; k++) {
            int own_line = from.by_line ? row : column + k, own_inner = from.by_line ? column + k : row;
            int at = of_rows ? own_line : column_place(own_line);
            store_parts<of_rows>(to + at * STRIDE + own_inner * pairs, values[k], pairs);
        }
    }
}

/* Adds the products of `depth` pairs to the warp's part of B A. */
static __device__ void multiply_pairs(float (&c)[WIDTH / 8][4], const dora_norms_shared *shared, int depth,
                                      const dora_place &at)
{
    int lane = ce_lane();
    const bf16 *rows = shared->of_rows + (at.band * 16 + lane % 16) * STRIDE + lane / 16 * 8;
    const bf16 *columns = shared->of_columns + (at.half * WIDTH + lane / 16 * 8 + lane % 8) * STRIDE + lane / 8 % 2 * 8;
    for (int k = 0; k < depth; k += 16) {
        uint32_t left[4], right[4];
        ce_tensor_load(left, rows + k);
#pragma unroll
        for (int n = 0; n < WIDTH; n += 16) {
            ce_tensor_load(right, columns + n * STRIDE + k);
            ce_tensor_multiply<bf16>(c[n / 8], left, right[0], right[1]);
            ce_tensor_multiply<bf16>(c[n / 8 + 1], left, right[2], right[3]);
        }
    }
}

/* Computes the warp's part of B A. */
static __device__ void multiply_factors(float (&c)[WIDTH / 8][4], dora_norms_shared *shared, const dora_norms_job &job,
                                        const dora_place &at)
{
    int most = DEPTH / job.pairs / STEP * STEP;
    for (int64_t inner = 0; inner < job.rank; inner += most) {
        int64_t left = ce_round_up(job.rank - inner, STEP);
        int count = left < most ? (int)left : most;
        __syncthreads();
        load_factors<ROWS, true>(shared->of_rows, job.of_rows, at.row, inner, count, job.pairs);
        load_factors<COLUMNS, false>(shared->of_columns, job.of_columns, at.column, inner, count, job.pairs);
        __syncthreads();
        multiply_pairs(c, shared, count * job.pairs, at);
    }
}

/* Loads row `group_row` + 8 `lower` of the warp's band: the lane's eight columns of a group of 32. */
static __device__ ce_run load_weights(const dora_norms_job &job, const dora_place &at, int lower, int group)
{
    int64_t row = at.row + at.band * 16 + lower * 8 + at.group_row;
    int64_t column = at.column + at.half * WIDTH + group * GROUP + at.group_lane * CE_RUN;
    return ce_run_load(ce_run_from(job.weight, row * job.columns), column,
                       ce_range{ 0, row < job.rows ? job.columns : 0 });
}

/* Adds the lanes' sums of squares over the tile, and stores them as partial sums of the outputs. `sum` has the sums of
 * the lane's two rows if outputs are rows of W, otherwise of its columns. */
template <bool by_row, int count>
static __device__ void store_sums(float (&sum)[count], dora_norms_shared *shared, const dora_norms_job &job,
                                  const dora_place &at)
{
    constexpr int lines = by_row ? ROWS : COLUMNS, parts = by_row ? WARPS / BANDS : BANDS;
#pragma unroll
    for (int i = 0; i < count; i++) {
#pragma unroll
        for (int apart = by_row ? 1 : 4; apart < (by_row ? 4 : CE_WARP); apart *= 2)
            sum[i] += __shfl_xor_sync(0xffffffffu, sum[i], apart);
        int row = at.band * 16 + i * 8 + at.group_row;
        int column = at.half * WIDTH + i / CE_RUN * GROUP + at.group_lane * CE_RUN + i % CE_RUN;
        if ((by_row ? at.group_lane : at.group_row) == 0)
            shared->sums[by_row ? at.half : at.band][by_row ? row : column] = sum[i];
    }
    __syncthreads();
    int64_t output = (by_row ? at.row : at.column) + threadIdx.x, outputs = by_row ? job.rows : job.columns;
    if ((int)threadIdx.x >= lines || output >= outputs)
        return;
    float all = 0;
    for (int i = 0; i < parts; i++)
        all += shared->sums[i][threadIdx.x];
    job.partial[(by_row ? at.column / COLUMNS : at.row / ROWS) * outputs + output] = all;
}

/* Computes the partial sums of one tile. `by_row` tells that the outputs are rows of W. */
template <bool by_row> static __global__ void __launch_bounds__(THREADS, 2) norm_tiles(dora_norms_job job)
{
    CE_SHARED dora_norms_shared shared;
    dora_place at = place_of(job);
    ce_run weights[2][GROUPS];
#pragma unroll
    for (int i = 0; i < 2 * GROUPS; i++)
        weights[i % 2][i / 2] = load_weights(job, at, i % 2, i / 2);
    float c[WIDTH / 8][4] = {}, sum[by_row ? 2 : GROUPS * CE_RUN] = {};
    multiply_factors(c, &shared, job, at);
#pragma unroll
    for (int i = 0; i < 2 * GROUPS; i++) {
        int lower = i % 2, group = i / 2;
        float w[CE_RUN];
        ce_run_widen(w, weights[lower][group], job.weight.dtype);
#pragma unroll
        for (int k = 0; k < CE_RUN; k++) {
            float value = w[k] + job.scale * c[group * 4 + k / 2][2 * lower + k % 2];
            sum[by_row ? lower : group * CE_RUN + k] += value * value;
        }
    }
    store_sums<by_row>(sum, &shared, job, at);
}

static __global__ void __launch_bounds__(THREADS) take_roots(float *norms, int64_t count)
{
    int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count)
        norms[i] = sqrtf(norms[i]);
}

static int pairs_of(cs_dtype a, cs_dtype b)
{
    if (a == CS_F32 || b == CS_F32)
        return MAX_PAIRS;
    return a == CS_BF16 && b == CS_BF16 ? 1 : 4;
}

extern "C" void ce_cuda_dora_norms(cs_device *device, cs_tensor norms, const cs_dora *dora)
{
    bool by_row = dora->layout == CS_OUT_IN;
    dora_factors a = { ce_run_view(dora->a), cs_rows(dora->a), cs_columns(dora->a), false };
    dora_factors b = { ce_run_view(dora->b), cs_rows(dora->b), cs_columns(dora->b), true };
    dora_norms_job job = {};
    job.weight = ce_run_view(dora->weight);
    job.of_rows = by_row ? b : a;
    job.of_columns = by_row ? a : b;
    job.rows = cs_rows(dora->weight);
    job.columns = cs_columns(dora->weight);
    job.rank = cs_rows(dora->a);
    job.scale = dora->scale;
    job.pairs = pairs_of(dora->a.dtype, dora->b.dtype);
    int64_t down = ce_divide_up(job.rows, ROWS), across = ce_divide_up(job.columns, COLUMNS),
            parts = by_row ? across : down;
    job.partial =
        (float *)ce_cuda_workspace(device, CE_CUDA_REDUCTION, (size_t)(parts * cs_count(norms)) * sizeof(float));
    ce_launch(ce_cuda_compute(device), ce_shape{ dim3((unsigned)(down * across)), dim3(THREADS) },
              by_row ? norm_tiles<true> : norm_tiles<false>, job);
    norms.overwrite = true;
    ce_columns_reduce(device, norms, job.partial, parts);
    ce_launch(ce_cuda_compute(device),
              ce_shape{ dim3((unsigned)ce_divide_up(cs_count(norms), THREADS)), dim3(THREADS) }, take_roots,
              (float *)norms.data, cs_count(norms));
}
