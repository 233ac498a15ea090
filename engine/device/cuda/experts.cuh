/* experts.cuh - the products of experts (struct ce_experts), and the tile of the result that each block computes.
 *
 * The host does not know how many slots an expert has, so the grid depends only on the number of all slots. If a row of
 * the result is a slot, expert e owns the row tiles from bounds[e] / rows + e on, where `rows` is the height of a tile:
 * at least as many as its slots need, and at most one more. If the result is a matrix for each expert, every expert has
 * equally many tiles.
 *
 * Blocks that run at the same time share CE_EXPERTS_GROUP row tiles and some column tiles, so that most of their reads
 * hit the L2 cache, and the matrix of an expert is read from memory once for each group of row tiles. */
#ifndef CE_DEVICE_EXPERTS_CUH
#define CE_DEVICE_EXPERTS_CUH

#include "device/cuda/kernel.cuh"

enum { CE_EXPERTS_GROUP = 16 };

/* The product c = a b of each expert, or c += a b. A row of `a` is a slot. If `sums` is set, a row of b is a slot too,
 * and c has `height` rows for each expert; otherwise a row of c is a slot, and b has `height` rows for each expert. The
 * struct has no padding, because ce_launch_hash uses all its bytes. */
struct ce_experts_job {
    void *c;
    const void *a, *b;
    const int32_t *bounds;
    int64_t a_columns, b_columns, c_columns, height, slots;
    int32_t experts, sums, add, from, to; /* from: the type of a and b; to: the type of c (cs_dtype) */
    int32_t b_inner; /* whether a row of b runs along the inner dimension, so that b is multiplied transposed */
};
static_assert(std::has_unique_object_representations_v<ce_experts_job>, "no padding");

/* The tile that begins at (row, column) of an expert's result. */
struct ce_experts_tile {
    int expert;
    ce_range slots; /* the expert's slots */
    int64_t row, column;
};

/* The rows of a matrix that belong to one expert. They begin at element number `first`. */
struct ce_experts_rows {
    int64_t first, rows, columns;
};

/* Returns the number of tiles of `rows` rows in the results of all experts. */
__host__ __device__ inline int64_t ce_experts_row_tiles(const ce_experts_job &job, int rows)
{
    return job.sums ? job.experts * ce_divide_up(job.height, rows) : job.slots / rows + job.experts;
}

/* Returns the grid for tiles of this size: one block for each tile. */
inline dim3 ce_experts_grid(const ce_experts_job &job, int rows, int columns)
{
    int64_t blocks = ce_experts_row_tiles(job, rows) * ce_divide_up(job.c_columns, columns);
    CE_ASSERT(blocks <= INT32_MAX);
    return dim3((unsigned)blocks);
}

/* Returns the first row tile of an expert if a row of the result is a slot. */
__device__ inline int64_t ce_experts_first(const ce_experts_job &job, int expert, int rows)
{
    return job.bounds[expert] / rows + expert;
}

/* Returns the expert that owns this row tile. All threads of the block must call this function. */
__device__ inline int ce_experts_owner(const ce_experts_job &job, int64_t tile, int rows)
{
    CE_SHARED int owner;
    for (int e = (int)threadIdx.x; e < job.experts; e += (int)blockDim.x)
        if (ce_experts_first(job, e, rows) <= tile && tile < ce_experts_first(job, e + 1, rows))
            owner = e;
    __syncthreads();
    return owner;
}

/* Finds the tile of this block. Returns false if the block has nothing to do: the expert has no slots for the tile, or
 * would add nothing. All threads of the block must call this function. */
__device__ inline bool ce_experts_find(ce_experts_tile *tile, const ce_experts_job &job, int rows, int columns)
{
    int all = (int)ce_experts_row_tiles(job, rows), across = (int)ce_divide_up(job.c_columns, columns);
    int group = (int)blockIdx.x / across / CE_EXPERTS_GROUP * CE_EXPERTS_GROUP;
    int tall = min(all - group, (int)CE_EXPERTS_GROUP), inside = (int)blockIdx.x - group * across;
    int down = group + inside % tall;
    int64_t each = ce_divide_up(job.height, rows);
    tile->column = (int64_t)(inside / tall) * columns;
    tile->expert = job.sums ? (int)(down / each) : ce_experts_owner(job, down, rows);
    tile->row = (job.sums ? down % each : down - ce_experts_first(job, tile->expert, rows)) * rows;
    tile->slots = ce_range{ job.bounds[tile->expert], job.bounds[tile->expert + 1] };
    int64_t count = tile->slots.to - tile->slots.from;
    return job.sums ? count > 0 || !job.add : tile->row < count;
}

/* Returns the rows of an expert in a matrix with a row for each slot. */
__device__ inline ce_experts_rows ce_experts_slots(const ce_experts_tile &tile, int64_t columns)
{
    return ce_experts_rows{ tile.slots.from * columns, tile.slots.to - tile.slots.from, columns };
}

/* Returns the rows of an expert in a matrix with `height` rows for each expert. */
__device__ inline ce_experts_rows ce_experts_own(const ce_experts_job &job, const ce_experts_tile &tile,
                                                 int64_t columns)
{
    return ce_experts_rows{ tile.expert * job.height * columns, job.height, columns };
}

/* experts_plain.cu: computes the products without tensor cores, for every type, shape and alignment. */
void ce_experts_plain(cudaStream_t stream, const ce_experts_job &job);

#endif
