/* embed.cu - token and position tables.
 *
 * Forward is a copy of rows. Backward adds rows of dy to rows of a table, those of one token in order of position:
 * the rows are sorted by token, and the sorted order is cut into pieces of 32. A warp walks a piece and adds each run
 * of one token to the table; a run that goes on over a border leaves its part beside, and the parts of a run are added
 * in order by a second kernel. So a token that fills the batch is the work of many warps, and the order of additions
 * follows from the tokens alone. Positions are added by the same walk. Reading dy bounds it, and beside it, when tokens
 * are few, launching the sort. */
#include "device/cuda/run.cuh"
#include "device/cuda/sort.cuh"

enum { PIECE = 32, TOGETHER = 4, WARPS = 4, TILE = CS_WARP * CS_RUN, KEY_THREADS = 256 };

struct embed_job {
    cs_view y, table, positions;    /* positions absent: none */
    const int32_t *tokens, *starts; /* starts NULL: 0         */
    int64_t rows, columns, length, vocabulary;
};

/* A token outside the vocabulary ends the run, as on the CPU; the driver names file and line. */
static __device__ int64_t token_at(const embed_job &job, int64_t row)
{
    int64_t token = job.tokens[row];
    CS_KERNEL_ASSERT(token >= 0 && token < job.vocabulary);
    return token;
}

/* In its document, if starts say where that begins. */
static __device__ int64_t position_of(const embed_job &job, int64_t row)
{
    int64_t position = row % job.length;
    return job.starts ? position - job.starts[row] : position;
}

static __global__ void __launch_bounds__(CS_RUN_THREADS) embed_rows(embed_job job)
{
    cs_range all = { 0, job.columns };
    for (int64_t row = blockIdx.x; row < job.rows; row += gridDim.x) {
        cs_view token = cs_run_from(job.table, token_at(job, row) * job.columns), position = job.positions;
        if (job.positions.data)
            position = cs_run_from(job.positions, position_of(job, row) * job.columns);
        for (int64_t at = threadIdx.x * CS_RUN; at < job.columns; at += blockDim.x * CS_RUN) {
            float sum[CS_RUN], more[CS_RUN] = {};
            cs_run run = cs_run_load(token, at, all);
            if (job.positions.data)
                cs_run_read(more, position, at, all);
            cs_run_widen(sum, run, token.dtype);
            for (int i = 0; i < CS_RUN; i++)
                sum[i] += more[i];
            cs_run_store(cs_run_from(job.y, row * job.columns), at, all, sum);
        }
    }
}

static embed_job make_job(cs_tensor y, cs_tensor tokens, cs_tensor table, cs_tensor positions, cs_tensor starts)
{
    return embed_job{ cs_run_view(y),
                      cs_run_view(table),
                      cs_run_view(positions),
                      (const int32_t *)tokens.data,
                      (const int32_t *)starts.data,
                      cs_rows(y),
                      cs_columns(y),
                      cs_columns(tokens),
                      cs_rows(table) };
}

extern "C" void cs_cuda_embed(cs_device *device, cs_tensor y, cs_tensor tokens, cs_tensor table, cs_tensor positions,
                              cs_tensor starts)
{
    embed_job job = make_job(y, tokens, table, positions, starts);
    cs_launch(cs_cuda_compute(device), cs_run_rows_shape(job.rows, job.columns), embed_rows, job);
}

/* ---- backward ---- */

/* Rows of dy that are added to rows of `into`. */
struct add_job {
    cs_view into, dy;
    float *edges;                /* (pieces, 2, columns): of the run a piece begins with, and of the one it ends with */
    const uint32_t *keys, *rows; /* sorted */
    int64_t count, columns, tiles;
};

static __global__ void __launch_bounds__(KEY_THREADS) token_keys(uint32_t *keys, uint32_t *rows, embed_job job)
{
    int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= job.rows)
        return;
    keys[row] = (uint32_t)token_at(job, row);
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

/* Which piece and which columns are this warp's. */
struct seat {
    int64_t piece, at;
    cs_range span, columns; /* of the sorted rows; of a row */
};

static __device__ seat sit(const add_job &job)
{
    int64_t warp = (int64_t)blockIdx.x * WARPS + threadIdx.x / CS_WARP;
    int64_t piece = warp / job.tiles, to = (piece + 1) * PIECE;
    return seat{ piece, warp % job.tiles * TILE + threadIdx.x % CS_WARP * CS_RUN,
                 cs_range{ piece * PIECE, to < job.count ? to : job.count }, cs_range{ 0, job.columns } };
}

static __device__ void add_to_table(const add_job &job, const seat &seat, uint32_t key, const float *sum)
{
    cs_view row = cs_run_from(job.into, (int64_t)key * job.columns);
    float value[CS_RUN];
    cs_run_read(value, row, seat.at, seat.columns);
    for (int i = 0; i < CS_RUN; i++)
        value[i] += sum[i];
    cs_run_store(row, seat.at, seat.columns, value);
}

static __device__ cs_view edge_of(const add_job &job, int64_t piece, int which)
{
    return cs_run_from(cs_view{ (unsigned char *)job.edges, CS_F32 }, (2 * piece + which) * job.columns);
}

/* The run of `key` over [from, to) of a piece. */
static __device__ void leave_run(const add_job &job, const seat &seat, uint32_t key, cs_range run, const float *sum)
{
    bool before = run.from == seat.span.from && run.from > 0 && job.keys[run.from - 1] == key;
    bool after = run.to == seat.span.to && run.to < job.count && job.keys[run.to] == key;
    if (before || after)
        cs_run_store(edge_of(job, seat.piece, before ? 0 : 1), seat.at, seat.columns, sum);
    else
        add_to_table(job, seat, key, sum);
}

static __global__ void __launch_bounds__(WARPS *CS_WARP) add_pieces(add_job job)
{
    seat seat = sit(job);
    cs_range run = { seat.span.from, seat.span.from };
    float sum[CS_RUN] = {};
    if (seat.span.from >= job.count)
        return;
    uint32_t key = job.keys[run.from];
    for (int64_t first = seat.span.from; first < seat.span.to; first += TOGETHER) {
        cs_run dy[TOGETHER];
#pragma unroll
        for (int i = 0; i < TOGETHER; i++)
            dy[i] = first + i < seat.span.to
                        ? cs_run_load(cs_run_from(job.dy, (int64_t)job.rows[first + i] * job.columns), seat.at,
                                      seat.columns)
                        : cs_run{};
#pragma unroll
        for (int i = 0; i < TOGETHER; i++) {
            if (first + i >= seat.span.to)
                continue;
            if (job.keys[first + i] != key) {
                leave_run(job, seat, key, run, sum);
                key = job.keys[first + i];
                run.from = first + i;
                memset(sum, 0, sizeof sum);
            }
            float wide[CS_RUN];
            cs_run_widen(wide, dy[i], job.dy.dtype);
            for (int k = 0; k < CS_RUN; k++)
                sum[k] += wide[k];
            run.to = first + i + 1;
        }
    }
    leave_run(job, seat, key, run, sum);
}

/* Whether the sorted rows before and at `border` have one key. */
static __device__ bool goes_over(const add_job &job, int64_t border)
{
    return border > 0 && border < job.count && job.keys[border - 1] == job.keys[border];
}

/* A run that begins in a piece and goes on: its parts, in order. */
static __global__ void __launch_bounds__(WARPS *CS_WARP) add_edges(add_job job)
{
    seat seat = sit(job);
    if (!goes_over(job, seat.span.to))
        return;
    uint32_t key = job.keys[seat.span.to];
    if (job.keys[seat.span.from] == key && goes_over(job, seat.span.from))
        return;
    float sum[CS_RUN], more[CS_RUN];
    int64_t piece = seat.piece;
    cs_run_read(sum, edge_of(job, piece, 1), seat.at, seat.columns);
    do {
        piece++;
        cs_run_read(more, edge_of(job, piece, 0), seat.at, seat.columns);
        for (int i = 0; i < CS_RUN; i++)
            sum[i] += more[i];
    } while (goes_over(job, (piece + 1) * PIECE) && job.keys[(piece + 1) * PIECE] == key);
    add_to_table(job, seat, key, sum);
}

static int bits_of(int64_t values)
{
    int bits = 1;
    while (bits < 32 && (int64_t)1 << bits < values)
        bits++;
    return bits;
}

/* Adds the rows of dy to those of `into` that `name` gives them. */
static void add_rows(cs_device *device, const embed_job &job, cs_tensor into,
                     void (*name)(uint32_t *keys, uint32_t *rows, embed_job job))
{
    cudaStream_t stream = cs_cuda_compute(device);
    int64_t pieces = (job.rows + PIECE - 1) / PIECE, tiles = (job.columns + TILE - 1) / TILE;
    size_t bytes = (cs_sort_bytes(job.rows) + 63) / 64 * 64;
    void *memory = cs_cuda_workspace(device, CS_CUDA_SORT, bytes + (size_t)(2 * pieces * job.columns) * sizeof(float));
    cs_sort sort = cs_sort_lay(memory, job.rows);
    cs_launch(stream, cs_shape{ dim3((unsigned)((job.rows + KEY_THREADS - 1) / KEY_THREADS)), dim3(KEY_THREADS) }, name,
              sort.keys[0], sort.rows[0], job);
    sort = cs_sort_run(stream, sort, job.rows, bits_of(cs_rows(into)));
    add_job add = { cs_run_view(into), job.y, (float *)((char *)memory + bytes), sort.keys[0], sort.rows[0], job.rows,
                    job.columns,       tiles };
    cs_shape all = { dim3((unsigned)((pieces * tiles + WARPS - 1) / WARPS)), dim3(WARPS * CS_WARP) };
    cs_launch(stream, all, add_pieces, add);
    cs_launch(stream, all, add_edges, add);
}

extern "C" void cs_cuda_embed_grad(cs_device *device, cs_tensor dtable, cs_tensor dpositions, cs_tensor dy,
                                   cs_tensor tokens, cs_tensor starts)
{
    embed_job job = make_job(dy, tokens, dtable, dpositions, starts);
    if (job.rows == 0)
        return;
    add_rows(device, job, dtable, token_keys);
    if (dpositions.data)
        add_rows(device, job, dpositions, position_keys);
}
