/* embed.cu - embedding of tokens and positions, forward and backward.
 *
 * Forward copies rows of the tables. Backward adds rows of dy to rows of a table, in an order that depends only on the
 * tokens, so that results are deterministic. The rows are sorted by token, rows of one token by position, and the
 * sorted list is cut into pieces of 32 rows. A warp processes a piece and adds each sequence of equal tokens to the
 * table. If a sequence crosses a border between pieces, each of these pieces stores a partial sum instead; a second
 * kernel adds the partial sums of each such sequence in order. Therefore many warps share the work even if one token
 * fills the batch. Positions are processed in the same way. If the table has only some of the tokens, the other tokens
 * have the greatest key, so that pieces at the end of the list have no work. The kernels are bound by reading dy and,
 * for few tokens, by launching the sort. */
#include "device/cuda/run.cuh"
#include "device/cuda/sort.cuh"

enum { PIECE = 32, TOGETHER = 4, WARPS = 4, TILE = CE_WARP * CE_RUN, KEY_THREADS = 256 };

struct embed_job {
    ce_view y, table, positions; /* if `positions` is absent, there is no position embedding */
    /* `starts`: for each row, the first position of its document in the sample; NULL: 0 for all rows */
    const int32_t *tokens, *starts;
    int64_t rows, columns, length, vocabulary;
    int64_t first; /* the token that is row 0 of the table, or CS_WHOLE_TABLE */
};

/* Returns the row of the table for the token of a row, or job.vocabulary if the token is a row of another rank's table.
 * A token outside of a whole table is a fatal error, as on the CPU. */
static __device__ int64_t entry_at(const embed_job &job, int64_t row)
{
    int64_t token = job.tokens[row], entry = token - job.first;
    if (job.first == CS_WHOLE_TABLE) {
        CE_KERNEL_ASSERT(token >= 0 && token < job.vocabulary);
        return token;
    }
    CE_KERNEL_ASSERT(token >= 0);
    return entry >= 0 && entry < job.vocabulary ? entry : job.vocabulary;
}

/* Returns the position of a row in its document if `starts` is given, otherwise in its sample. */
static __device__ int64_t position_of(const embed_job &job, int64_t row)
{
    int64_t position = row % job.length;
    return job.starts ? position - job.starts[row] : position;
}

static __global__ void __launch_bounds__(CE_RUN_THREADS) embed_rows(embed_job job)
{
    ce_range all = { 0, job.columns };
    for (int64_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
        int64_t entry = entry_at(job, row);
        bool here = entry < job.vocabulary;
        ce_view token = ce_run_from(job.table, entry * job.columns), position = job.positions;
        if (job.positions.data)
            position = ce_run_from(job.positions, position_of(job, row) * job.columns);
        for (int64_t at = threadIdx.x * CE_RUN; at < job.columns; at += blockDim.x * CE_RUN) {
            float sum[CE_RUN], more[CE_RUN] = {};
            ce_run run = here ? ce_run_load(token, at, all) : ce_run{};
            if (job.positions.data && here)
                ce_run_read(more, position, at, all);
            ce_run_widen(sum, run, token.dtype);
            for (int i = 0; i < CE_RUN; i++)
                sum[i] += more[i];
            ce_run_store(ce_run_from(job.y, row * job.columns), at, all, sum);
        }
    }
}

static embed_job make_job(cs_tensor y, cs_tensor tokens, cs_tensor table, int64_t first, cs_tensor positions,
                          cs_tensor starts)
{
    return embed_job{ ce_run_view(y),
                      ce_run_view(table),
                      ce_run_view(positions),
                      (const int32_t *)tokens.data,
                      (const int32_t *)starts.data,
                      cs_rows(y),
                      cs_columns(y),
                      cs_columns(tokens),
                      cs_rows(table),
                      first };
}

extern "C" void ce_cuda_embed(cs_device *device, cs_tensor y, cs_tensor tokens, cs_tensor table, int64_t first,
                              cs_tensor positions, cs_tensor starts)
{
    embed_job job = make_job(y, tokens, table, first, positions, starts);
    ce_launch(ce_cuda_compute(device), ce_run_rows_shape(job.rows, job.columns), embed_rows, job);
}

/* ---- backward of the embedding ---- */

/* The arguments of the kernels that add rows of dy to rows of the table `into`. */
struct add_job {
    ce_view into, dy;
    /* edges (pieces, 2, columns): for each piece, the partial sums of its first and of its last sequence, if the
     * sequence crosses a border of the piece */
    float *edges;
    const uint32_t *keys, *rows; /* keys and row numbers of dy, sorted by key */
    int64_t count, columns, tiles;
    int64_t entries;  /* number of rows of `into`; the rows of dy with this key, the greatest one, are not added */
    int64_t left_out; /* `left_out`: the key whose sums are not added to the table; -1: sums of all keys are added */
};

static __global__ void __launch_bounds__(KEY_THREADS) token_keys(uint32_t *keys, uint32_t *rows, embed_job job)
{
    int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= job.rows)
        return;
    keys[row] = (uint32_t)entry_at(job, row);
    rows[row] = (uint32_t)row;
}

static __global__ void __launch_bounds__(KEY_THREADS) position_keys(uint32_t *keys, uint32_t *rows, embed_job job)
{
    int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= job.rows)
        return;
    keys[row] = (uint32_t)position_of(job, row);
    rows[row] = (uint32_t)row;
}

/* The work of one warp: a piece and some columns. */
struct warp_work {
    int64_t piece, at;      /* `at`: the first column of this lane */
    ce_range span, columns; /* `span`: the piece's range of sorted rows; `columns`: all columns of a row */
};

static __device__ warp_work find_work(const add_job &job)
{
    int64_t warp = (int64_t)blockIdx.x * WARPS + ce_warp();
    int64_t piece = warp / job.tiles, to = (piece + 1) * PIECE;
    return warp_work{ piece, warp % job.tiles * TILE + ce_lane() * CE_RUN,
                      ce_range{ piece * PIECE, to < job.count ? to : job.count }, ce_range{ 0, job.columns } };
}

static __device__ void add_to_table(const add_job &job, const warp_work &work, uint32_t key, const float *sum)
{
    if (key == job.left_out || key == job.entries)
        return;
    ce_view row = ce_run_from(job.into, (int64_t)key * job.columns);
    float value[CE_RUN];
    ce_run_read(value, row, work.at, work.columns);
    for (int i = 0; i < CE_RUN; i++)
        value[i] += sum[i];
    ce_run_store(row, work.at, work.columns, value);
}

static __device__ ce_view edge_of(const add_job &job, int64_t piece, int which)
{
    return ce_run_from(ce_view{ (unsigned char *)job.edges, CS_F32 }, (2 * piece + which) * job.columns);
}

/* Stores the sum of a sequence of equal keys. `run` is the range of sorted rows that the sequence has in this piece.
 * The sum is added to the table, or stored in `edges` if the sequence crosses a border of the piece. */
static __device__ void write_run(const add_job &job, const warp_work &work, uint32_t key, ce_range run,
                                 const float *sum)
{
    bool before = run.from == work.span.from && run.from > 0 && job.keys[run.from - 1] == key;
    bool after = run.to == work.span.to && run.to < job.count && job.keys[run.to] == key;
    if (before || after)
        ce_run_store(edge_of(job, work.piece, before ? 0 : 1), work.at, work.columns, sum);
    else
        add_to_table(job, work, key, sum);
}

static __global__ void __launch_bounds__(WARPS *CE_WARP) embed_grad_pieces(add_job job)
{
    warp_work work = find_work(job);
    ce_range run = { work.span.from, work.span.from };
    float sum[CE_RUN] = {};
    if (work.span.from >= job.count || job.keys[work.span.from] == job.entries)
        return;
    uint32_t key = job.keys[run.from];
    for (int64_t first = work.span.from; first < work.span.to; first += TOGETHER) {
        ce_run dy[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; i++)
            dy[i] = first + i < work.span.to
                        ? ce_run_load(ce_run_from(job.dy, (int64_t)job.rows[first + i] * job.columns), work.at,
                                      work.columns)
                        : ce_run{};
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            if (first + i >= work.span.to)
                continue;
            if (job.keys[first + i] != key) {
                write_run(job, work, key, run, sum);
                key = job.keys[first + i];
                run.from = first + i;
                memset(sum, 0, sizeof sum);
            }
            float wide[CE_RUN];
            ce_run_widen(wide, dy[i], job.dy.dtype);
            for (int k = 0; k < CE_RUN; k++)
                sum[k] += wide[k];
            run.to = first + i + 1;
        }
    }
    write_run(job, work, key, run, sum);
}

/* Returns whether a sequence of equal keys crosses `border`, an index into the sorted rows. */
static __device__ bool crosses(const add_job &job, int64_t border)
{
    return border > 0 && border < job.count && job.keys[border - 1] == job.keys[border];
}

/* Adds the partial sums of a sequence that begins in this warp's piece and continues in later pieces, in the order of
 * pieces. */
static __global__ void __launch_bounds__(WARPS *CE_WARP) embed_grad_edges(add_job job)
{
    warp_work work = find_work(job);
    if (!crosses(job, work.span.to))
        return;
    uint32_t key = job.keys[work.span.to];
    if (key == job.entries || (job.keys[work.span.from] == key && crosses(job, work.span.from)))
        return;
    float sum[CE_RUN], more[CE_RUN];
    int64_t piece = work.piece;
    ce_run_read(sum, edge_of(job, piece, 1), work.at, work.columns);
    do {
        piece++;
        ce_run_read(more, edge_of(job, piece, 0), work.at, work.columns);
        for (int i = 0; i < CE_RUN; i++)
            sum[i] += more[i];
    } while (crosses(job, (piece + 1) * PIECE) && job.keys[(piece + 1) * PIECE] == key);
    add_to_table(job, work, key, sum);
}

/* Returns the number of bits that keys less than `values` need. */
static int bits_of(int64_t values)
{
    int bits = 1;
    while (bits < 32 && (int64_t)1 << bits < values)
        bits++;
    return bits;
}

/* Adds each row of dy to a row of `into`. The key of a row of dy is the index of this row of `into`, or the number of
 * rows of `into`; the kernel `name` writes the keys. Rows whose key is `left_out` are not added. */
static void add_rows(cs_device *device, const embed_job &job, cs_tensor into, int64_t left_out,
                     void (*name)(uint32_t *keys, uint32_t *rows, embed_job job))
{
    cudaStream_t stream = ce_cuda_compute(device);
    int64_t pieces = ce_divide_up(job.rows, PIECE), tiles = ce_divide_up(job.columns, TILE);
    size_t bytes = (ce_sort_bytes(job.rows) + 63) / 64 * 64;
    void *memory = ce_cuda_workspace(device, CE_CUDA_SORT, bytes + (size_t)(2 * pieces * job.columns) * sizeof(float));
    ce_sort sort = ce_sort_layout(memory, job.rows);
    ce_launch(stream, ce_shape{ dim3((unsigned)ce_divide_up(job.rows, KEY_THREADS)), dim3(KEY_THREADS) }, name,
              sort.keys[0], sort.rows[0], job);
    sort = ce_sort_run(stream, sort, job.rows, bits_of(cs_rows(into) + (job.first == CS_WHOLE_TABLE ? 0 : 1)));
    add_job add = { ce_run_view(into), job.y,        (float *)((char *)memory + bytes),
                    sort.keys[0],      sort.rows[0], job.rows,
                    job.columns,       tiles,        cs_rows(into),
                    left_out };
    ce_shape all = { dim3((unsigned)ce_divide_up(pieces * tiles, WARPS)), dim3(WARPS * CE_WARP) };
    ce_launch(stream, all, embed_grad_pieces, add);
    ce_launch(stream, all, embed_grad_edges, add);
}

extern "C" void ce_cuda_embed_grad(cs_device *device, cs_tensor dtable, int64_t first, cs_tensor dpositions,
                                   cs_tensor dy, cs_tensor tokens, cs_tensor starts, int64_t padding)
{
    embed_job job = make_job(dy, tokens, dtable, first, dpositions, starts);
    if (job.rows == 0)
        return;
    add_rows(device, job, dtable, first == CS_WHOLE_TABLE ? padding : padding - first, token_keys);
    if (dpositions.data)
        add_rows(device, job, dpositions, -1, position_keys);
}
