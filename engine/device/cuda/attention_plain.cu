/* attention_plain.cu - attention forward and backward without tensor cores: for fp32, and for heads of any width.
 *
 * The method is that of attention.cu and attention_grad.cu: a block computes a tile of rows of one head, and iterates
 * over tiles of keys (or of queries). No block adds to the output of another block, so results are deterministic. Tiles
 * are 64 x 64; each thread computes 4 x 4 elements of a tile. Operands are copied to shared memory 16 columns at a
 * time. If heads have more than 128 columns, the kernel computes 128 columns of the result at a time, and recomputes
 * the scores for each of these ranges of columns. The kernels are bound by the rate of fp32 multiply-adds and by shared
 * memory. */
#include "device/cuda/attention.cuh"

namespace
{

enum { THREADS = 256, TILE = 64, SLAB = 16, ACROSS = 16, SIDE = 4, SPANS = 2, CHUNK = SPANS * TILE };

/* The elements of a tile that a thread computes: rows 4 * (thread / 16) + r, columns thread % 16 + 16 * c. */
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

/* The rows of one head of one sample. view(row, column) returns an element as fp32, or 0 outside the head. If pack > 1,
 * `pack` adjacent heads of one row of the matrix count as `pack` rows. */
template <typename T> struct rows_view {
    const T *head;
    int64_t stride;
    int count, width, pack;

    __device__ float operator()(int row, int column) const
    {
        if (row >= count || column >= width)
            return 0;
        return ce_wide(head[row / pack * stride + row % pack * width + column]);
    }
};

template <typename T>
__device__ inline rows_view<T> view_rows(const ce_attention_job &job, const void *matrix, int64_t stride, int64_t row,
                                         int head, int rows, int pack = 1)
{
    const T *first = static_cast<const T *>(matrix) + row * stride + (int64_t)head * job.width;
    return { first, stride, rows * pack, job.width, pack };
}

/* Computes sum = a b^T for a tile: the rows of a from row i on, and the rows of b from row j on. */
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

/* Computes sums += p b for a tile: the rows of b from row j on, and columns [from, from + CHUNK). */
template <typename B>
__device__ inline void multiply_add_rows(part (&sums)[SPANS], slabs &shared, const tile &p, const B &b, int j, int from)
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

/* Returns the sum over the 16 threads that share a row. max_across returns the maximum over these threads. */
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

/* Returns the factor of a score. If the scores are capped, cap_scores computes what the factor multiplies. */
__device__ inline float factor_of(const ce_attention_job &job)
{
    return job.cap > 0 ? job.cap : job.scale;
}

/* Replaces products of queries and keys by their tanh, if the scores are capped. */
__device__ inline void cap_scores(part &scores, const ce_attention_job &job)
{
    if (job.cap > 0)
        for (int n = 0; n < SIDE * SIDE; n++)
            scores[n / SIDE][n % SIDE] = tanhf(scores[n / SIDE][n % SIDE] * job.into);
}

__device__ inline bool is_kept(const uint8_t *bits, int row, int column)
{
    return bits[row * (TILE / 8) + column / 8] >> column % 8 & 1;
}

/* Writes the dropout mask of a tile to `bits`, if the job has dropout. The tile begins at query row t and key j. */
__device__ inline void make_dropout_mask(uint8_t *bits, const ce_attention_job &job, int sample, int head, int t, int j)
{
    if (!job.threshold)
        return;
    ce_attention_dropout_mask<TILE>(bits, job, sample, head, t, j, TILE);
    __syncthreads();
}

/* ---- forward ---- */

struct softmax_rows {
    int position[SIDE], first[SIDE];
    float max[SIDE], sum[SIDE]; /* `max`: the running maximum of scaled scores; `sum`: the sum of e^(score - max) */
};

/* Online softmax: applies the causal mask, updates the rows' maxima, replaces scores by e^(score - max), and rescales
 * the sums and y to the new maxima. */
__device__ inline void update_softmax(part &scores, part (&y)[SPANS], softmax_rows &rows, float scale, int key)
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
__device__ inline void write_rows(const ce_attention_job &job, const ce_attention_work &work, int from, int column,
                                  const part (&y)[SPANS], const softmax_rows &rows)
{
    for (int r = 0; r < SIDE; r++) {
        int row = from + row_of(r);
        if (row >= job.length * job.pack)
            continue;
        int t = row / job.pack, head = work.head * job.pack + row % job.pack;
        int64_t at = ce_attention_row(job, work.sample, head, t);
        int64_t to = ((int64_t)work.sample * job.length + t) * job.y_stride + (int64_t)head * job.width;
        float sum = rows.sum[r], share = sum == 0 ? 0 : job.keep_scale / sum;
        at += (int64_t)work.split * job.samples * job.queries * job.length;
        if (job.lse && column == 0 && column_of(0) == 0)
            job.lse[at] = sum == 0 ? -INFINITY : rows.max[r] + logf(sum);
        for (int n = 0; n < SPANS * SIDE; n++) {
            int d = column + n / SIDE * TILE + column_of(n % SIDE);
            if (d >= job.width)
                continue;
            if (job.parts)
                job.parts[at * job.width + d] = y[n / SIDE][r][n % SIDE] * share;
            else
                static_cast<T *>(job.y)[to + d] = ce_narrow<T>(y[n / SIDE][r][n % SIDE] * share);
        }
    }
}

template <typename T> __global__ void __launch_bounds__(THREADS, 1) forward(ce_attention_job job)
{
    CE_SHARED slabs shared;
    CE_SHARED tile p;
    CE_SHARED uint8_t bits[TILE * TILE / 8];

    int whole = job.length * job.pack, tiles = (whole + TILE - 1) / TILE;
    ce_attention_work work = ce_attention_work_of(blockIdx.x, tiles, job.queries / job.pack, job.samples);
    int from = work.tile * TILE, to = min(from + TILE, whole), before = job.seen - job.length;
    int key_head = work.head * job.pack / job.group, column = (int)blockIdx.y * CHUNK;
    int64_t row = (int64_t)work.sample * job.length, key_row = (int64_t)work.sample * job.seen;
    auto q = view_rows<T>(job, job.q, job.q_stride, row, work.head * job.pack, job.length, job.pack);
    auto k = view_rows<T>(job, job.k, job.k_stride, key_row, key_head, job.seen);
    auto v = view_rows<T>(job, job.v, job.k_stride, key_row, key_head, job.seen);
    int begin = ce_attention_first(job, work.sample, from / job.pack) / TILE;
    int count = (before + (to - 1) / job.pack) / TILE + 1 - begin;
    int end = begin + (int)((int64_t)count * (work.split + 1) / job.splits);
    begin += (int)((int64_t)count * work.split / job.splits);

    softmax_rows rows;
    part y[SPANS] = {}, scores;
    for (int r = 0; r < SIDE; r++) {
        int t = min((from + row_of(r)) / job.pack, job.length - 1);
        rows.position[r] = before + t;
        rows.first[r] = ce_attention_first(job, work.sample, t);
        rows.max[r] = -INFINITY;
        rows.sum[r] = 0;
    }
    for (int j = begin * TILE; j < end * TILE; j += TILE) {
        multiply_rows(scores, shared, q, from, k, j);
        cap_scores(scores, job);
        update_softmax(scores, y, rows, factor_of(job), j);
        make_dropout_mask(bits, job, work.sample, work.head, from, j);
        for (int n = 0; n < SIDE * SIDE; n++) {
            int r = row_of(n / SIDE), c = column_of(n % SIDE);
            bool dropped = job.threshold && !is_kept(bits, r, c);
            p.element[r][c] = dropped ? 0 : scores[n / SIDE][n % SIDE];
        }
        multiply_add_rows(y, shared, p, v, j, column);
    }
    write_rows<T>(job, work, from, column, y, rows);
}

/* ---- backward ---- */

template <typename T>
__device__ inline void write_grad(void *matrix, int64_t stride, int64_t row, int64_t begin, int from, int rows,
                                  int column, int width, const part (&sums)[SPANS], float factor)
{
    for (int r = 0; r < SIDE; r++)
        for (int n = 0; n < SPANS * SIDE && from + row_of(r) < rows; n++) {
            int d = column + n / SIDE * TILE + column_of(n % SIDE);
            if (d < width)
                static_cast<T *>(matrix)[(row + from + row_of(r)) * stride + begin + d] =
                    ce_narrow<T>(sums[n / SIDE][r][n % SIDE] * factor);
        }
}

/* Computes the gradient of one score. Returns P of query t and key j after dropout, and replaces *dp, which holds dP,
 * by dS = P (dP - delta). P and dS are 0 if the mask hides key j from query t. */
__device__ inline float score_grad(float score, float *dp, const ce_attention_job &job, int sample, int head, int t,
                                   int j, bool kept)
{
    float p = 0, factor = kept ? job.keep_scale : 0;
    if (t < job.length && j <= t && j >= ce_attention_first(job, sample, t)) {
        int64_t at = ce_attention_row(job, sample, head, t);
        p = expf(score * factor_of(job) - job.lse[at]);
        *dp = p * (*dp * factor - job.delta[at]);
        if (job.cap > 0)
            *dp *= 1 - score * score;
    } else {
        *dp = 0;
    }
    return p * factor;
}

template <typename T> __global__ void __launch_bounds__(THREADS, 1) grad_queries(ce_attention_job job)
{
    CE_SHARED slabs shared;
    CE_SHARED tile ds;
    CE_SHARED uint8_t bits[TILE * TILE / 8];

    int tiles = (job.length + TILE - 1) / TILE, column = (int)blockIdx.y * CHUNK;
    ce_attention_work work = ce_attention_work_of(blockIdx.x, tiles, job.queries, job.samples);
    int from = work.tile * TILE, to = min(from + TILE, job.length), key_head = work.head / job.group;
    int64_t row = (int64_t)work.sample * job.length;
    auto q = view_rows<T>(job, job.q, job.q_stride, row, work.head, job.length);
    auto dy = view_rows<T>(job, job.dy, job.y_stride, row, work.head, job.length);
    auto k = view_rows<T>(job, job.k, job.k_stride, row, key_head, job.length);
    auto v = view_rows<T>(job, job.v, job.k_stride, row, key_head, job.length);
    part dq[SPANS] = {}, scores, dscores;
    for (int j = ce_attention_first(job, work.sample, from) / TILE * TILE; j < to; j += TILE) {
        make_dropout_mask(bits, job, work.sample, work.head, from, j);
        multiply_rows(scores, shared, q, from, k, j);
        cap_scores(scores, job);
        multiply_rows(dscores, shared, dy, from, v, j);
        for (int n = 0; n < SIDE * SIDE; n++) {
            int r = row_of(n / SIDE), c = column_of(n % SIDE);
            float *dp = &dscores[n / SIDE][n % SIDE];
            score_grad(scores[n / SIDE][n % SIDE], dp, job, work.sample, work.head, from + r, j + c,
                       !job.threshold || is_kept(bits, r, c));
            ds.element[r][c] = *dp;
        }
        multiply_add_rows(dq, shared, ds, k, j, column);
    }
    write_grad<T>(job.dq, job.q_stride, row, (int64_t)work.head * job.width, from, job.length, column, job.width, dq,
                  job.scale);
}

/* Computes dk and dv. Tiles of scores are transposed: their rows are keys. */
template <typename T> __global__ void __launch_bounds__(THREADS, 1) grad_keys(ce_attention_job job)
{
    CE_SHARED slabs shared;
    CE_SHARED tile p, ds;
    CE_SHARED uint8_t bits[TILE * TILE / 8];

    int tiles = (job.length + TILE - 1) / TILE, column = (int)blockIdx.y * CHUNK;
    ce_attention_work work = ce_attention_work_of(blockIdx.x, tiles, job.queries / job.group, job.samples);
    /* The earlier a key, the more queries see it. So the tiles with the first keys get the lowest block indices. */
    work.tile = tiles - 1 - work.tile;
    int from = work.tile * TILE, to = min(from + TILE, job.length);
    int end = ce_attention_end(job, work.sample, to);
    int64_t row = (int64_t)work.sample * job.length;
    auto k = view_rows<T>(job, job.k, job.k_stride, row, work.head, job.length);
    auto v = view_rows<T>(job, job.v, job.k_stride, row, work.head, job.length);
    part dk[SPANS] = {}, dv[SPANS] = {}, scores, dscores;
    for (int head = work.head * job.group; head < (work.head + 1) * job.group; head++) {
        auto q = view_rows<T>(job, job.q, job.q_stride, row, head, job.length);
        auto dy = view_rows<T>(job, job.dy, job.y_stride, row, head, job.length);
        for (int t = from; t < end; t += TILE) {
            make_dropout_mask(bits, job, work.sample, head, t, from);
            multiply_rows(scores, shared, k, from, q, t);
            cap_scores(scores, job);
            multiply_rows(dscores, shared, v, from, dy, t);
            for (int n = 0; n < SIDE * SIDE; n++) {
                int r = row_of(n / SIDE), c = column_of(n % SIDE);
                float *dp = &dscores[n / SIDE][n % SIDE];
                p.element[r][c] = score_grad(scores[n / SIDE][n % SIDE], dp, job, work.sample, head, t + c, from + r,
                                             !job.threshold || is_kept(bits, c, r));
                ds.element[r][c] = *dp;
            }
            multiply_add_rows(dv, shared, p, dy, t, column);
            multiply_add_rows(dk, shared, ds, q, t, column);
        }
    }
    int64_t begin = (int64_t)work.head * job.width;
    write_grad<T>(job.dk, job.k_stride, row, begin, from, job.length, column, job.width, dk, job.scale);
    write_grad<T>(job.dv, job.k_stride, row, begin, from, job.length, column, job.width, dv, 1);
}

/* Returns the launch configuration for `heads` heads of `rows` rows each. */
ce_shape shape_of(const ce_attention_job *job, int64_t rows, int64_t heads)
{
    int64_t blocks = ce_divide_up(rows, TILE) * heads * job->samples * job->splits;
    CE_ASSERT(blocks <= INT32_MAX);
    return { dim3((unsigned)blocks, (unsigned)ce_divide_up(job->width, CHUNK)), dim3(THREADS) };
}

} // namespace

void ce_attention_plain(cudaStream_t stream, const ce_attention_job *job, cs_dtype dtype)
{
    ce_shape shape = shape_of(job, (int64_t)job->length * job->pack, job->queries / job->pack);
    ce_by_type(dtype, [&](auto zero) { ce_launch(stream, shape, forward<decltype(zero)>, *job); });
}

void ce_attention_plain_grad(cudaStream_t stream, const ce_attention_job *job, cs_dtype dtype)
{
    ce_by_type(dtype, [&](auto zero) {
        using T = decltype(zero);
        ce_launch(stream, shape_of(job, job->length, job->queries / job->group), grad_keys<T>, *job);
        ce_launch(stream, shape_of(job, job->length, job->queries), grad_queries<T>, *job);
    });
}
