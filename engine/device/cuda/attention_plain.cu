/* attention_plain.cu - attention forward and backward without tensor cores: for fp32, and for heads of any width.
 *
 * As attention.cu and attention_grad.cu: a block has a tile of rows of one head and walks over tiles of the other side;
 * nothing is added to what another block wrote. Tiles are 64 x 64, a thread has 4 x 4 of each; operands pass through
 * shared memory in slabs of 16. Heads wider than 128 columns are computed 128 columns of the result at a time, with the
 * scores again for each. Bound by the rate of fp32's multiply-adds and by shared memory. */
#include "device/cuda/attention.cuh"

namespace
{

enum { THREADS = 256, TILE = 64, SLAB = 16, ACROSS = 16, SIDE = 4, SPANS = 2, CHUNK = SPANS * TILE };

/* A thread's elements of a tile: rows 4 * (thread / 16) + r, columns thread % 16 + 16 * c. */
using part = float[SIDE][SIDE];

struct slabs {
    float left[SLAB][TILE + 1], right[SLAB][TILE + 1];
};

struct tile {
    float element[TILE][TILE + 1];
};

__device__ inline int row_of(int r)
{
    return (int)threadIdx.x / ACROSS * SIDE + r;
}

__device__ inline int column_of(int c)
{
    return (int)threadIdx.x % ACROSS + ACROSS * c;
}

/* Rows of one head of one sample, `pack` heads beside each other in each. */
template <typename T> struct rows_view {
    const T *head;
    int64_t wide;
    int count, width, pack;

    __device__ float operator()(int row, int column) const
    {
        if (row >= count || column >= width)
            return 0;
        return cs_wide(head[row / pack * wide + row % pack * width + column]);
    }
};

template <typename T>
__device__ inline rows_view<T> view_rows(const cs_attention_job &job, const void *matrix, int64_t wide, int64_t row,
                                         int head, int rows, int pack = 1)
{
    const T *first = static_cast<const T *>(matrix) + row * wide + (int64_t)head * job.width;
    return { first, wide, rows * pack, job.width, pack };
}

/* sum = a b^T of the rows from i and from j on. */
template <typename A, typename B>
__device__ inline void multiply_rows(part &sum, slabs &shared, const A &a, int i, const B &b, int j)
{
    for (int n = 0; n < SIDE * SIDE; n++)
        sum[n / SIDE][n % SIDE] = 0;
    for (int from = 0; from < a.width; from += SLAB) {
        __syncthreads();
        for (int n = (int)threadIdx.x; n < TILE * SLAB; n += THREADS) {
            shared.left[n % SLAB][n / SLAB] = a(i + n / SLAB, from + n % SLAB);
            shared.right[n % SLAB][n / SLAB] = b(j + n / SLAB, from + n % SLAB);
        }
        __syncthreads();
        for (int k = 0; k < SLAB; k++)
            for (int n = 0; n < SIDE * SIDE; n++)
                sum[n / SIDE][n % SIDE] += shared.left[k][row_of(n / SIDE)] * shared.right[k][column_of(n % SIDE)];
    }
}

/* sums += p b, of columns [from, from + CHUNK) of b's rows from j on. p is the block's, and may be set again after. */
template <typename B>
__device__ inline void gather_rows(part (&sums)[SPANS], slabs &shared, const tile &p, const B &b, int j, int from)
{
    for (int span = 0; span < SPANS && from + span * TILE < b.width; span++)
        for (int first = 0; first < TILE; first += SLAB) {
            __syncthreads();
            for (int n = (int)threadIdx.x; n < TILE * SLAB; n += THREADS)
                shared.right[n / TILE][n % TILE] = b(j + first + n / TILE, from + span * TILE + n % TILE);
            __syncthreads();
            for (int k = 0; k < SLAB; k++)
                for (int n = 0; n < SIDE * SIDE; n++)
                    sums[span][n / SIDE][n % SIDE] +=
                        p.element[row_of(n / SIDE)][first + k] * shared.right[k][column_of(n % SIDE)];
        }
    __syncthreads();
}

/* Of the 16 threads that have a row. */
__device__ inline float sum_across(float value)
{
    for (int apart = ACROSS / 2; apart > 0; apart /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, apart);
    return value;
}

__device__ inline float max_across(float value)
{
    for (int apart = ACROSS / 2; apart > 0; apart /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, apart));
    return value;
}

__device__ inline bool is_kept(const uint8_t *bits, int row, int column)
{
    return bits[row * (TILE / 8) + column / 8] >> column % 8 & 1;
}

/* What is kept of the queries from t on and the keys from j on, where something is dropped. */
__device__ inline void draw(uint8_t *bits, const cs_attention_job &job, int sample, int head, int t, int j)
{
    if (!job.threshold)
        return;
    cs_attention_draw<TILE>(bits, job, sample, head, t, j, TILE);
    __syncthreads();
}

/* ---- forward ---- */

struct softmax_rows {
    int position[SIDE], first[SIDE];
    float max[SIDE], sum[SIDE]; /* of scores in base e */
};

/* Scores become powers of e below the row's largest, and sums are brought down to it. */
__device__ inline void soften(part &scores, part (&y)[SPANS], softmax_rows &rows, float scale, int key)
{
    for (int r = 0; r < SIDE; r++) {
        float max = -INFINITY, sum = 0;
        for (int c = 0; c < SIDE; c++) {
            int j = key + column_of(c);
            scores[r][c] = j < rows.first[r] || j > rows.position[r] ? -INFINITY : scores[r][c] * scale;
            max = fmaxf(max, scores[r][c]);
        }
        max = fmaxf(rows.max[r], max_across(max));
        float above = max == -INFINITY ? 0 : max, down = expf(rows.max[r] - above);
        for (int c = 0; c < SIDE; c++)
            sum += scores[r][c] = expf(scores[r][c] - above);
        for (int n = 0; n < SPANS * SIDE; n++)
            y[n / SIDE][r][n % SIDE] *= down;
        rows.sum[r] = rows.sum[r] * down + sum_across(sum);
        rows.max[r] = max;
    }
}

template <typename T>
__device__ inline void write_rows(const cs_attention_job &job, const cs_attention_seat &seat, int from, int column,
                                  const part (&y)[SPANS], const softmax_rows &rows)
{
    for (int r = 0; r < SIDE; r++) {
        int row = from + row_of(r);
        if (row >= job.length * job.pack)
            continue;
        int t = row / job.pack, head = seat.head * job.pack + row % job.pack;
        int64_t at = cs_attention_row(job, seat.sample, head, t);
        int64_t to = ((int64_t)seat.sample * job.length + t) * job.y_wide + (int64_t)head * job.width;
        float sum = rows.sum[r], share = sum == 0 ? 0 : job.kept / sum;
        at += (int64_t)seat.split * job.samples * job.queries * job.length;
        if (job.lse && column == 0 && column_of(0) == 0)
            job.lse[at] = sum == 0 ? -INFINITY : rows.max[r] + logf(sum);
        for (int n = 0; n < SPANS * SIDE; n++) {
            int d = column + n / SIDE * TILE + column_of(n % SIDE);
            if (d >= job.width)
                continue;
            if (job.parts)
                job.parts[at * job.width + d] = y[n / SIDE][r][n % SIDE] * share;
            else
                static_cast<T *>(job.y)[to + d] = cs_narrow<T>(y[n / SIDE][r][n % SIDE] * share);
        }
    }
}

template <typename T> __global__ void __launch_bounds__(THREADS, 1) forward(cs_attention_job job)
{
    CS_SHARED slabs shared;
    CS_SHARED tile p;
    CS_SHARED uint8_t bits[TILE * TILE / 8];

    int whole = job.length * job.pack, tiles = (whole + TILE - 1) / TILE;
    cs_attention_seat seat = cs_attention_sit(blockIdx.x, tiles, job.queries / job.pack, job.samples);
    int from = seat.tile * TILE, to = min(from + TILE, whole), before = job.seen - job.length;
    int key_head = seat.head * job.pack / job.group, column = (int)blockIdx.y * CHUNK;
    int64_t row = (int64_t)seat.sample * job.length, key_row = (int64_t)seat.sample * job.seen;
    auto q = view_rows<T>(job, job.q, job.q_wide, row, seat.head * job.pack, job.length, job.pack);
    auto k = view_rows<T>(job, job.k, job.k_wide, key_row, key_head, job.seen);
    auto v = view_rows<T>(job, job.v, job.k_wide, key_row, key_head, job.seen);
    int begin = cs_attention_first(job, seat.sample, from / job.pack) / TILE;
    int count = (before + (to - 1) / job.pack) / TILE + 1 - begin;
    int end = begin + (int)((int64_t)count * (seat.split + 1) / job.splits);
    begin += (int)((int64_t)count * seat.split / job.splits);

    softmax_rows rows;
    part y[SPANS] = {}, scores;
    for (int r = 0; r < SIDE; r++) {
        int t = min((from + row_of(r)) / job.pack, job.length - 1);
        rows.position[r] = before + t;
        rows.first[r] = cs_attention_first(job, seat.sample, t);
        rows.max[r] = -INFINITY;
        rows.sum[r] = 0;
    }
    for (int j = begin * TILE; j < end * TILE; j += TILE) {
        multiply_rows(scores, shared, q, from, k, j);
        soften(scores, y, rows, job.scale, j);
        draw(bits, job, seat.sample, seat.head, from, j);
        for (int n = 0; n < SIDE * SIDE; n++) {
            int r = row_of(n / SIDE), c = column_of(n % SIDE);
            bool dropped = job.threshold && !is_kept(bits, r, c);
            p.element[r][c] = dropped ? 0 : scores[n / SIDE][n % SIDE];
        }
        gather_rows(y, shared, p, v, j, column);
    }
    write_rows<T>(job, seat, from, column, y, rows);
}

/* ---- backward: P and dS from scores and dP, the sum of rows at hand and of rows that pass by ---- */

template <typename T>
__device__ inline void write_part(void *matrix, int64_t wide, int64_t row, int64_t begin, int from, int rows,
                                  int column, int width, const part (&sums)[SPANS], float factor)
{
    for (int r = 0; r < SIDE; r++)
        for (int n = 0; n < SPANS * SIDE && from + row_of(r) < rows; n++) {
            int d = column + n / SIDE * TILE + column_of(n % SIDE);
            if (d < width)
                static_cast<T *>(matrix)[(row + from + row_of(r)) * wide + begin + d] =
                    cs_narrow<T>(sums[n / SIDE][r][n % SIDE] * factor);
        }
}

/* P of query t and key j, and in place of dP its dS; both 0 where t does not see j. */
__device__ inline float slope(float score, float *dp, const cs_attention_job &job, int sample, int head, int t, int j,
                              bool kept)
{
    float p = 0, factor = kept ? job.kept : 0;
    if (t < job.length && j <= t && j >= cs_attention_first(job, sample, t)) {
        int64_t at = cs_attention_row(job, sample, head, t);
        p = expf(score * job.scale - job.lse[at]);
        *dp = p * (*dp * factor - job.delta[at]);
    } else {
        *dp = 0;
    }
    return p * factor;
}

template <typename T> __global__ void __launch_bounds__(THREADS, 1) grad_queries(cs_attention_job job)
{
    CS_SHARED slabs shared;
    CS_SHARED tile ds;
    CS_SHARED uint8_t bits[TILE * TILE / 8];

    int tiles = (job.length + TILE - 1) / TILE, column = (int)blockIdx.y * CHUNK;
    cs_attention_seat seat = cs_attention_sit(blockIdx.x, tiles, job.queries, job.samples);
    int from = seat.tile * TILE, to = min(from + TILE, job.length), key_head = seat.head / job.group;
    int64_t row = (int64_t)seat.sample * job.length;
    auto q = view_rows<T>(job, job.q, job.q_wide, row, seat.head, job.length);
    auto dy = view_rows<T>(job, job.dy, job.y_wide, row, seat.head, job.length);
    auto k = view_rows<T>(job, job.k, job.k_wide, row, key_head, job.length);
    auto v = view_rows<T>(job, job.v, job.k_wide, row, key_head, job.length);
    part dq[SPANS] = {}, scores, slopes;
    for (int j = cs_attention_first(job, seat.sample, from) / TILE * TILE; j < to; j += TILE) {
        draw(bits, job, seat.sample, seat.head, from, j);
        multiply_rows(scores, shared, q, from, k, j);
        multiply_rows(slopes, shared, dy, from, v, j);
        for (int n = 0; n < SIDE * SIDE; n++) {
            int r = row_of(n / SIDE), c = column_of(n % SIDE);
            float *dp = &slopes[n / SIDE][n % SIDE];
            slope(scores[n / SIDE][n % SIDE], dp, job, seat.sample, seat.head, from + r, j + c,
                  !job.threshold || is_kept(bits, r, c));
            ds.element[r][c] = *dp;
        }
        gather_rows(dq, shared, ds, k, j, column);
    }
    write_part<T>(job.dq, job.q_wide, row, (int64_t)seat.head * job.width, from, job.length, column, job.width, dq,
                  job.scale);
}

/* Tiles are transposed: rows are keys. */
template <typename T> __global__ void __launch_bounds__(THREADS, 1) grad_keys(cs_attention_job job)
{
    CS_SHARED slabs shared;
    CS_SHARED tile p, ds;
    CS_SHARED uint8_t bits[TILE * TILE / 8];

    int tiles = (job.length + TILE - 1) / TILE, column = (int)blockIdx.y * CHUNK;
    cs_attention_seat seat = cs_attention_sit(blockIdx.x, tiles, job.queries / job.group, job.samples);
    seat.tile = tiles - 1 - seat.tile; /* the first keys are seen by most */
    int from = seat.tile * TILE, to = min(from + TILE, job.length);
    int end = cs_attention_end(job, seat.sample, to);
    int64_t row = (int64_t)seat.sample * job.length;
    auto k = view_rows<T>(job, job.k, job.k_wide, row, seat.head, job.length);
    auto v = view_rows<T>(job, job.v, job.k_wide, row, seat.head, job.length);
    part dk[SPANS] = {}, dv[SPANS] = {}, scores, slopes;
    for (int head = seat.head * job.group; head < (seat.head + 1) * job.group; head++) {
        auto q = view_rows<T>(job, job.q, job.q_wide, row, head, job.length);
        auto dy = view_rows<T>(job, job.dy, job.y_wide, row, head, job.length);
        for (int t = from; t < end; t += TILE) {
            draw(bits, job, seat.sample, head, t, from);
            multiply_rows(scores, shared, k, from, q, t);
            multiply_rows(slopes, shared, v, from, dy, t);
            for (int n = 0; n < SIDE * SIDE; n++) {
                int r = row_of(n / SIDE), c = column_of(n % SIDE);
                float *dp = &slopes[n / SIDE][n % SIDE];
                p.element[r][c] = slope(scores[n / SIDE][n % SIDE], dp, job, seat.sample, head, t + c, from + r,
                                        !job.threshold || is_kept(bits, c, r));
                ds.element[r][c] = *dp;
            }
            gather_rows(dv, shared, p, dy, t, column);
            gather_rows(dk, shared, ds, q, t, column);
        }
    }
    int64_t begin = (int64_t)seat.head * job.width;
    write_part<T>(job.dk, job.k_wide, row, begin, from, job.length, column, job.width, dk, job.scale);
    write_part<T>(job.dv, job.k_wide, row, begin, from, job.length, column, job.width, dv, 1);
}

/* `heads` tiles of rows each, `rows` rows of a head. */
cs_shape shape_of(const cs_attention_job *job, int64_t rows, int64_t heads)
{
    int64_t blocks = (rows + TILE - 1) / TILE * heads * job->samples * job->splits;
    CS_ASSERT(blocks <= INT32_MAX);
    return { dim3((unsigned)blocks, (unsigned)((job->width + CHUNK - 1) / CHUNK)), dim3(THREADS) };
}

} // namespace

void cs_attention_plain(cudaStream_t stream, const cs_attention_job *job, cs_dtype dtype)
{
    cs_shape shape = shape_of(job, (int64_t)job->length * job->pack, job->queries / job->pack);
    cs_by_type(dtype, [&](auto zero) { cs_launch(stream, shape, forward<decltype(zero)>, *job); });
}

void cs_attention_plain_grad(cudaStream_t stream, const cs_attention_job *job, cs_dtype dtype)
{
    cs_by_type(dtype, [&](auto zero) {
        using T = decltype(zero);
        cs_launch(stream, shape_of(job, job->length, job->queries / job->group), grad_keys<T>, *job);
        cs_launch(stream, shape_of(job, job->length, job->queries), grad_queries<T>, *job);
    });
}
