/* route.cu - routing in mixtures of experts: the choice of the experts of each row, the numbers of the slots, the
 * gradient of the router's logits, and the load-balancing loss.
 *
 * A warp routes a row: each lane has every 32nd logit, and k maxima over the warp give the k experts. The slots (pairs
 * of a row and one of its experts) are then numbered by a stable counting sort by expert. A row chooses an expert at
 * most once, so the rows of a tile of 32 rows that choose an expert are the bits of a mask. Three kernels run:
 *
 * 1. route_rows chooses the experts, and stores the mask of each expert and tile.
 * 2. count_tiles counts, for each expert and tile, the rows of earlier tiles that chose the expert.
 * 3. place_slots gives a slot its number: the slots of all experts with lower numbers, plus the rows of earlier tiles
 *    that chose the expert, plus the earlier rows of its own tile, which are the lower bits of the mask.
 *
 * The probabilities of an expert are added in the order of the rows of a tile, and then in a fixed order over tiles
 * (columns.cu). The logits are read once. A routing has few bytes: route_rows is bound by the instructions of the k
 * maxima, the other kernels by the latency of their few dependent accesses. */
#include "device/cuda/columns.cuh"
#include "device/cuda/run.cuh"
#include "device/slot.h"

#include <math.h>

/* MAX_THREADS: number of threads of blocks that have a thread for each expert */
enum { TILE = 32, WARPS = 8, THREADS = WARPS * CE_WARP, MAX_THREADS = CS_MAX_EXPERTS };

/* ---- rows of logits in shared memory: lane l of a warp reads and writes elements l, l + 32 and so on ---- */

static __device__ void load_row(float *values, ce_view logits, int64_t row, int experts)
{
    ce_view from = ce_run_from(logits, row * experts);
    for (int e = ce_lane(); e < experts; e += CE_WARP)
        values[e] = ce_run_read_one(from, e);
}

/* Replaces logits by probabilities. A NaN does not change the maximum, because it makes the sum a NaN anyway. */
static __device__ void softmax_row(float *values, int experts)
{
    float max = -INFINITY, sum = 0;
    for (int e = ce_lane(); e < experts; e += CE_WARP)
        max = fmaxf(max, values[e]);
    max = ce_warp_max(max);
    for (int e = ce_lane(); e < experts; e += CE_WARP) {
        values[e] = expf(values[e] - max);
        sum += values[e];
    }
    sum = ce_warp_sum(sum);
    for (int e = ce_lane(); e < experts; e += CE_WARP)
        values[e] /= sum;
    __syncwarp();
}

/* ---- routing ---- */

struct route_job {
    ce_view logits, factors;
    int32_t *slots, *rows, *bounds, *tokens;
    /* masks: (tiles, experts), bit r is set if row r of the tile chose the expert; earlier: (tiles, experts), the
     * number of rows of earlier tiles that chose the expert */
    uint32_t *masks, *earlier;
    float *weights; /* (rows, chosen): the factors before they are moved to their slots */
    float *partial; /* (tiles, experts): the sums of probabilities of each tile; NULL: they are not computed */
    int64_t count;  /* number of rows */
    int experts, chosen;
    bool normalized;
};

/* Chooses the experts with the greatest logits, the greatest first; of equal logits the one with the lowest number. The
 * order of logits is that of the probabilities before these are rounded. A NaN counts as -infinity, so that every row
 * has different experts. Lane j % 32 stores the expert number j. */
static __device__ void choose_experts(int32_t *to, const float *logits, int experts, int chosen)
{
    uint32_t taken = 0; /* bit i is set if expert number lane + 32 i was chosen */
    for (int j = 0; j < chosen; j++) {
        float best = -INFINITY;
        int expert = experts;
        for (int i = 0, e = ce_lane(); e < experts; i++, e += CE_WARP) {
            float logit = fmaxf(logits[e], -INFINITY);
            if ((taken >> i & 1) == 0 && (expert == experts || logit > best)) {
                best = logit;
                expert = e;
            }
        }
        int winner = __reduce_min_sync(0xffffffffu, best == ce_warp_max(best) ? expert : experts);
        if (expert == winner)
            taken |= 1u << expert / CE_WARP;
        if (ce_lane() == j % CE_WARP)
            to[j] = winner;
    }
}

/* Stores the factors of a row, and sets the row's bit in the masks of its experts. */
static __device__ void weigh_row(const route_job &job, int64_t row, const float *probability, uint32_t *masks)
{
    const int32_t *expert = job.slots + row * job.chosen;
    float sum = 0, divisor = 1;
    for (int j = ce_lane(); j < job.chosen; j += CE_WARP)
        sum += probability[expert[j]];
    sum = ce_warp_sum(sum);
    if (job.normalized)
        divisor = sum;
    for (int j = ce_lane(); j < job.chosen; j += CE_WARP) {
        job.weights[row * job.chosen + j] = probability[expert[j]] / divisor;
        atomicOr(&masks[expert[j]], 1u << row % TILE);
    }
}

/* Adds the probabilities of `rows` rows, which are in shared memory, to the sums of their experts. */
static __device__ void add_probabilities(float *sums, const float *probability, int64_t rows, int experts)
{
    for (int e = (int)threadIdx.x; e < experts; e += THREADS) {
        float sum = sums[e];
        for (int row = 0; row < rows; row++)
            sum += probability[row * experts + e];
        sums[e] = sum;
    }
}

/* Routes the rows of a tile. `slots` holds the numbers of the chosen experts until place_slots replaces them. */
static __global__ void __launch_bounds__(THREADS) route_rows(route_job job)
{
    CE_SHARED uint32_t masks[CS_MAX_EXPERTS];
    CE_SHARED float sums[CS_MAX_EXPERTS];
    float *values = (float *)ce_shared_memory(), *own = values + ce_warp() * job.experts;
    for (int e = (int)threadIdx.x; e < job.experts; e += THREADS) {
        masks[e] = 0;
        sums[e] = 0;
    }
    __syncthreads();
    for (int round = 0; round < TILE; round += WARPS) {
        int64_t first = (int64_t)blockIdx.x * TILE + round, row = first + ce_warp(), rest = job.count - first;
        if (row < job.count) {
            load_row(own, job.logits, row, job.experts);
            choose_experts(job.slots + row * job.chosen, own, job.experts, job.chosen);
            softmax_row(own, job.experts);
            weigh_row(job, row, own, masks);
        }
        __syncthreads();
        if (job.partial)
            add_probabilities(sums, values, rest < WARPS ? rest : (int64_t)WARPS, job.experts);
        __syncthreads();
    }
    for (int e = (int)threadIdx.x; e < job.experts; e += THREADS) {
        job.masks[(int64_t)blockIdx.x * job.experts + e] = masks[e];
        if (job.partial)
            job.partial[(int64_t)blockIdx.x * job.experts + e] = sums[e];
    }
}

/* Counts for 32 experts, one for each lane. Each warp first counts the rows of a sequence of tiles, and then, after it
 * has added the counts of all earlier warps, goes through its tiles again. Without __restrict__ a mask could not be
 * loaded before the result of the tile before is stored. */
static __global__ void __launch_bounds__(MAX_THREADS)
    count_tiles(uint32_t *__restrict__ earlier, const uint32_t *__restrict__ masks, int32_t *tokens, int64_t tiles,
                int experts)
{
    CE_SHARED int32_t counts[MAX_THREADS / CE_WARP][CE_WARP];
    int expert = (int)blockIdx.x * CE_WARP + ce_lane(), warps = MAX_THREADS / CE_WARP;
    int64_t each = (tiles + warps - 1) / warps, from = ce_warp() * each, to = from + each < tiles ? from + each : tiles;
    int32_t count = 0;
    if (expert >= experts)
        to = from;
#pragma unroll 8
    for (int64_t tile = from; tile < to; tile++)
        count += __popc(masks[tile * experts + expert]);
    counts[ce_warp()][ce_lane()] = count;
    __syncthreads();
    count = 0;
    for (int warp = 0; warp < ce_warp(); warp++)
        count += counts[warp][ce_lane()];
#pragma unroll 8
    for (int64_t tile = from; tile < to; tile++) {
        earlier[tile * experts + expert] = (uint32_t)count;
        count += __popc(masks[tile * experts + expert]);
    }
    if (ce_warp() == warps - 1 && expert < experts)
        tokens[expert] = count;
}

/* Returns, to thread e, the first slot of expert e: an exclusive scan of the numbers of slots. */
static __device__ int32_t first_slot(const route_job &job)
{
    CE_SHARED int32_t sums[MAX_THREADS / CE_WARP];
    int32_t own = (int)threadIdx.x < job.experts ? job.tokens[threadIdx.x] : 0, sum = own;
    for (int apart = 1; apart < CE_WARP; apart *= 2) {
        int32_t lower = __shfl_up_sync(0xffffffffu, sum, (unsigned)apart);
        sum += ce_lane() >= apart ? lower : 0;
    }
    if (ce_lane() == CE_WARP - 1)
        sums[ce_warp()] = sum;
    __syncthreads();
    for (int warp = 0; warp < ce_warp(); warp++)
        sum += sums[warp];
    return sum - own;
}

/* A thread places one slot. The first block also stores the bounds. */
static __global__ void __launch_bounds__(MAX_THREADS) place_slots(route_job job)
{
    CE_SHARED int32_t bounds[CS_MAX_EXPERTS];
    int64_t count = job.count * job.chosen, i = (int64_t)blockIdx.x * MAX_THREADS + threadIdx.x;
    bounds[threadIdx.x] = first_slot(job);
    __syncthreads();
    if (blockIdx.x == 0 && (int)threadIdx.x < job.experts)
        job.bounds[threadIdx.x] = bounds[threadIdx.x];
    if (blockIdx.x == 0 && threadIdx.x == 0)
        job.bounds[job.experts] = (int32_t)count;
    if (i >= count)
        return;
    uint32_t row = (uint32_t)i / (uint32_t)job.chosen; /* slots have 32-bit numbers; a 64-bit division is slow */
    int32_t expert = job.slots[i];
    int64_t cell = (int64_t)(row / TILE) * job.experts + expert;
    uint32_t before = job.masks[cell] & ((1u << row % TILE) - 1);
    int32_t slot = bounds[expert] + (int32_t)job.earlier[cell] + __popc(before);
    job.rows[slot] = (int32_t)row;
    job.slots[i] = slot;
    ce_run_store_one(job.factors, slot, job.weights[i]);
}

/* Divides the workspace among the arrays of the job, each of which has elements of 4 bytes. */
static void lay_out(cs_device *device, route_job *job, int64_t tiles, bool sums)
{
    int64_t cells = tiles * job->experts, slots = job->count * job->chosen;
    size_t bytes = (size_t)(3 * cells + slots) * sizeof(uint32_t);
    job->masks = (uint32_t *)ce_cuda_workspace(device, CE_CUDA_SORT, bytes);
    job->earlier = job->masks + cells;
    job->weights = (float *)(job->earlier + cells);
    job->partial = sums ? job->weights + slots : NULL;
}

extern "C" void ce_cuda_route(cs_device *device, const cs_routing *routing, cs_tensor factors, cs_tensor logits,
                              bool normalized)
{
    cudaStream_t stream = ce_cuda_compute(device);
    cs_tensor sums = routing->probabilities;
    route_job job = {};
    job.logits = ce_run_view(logits);
    job.factors = ce_run_view(factors);
    job.slots = (int32_t *)routing->slots.data;
    job.rows = (int32_t *)routing->rows.data;
    job.bounds = (int32_t *)routing->bounds.data;
    job.tokens = (int32_t *)routing->tokens.data;
    job.count = cs_rows(logits);
    job.experts = (int)cs_columns(logits);
    job.chosen = (int)cs_columns(routing->slots);
    job.normalized = normalized;
    int64_t tiles = ce_divide_up(job.count, TILE);
    int64_t blocks = ce_divide_up(job.count * job.chosen, MAX_THREADS);
    lay_out(device, &job, tiles, sums.data);
    size_t shared = (size_t)(WARPS * job.experts) * sizeof(float);
    ce_launch(stream, ce_shape{ dim3((unsigned)tiles), dim3(THREADS), shared }, route_rows, job);
    ce_launch(stream, ce_shape{ dim3((unsigned)ce_divide_up(job.experts, CE_WARP)), dim3(MAX_THREADS) }, count_tiles,
              job.earlier, job.masks, job.tokens, tiles, job.experts);
    ce_launch(stream, ce_shape{ dim3((unsigned)(blocks > 0 ? blocks : 1)), dim3(MAX_THREADS) }, place_slots, job);
    sums.overwrite = true;
    if (sums.data)
        ce_columns_reduce(device, sums, job.partial, tiles);
}

/* ---- the gradient of the logits ---- */

enum { GRAD_WARPS = 8, GRAD_THREADS = GRAD_WARPS * CE_WARP };

struct route_grad_job {
    ce_view dlogits, logits;
    const int32_t *slots, *bounds;
    const float *dfactors;
    const float *further; /* a gradient of each expert's probability, the same for all rows; NULL: there is none */
    int64_t count;        /* number of rows */
    int experts, chosen;
    bool normalized;
};

/* Adds to `slope`, the gradient of the probabilities, what comes from the factors of a row. The factor of expert e is
 * f_e = p_e / s, where s is the sum of the chosen probabilities. So dp_e is (df_e - sum of f df) / s; without
 * normalization, dp_e is df_e. */
static __device__ void add_factors(float *slope, const route_grad_job &job, int64_t row, const float *probability,
                                   const int32_t *bounds)
{
    const int32_t *slots = job.slots + row * job.chosen;
    float sum = 0, dot = 0, divisor = 1, mean = 0;
    for (int j = ce_lane(); j < job.chosen; j += CE_WARP) {
        float p = probability[ce_slot_expert(bounds, job.experts, slots[j])];
        sum += p;
        dot += p * job.dfactors[slots[j]];
    }
    sum = ce_warp_sum(sum);
    dot = ce_warp_sum(dot);
    if (job.normalized) {
        divisor = sum;
        mean = dot / sum;
    }
    for (int j = ce_lane(); j < job.chosen; j += CE_WARP)
        slope[ce_slot_expert(bounds, job.experts, slots[j])] += (job.dfactors[slots[j]] - mean) / divisor;
    __syncwarp();
}

/* A warp computes a row. The gradient goes through the softmax: dlogit = p (dp - sum of p dp). */
static __global__ void __launch_bounds__(GRAD_THREADS) route_grad_rows(route_grad_job job)
{
    CE_SHARED int32_t bounds[CS_MAX_EXPERTS];
    float *probability = (float *)ce_shared_memory() + 2 * ce_warp() * job.experts, *slope = probability + job.experts;
    for (int e = (int)threadIdx.x; e < job.experts; e += GRAD_THREADS)
        bounds[e] = job.bounds[e];
    __syncthreads();
    int64_t first = (int64_t)blockIdx.x * GRAD_WARPS + ce_warp(), step = (int64_t)gridDim.x * GRAD_WARPS;
    for (int64_t row = first; row < job.count; row += step) {
        load_row(probability, job.logits, row, job.experts);
        for (int e = ce_lane(); e < job.experts; e += CE_WARP)
            slope[e] = job.further ? job.further[e] : 0;
        softmax_row(probability, job.experts);
        add_factors(slope, job, row, probability, bounds);
        float sum = 0;
        for (int e = ce_lane(); e < job.experts; e += CE_WARP)
            sum += probability[e] * slope[e];
        sum = ce_warp_sum(sum);
        for (int e = ce_lane(); e < job.experts; e += CE_WARP)
            ce_run_store_one(job.dlogits, row * job.experts + e, probability[e] * (slope[e] - sum));
    }
}

extern "C" void ce_cuda_route_grad(cs_device *device, cs_tensor dlogits, const cs_routing *routing, cs_tensor dfactors,
                                   cs_tensor dprobabilities, cs_tensor logits, bool normalized)
{
    route_grad_job job = { ce_run_view(dlogits),
                           ce_run_view(logits),
                           (const int32_t *)routing->slots.data,
                           (const int32_t *)routing->bounds.data,
                           (const float *)dfactors.data,
                           (const float *)dprobabilities.data,
                           cs_rows(logits),
                           (int)cs_columns(logits),
                           (int)cs_columns(routing->slots),
                           normalized };
    int64_t blocks = ce_divide_up(job.count, GRAD_WARPS);
    size_t shared = (size_t)(2 * GRAD_WARPS * job.experts) * sizeof(float);
    ce_launch(ce_cuda_compute(device), ce_shape{ dim3(ce_bounded_grid(blocks)), dim3(GRAD_THREADS), shared },
              route_grad_rows, job);
}

/* ---- the load-balancing loss ---- */

enum { BALANCE_THREADS = 512 };

struct balance_job {
    const int32_t *tokens, *targets;
    const float *probabilities, *weights;
    float *dprobabilities, *loss;
    float *value; /* the load-balancing loss, in the workspace */
    int64_t rows, layers, experts;
    float coefficient;
};

/* One block computes the loss and its gradient in double. The loss is E sum_e (n_e / R) (p_e / R). E is the number of
 * experts, and R the number of rows of all layers together; n_e counts the slots of expert e and p_e adds up its
 * probabilities, over all layers. The derivative with respect to a probability is E n_e / R^2. */
static __global__ void __launch_bounds__(BALANCE_THREADS) balance_experts(balance_job job)
{
    CE_SHARED double scratch[BALANCE_THREADS / CE_WARP];
    double all = (double)job.rows * (double)job.layers, value = 0, weight = 0;
#pragma unroll 4
    for (int64_t row = threadIdx.x; row < job.rows; row += BALANCE_THREADS)
        weight += job.targets[row] >= 0 ? (double)job.weights[row] : 0;
    weight = ce_block_sum(weight, scratch);
    for (int64_t e = threadIdx.x; e < job.experts; e += BALANCE_THREADS) {
        double slots = 0, sum = 0;
#pragma unroll 4
        for (int64_t layer = 0; layer < job.layers; layer++) {
            slots += (double)job.tokens[layer * job.experts + e];
            sum += (double)job.probabilities[layer * job.experts + e];
        }
        double slope = (double)job.coefficient * (double)job.experts * slots / (all * all);
        value += slope * sum;
        job.dprobabilities[e] = (float)(slope * weight);
    }
    value = ce_block_sum(value, scratch);
    if (threadIdx.x == 0)
        *job.value = (float)value;
}

/* Adds the load-balancing loss to the loss of each row that has a target. */
static __global__ void __launch_bounds__(BALANCE_THREADS) balance_rows(balance_job job)
{
    int64_t row = (int64_t)blockIdx.x * BALANCE_THREADS + threadIdx.x;
    if (row < job.rows && job.targets[row] >= 0)
        job.loss[row] += *job.value;
}

extern "C" void ce_cuda_balance(cs_device *device, const cs_balance *balance, cs_tensor loss, cs_tensor targets,
                                cs_tensor dloss)
{
    cudaStream_t stream = ce_cuda_compute(device);
    balance_job job = { (const int32_t *)balance->tokens.data,
                        (const int32_t *)targets.data,
                        (const float *)balance->probabilities.data,
                        (const float *)dloss.data,
                        (float *)balance->dprobabilities.data,
                        (float *)loss.data,
                        (float *)ce_cuda_workspace(device, CE_CUDA_REDUCTION, sizeof(float)),
                        cs_rows(loss),
                        cs_rows(balance->tokens),
                        cs_columns(balance->tokens),
                        balance->coefficient };
    ce_launch(stream, ce_shape{ dim3(1), dim3(BALANCE_THREADS) }, balance_experts, job);
    ce_launch(stream, ce_shape{ dim3((unsigned)ce_divide_up(job.rows, BALANCE_THREADS)), dim3(BALANCE_THREADS) },
              balance_rows, job);
}
