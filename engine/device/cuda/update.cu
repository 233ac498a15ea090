/* update.cu - the optimizer's update: one kernel for each rule in the list of rules (optim/rules.h).
 *
 * A launch covers many ranges of the state; a block updates one tile of one range, which it finds in a table by binary
 * search. Unscaling, clipping, the update and the conversion of the new values to the compute type (publish) are one
 * pass, which is bound by memory: AdamW in fp32 moves 28 bytes for each element (reads and writes master and two slots,
 * reads the gradient), and writes 2 or 4 more bytes if it publishes new values. A warp updates 256 elements: a block of
 * slots in blocks. */
#include "device/cuda/run.cuh"

extern "C" {
#include "base/dynamic_map.h"
}
#include "optim/rules.h"

/* Defines a type for each rule. `directs` is true if the rule returns not the new parameter, but a direction, which
 * replaces the gradient. */
#define NAME(rule, is_direction)                                                                                       \
    struct rule_##rule {                                                                                               \
        static constexpr bool directs = is_direction;                                                                  \
        static __device__ float of(float p, float g, float *s0, float *s1, ce_hyper h)                                 \
        {                                                                                                              \
            return rule(p, g, s0, s1, h);                                                                              \
        }                                                                                                              \
    };
#define RULE(rule, ...) NAME(rule, false)
#define DIRECTION(rule, ...) NAME(rule, true)
#include "optim/rules.h"

/* The arguments of an update. `publish`, and slots that the optimizer does not have, may be absent. */
struct update_job {
    ce_view master, gradient, slots[CE_OPTIM_SLOTS], publish;
    float *scales[CE_OPTIM_SLOTS]; /* the scales of slots in blocks */
    ce_state_ranges ranges;
    ce_hyper hyper;
    /* decides whether the step is applied, and with which factor; NULL: the step is applied with factor 1 */
    const ce_gate *gate;
};

/* The values of the maps of the two slots. */
struct block_maps {
    float value[CE_OPTIM_SLOTS][CE_DYNAMIC_CODES];
};

static_assert(CE_RUN * 32 == CE_OPTIM_BLOCK, "each warp updates one block");
static_assert(CE_RUN * CE_RUN_THREADS == CE_STATE_TILE, "each thread of a block updates one run of a tile");

/* Returns the range that contains a tile: the last range whose first tile is not after this tile. */
static __device__ ce_state_range find_range(ce_state_ranges ranges, int64_t tile)
{
    int64_t low = 0, high = ranges.count - 1;
    while (low < high) {
        int64_t middle = (low + high + 1) / 2;
        if (ranges.table[middle].tile <= tile)
            low = middle;
        else
            high = middle - 1;
    }
    return ranges.table[low];
}

static __device__ ce_run load_present(ce_view x, int64_t at, ce_range within)
{
    return x.data ? ce_run_load(x, at, within) : ce_run{};
}

/* ---- slots in blocks ---- */

static __device__ void decode(float *to, ce_view codes, float scale, const float *values, int64_t at, ce_range within)
{
    for (int i = 0; i < CE_RUN; i++)
        to[i] = ce_run_has(at + i, within) ? __fmul_rn(values[codes.data[at + i]], scale) : 0;
}

/* Returns the code of the nearest value, as ce_dynamic_code does. */
static __device__ uint8_t nearest(const float *values, float x)
{
    int low = 0, high = CE_DYNAMIC_CODES - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (x > (values[middle] + values[middle + 1]) / 2)
            low = middle + 1;
        else
            high = middle;
    }
    return (uint8_t)low;
}

/* All threads of the warp call this function. The greatest bits of absolute values are those of a NaN, if there is one. */
static __device__ void encode(ce_view codes, float *scale, const float *from, const float *values, int64_t at,
                              ce_range within)
{
    uint32_t most = 0;
    for (int i = 0; i < CE_RUN; i++) {
        uint32_t bits = ce_run_bits<uint32_t>(from[i]) & 0x7fffffff;
        most = ce_run_has(at + i, within) && bits > most ? bits : most;
    }
    float all = ce_run_bits<float>(__reduce_max_sync(0xffffffffu, most));
    float divisor = all > 0 ? all : 1;
    for (int i = 0; i < CE_RUN; i++)
        if (ce_run_has(at + i, within))
            codes.data[at + i] = nearest(values, from[i] / divisor);
    if (threadIdx.x % 32 == 0)
        *scale = all;
}

/* Updates the elements of a block; each thread of the warp has one run, possibly outside of the range `within`. */
template <typename Rule>
static __device__ void update_block(const update_job &job, const ce_view *slots, const block_maps &maps, ce_hyper hyper,
                                    int64_t at, ce_range within)
{
    float p[CE_RUN], g[CE_RUN], slot[CE_OPTIM_SLOTS][CE_RUN] = {};
    int64_t block = at / CE_OPTIM_BLOCK, first = block * CE_OPTIM_BLOCK;
    if (first < within.from || first >= within.to)
        return;
    ce_run_read(p, job.master, at, within);
    ce_run_read(g, job.gradient, at, within);
    for (int k = 0; k < CE_OPTIM_SLOTS; k++)
        if (slots[k].data)
            decode(slot[k], slots[k], job.scales[k][block], maps.value[k], at, within);
    float *to = Rule::directs ? g : p;
    for (int i = 0; i < CE_RUN; i++)
        to[i] = Rule::of(p[i], g[i] * hyper.grad_scale, &slot[0][i], &slot[1][i], hyper);
    ce_run_store(Rule::directs ? job.gradient : job.master, at, within, to);
    for (int k = 0; k < CE_OPTIM_SLOTS; k++)
        if (slots[k].data)
            encode(slots[k], job.scales[k] + block, slot[k], maps.value[k], at, within);
    if (job.publish.data)
        ce_run_store(job.publish, at, within, p);
}

/* ---- the update ---- */

template <typename Rule>
static __device__ void update_run(const update_job &job, const ce_view *slots, ce_hyper hyper, int64_t at,
                                  ce_range within)
{
    ce_run run_p = ce_run_load(job.master, at, within), run_g = ce_run_load(job.gradient, at, within);
    ce_run run_0 = load_present(slots[0], at, within), run_1 = load_present(slots[1], at, within);
    float p[CE_RUN], g[CE_RUN], slot0[CE_RUN], slot1[CE_RUN];
    ce_run_widen(p, run_p, job.master.dtype);
    ce_run_widen(g, run_g, job.gradient.dtype);
    ce_run_widen(slot0, run_0, slots[0].dtype);
    ce_run_widen(slot1, run_1, slots[1].dtype);
    float *to = Rule::directs ? g : p;
    for (int i = 0; i < CE_RUN; i++)
        to[i] = Rule::of(p[i], g[i] * hyper.grad_scale, &slot0[i], &slot1[i], hyper);
    ce_run_store(Rule::directs ? job.gradient : job.master, at, within, to);
    if (slots[0].data)
        ce_run_store(slots[0], at, within, slot0);
    if (slots[1].data)
        ce_run_store(slots[1], at, within, slot1);
    if (job.publish.data)
        ce_run_store(job.publish, at, within, p);
}

/* `given` is a block_maps for slots in blocks, otherwise an int without meaning. */
template <typename Rule, typename Maps>
static __global__ void __launch_bounds__(CE_RUN_THREADS) update_tile(update_job job, Maps given)
{
    constexpr bool blocks = sizeof given == sizeof(block_maps);
    if (job.gate && !job.gate->open)
        return;
    int64_t tile = job.ranges.tile + blockIdx.x;
    ce_state_range range = find_range(job.ranges, tile);
    ce_range within = { range.from, range.to };
    ce_hyper hyper = job.hyper;
    ce_view slots[CE_OPTIM_SLOTS];
    hyper.grad_scale *= job.gate ? job.gate->factor : 1;
    if (!range.decays)
        hyper.decay = 0;
    for (int i = 0; i < CE_OPTIM_SLOTS; i++) {
        slots[i] = job.slots[i];
        if (blocks && slots[i].data)
            slots[i].data += range.slots[i] - range.from; /* codes are bytes */
        else if (slots[i].data)
            slots[i] = ce_run_from(slots[i], range.slots[i] - range.from);
    }
    int64_t at = (range.from / CE_STATE_TILE + tile - range.tile) * CE_STATE_TILE + (int64_t)threadIdx.x * CE_RUN;
    if constexpr (blocks) {
        CE_SHARED block_maps maps;
        for (int i = (int)threadIdx.x; i < CE_OPTIM_SLOTS * CE_DYNAMIC_CODES; i += CE_RUN_THREADS)
            maps.value[i / CE_DYNAMIC_CODES][i % CE_DYNAMIC_CODES] =
                given.value[i / CE_DYNAMIC_CODES][i % CE_DYNAMIC_CODES];
        __syncthreads();
        update_block<Rule>(job, slots, maps, hyper, at, within);
    } else if (at + CE_RUN > range.from && at < range.to)
        update_run<Rule>(job, slots, hyper, at, within);
}

#define RULE(rule, ...) update_tile<rule_##rule, int>,
static void (*const kernels[])(update_job, int) = {
#include "optim/rules.h"
};

#define RULE(rule, ...) update_tile<rule_##rule, block_maps>,
static void (*const block_kernels[])(update_job, block_maps) = {
#include "optim/rules.h"
};

extern "C" void ce_cuda_update(cs_stream *stream, const ce_optimizer *optimizer, ce_hyper hyper,
                               const ce_state_rows *rows)
{
    update_job job = {};
    job.master = ce_run_view(rows->master);
    job.gradient = ce_run_view(rows->gradient);
    for (int i = 0; i < CE_OPTIM_SLOTS; i++) {
        job.slots[i] = ce_run_view(rows->slots[i]);
        job.scales[i] = rows->scales[i];
    }
    job.publish = ce_run_view(rows->publish);
    job.ranges = rows->ranges;
    job.hyper = hyper;
    job.gate = rows->gate;
    ce_shape shape = { dim3((unsigned)rows->ranges.tiles), dim3(CE_RUN_THREADS) };
    if (!optimizer->blocks) {
        ce_launch(ce_cuda_stream(stream), shape, kernels[optimizer->kind], job, 0);
        return;
    }
    block_maps maps;
    memcpy(maps.value[0], ce_dynamic_signed()->value, sizeof maps.value[0]);
    memcpy(maps.value[1], ce_dynamic_unsigned()->value, sizeof maps.value[1]);
    ce_launch(ce_cuda_stream(stream), shape, block_kernels[optimizer->kind], job, maps);
}
