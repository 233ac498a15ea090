/* update.cu - the optimizer's walk: one kernel a rule, made from the list of rules. A launch walks over many ranges, a
 * block over one tile of one of them, which it finds in the table. Unscaling, clipping, the update and the cast of what
 * is published are one pass, which memory bounds: 28 bytes an element of AdamW in fp32 (master and two slots read and
 * written, the gradient read), and 2 or 4 more where values are published. */
#include "device/cuda/run.cuh"

#include "optim/rules.h"

/* A rule as a type; `directs`: what it returns is a direction, which takes the gradient's place. */
#define NAME(rule, is_direction)                                                                                       \
    struct rule_##rule {                                                                                               \
        static constexpr bool directs = is_direction;                                                                  \
        static __device__ float of(float p, float g, float *s0, float *s1, cs_hyper h)                                 \
        {                                                                                                              \
            return rule(p, g, s0, s1, h);                                                                              \
        }                                                                                                              \
    };
#define RULE(rule, ...) NAME(rule, false)
#define DIRECTION(rule, ...) NAME(rule, true)
#include "optim/rules.h"

/* Slots that the optimizer lacks, and publish, may be absent. */
struct update_walk {
    cs_view master, gradient, slots[CS_OPTIM_SLOTS], publish;
    cs_state_ranges ranges;
    cs_hyper hyper;
    const cs_gate *gate; /* NULL: open, times 1 */
};

static_assert(CS_RUN * CS_RUN_THREADS == CS_STATE_TILE, "a block's threads have a run of a tile each");

/* The last range whose first tile is this one or an earlier one. */
static __device__ cs_state_range find_range(cs_state_ranges ranges, int64_t tile)
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

static __device__ cs_run load_present(cs_view x, int64_t at, cs_range within)
{
    return x.data ? cs_run_load(x, at, within) : cs_run{};
}

template <typename Rule>
static __device__ void update_run(const update_walk &walk, const cs_view *slots, cs_hyper hyper, int64_t at,
                                  cs_range within)
{
    cs_run run_p = cs_run_load(walk.master, at, within), run_g = cs_run_load(walk.gradient, at, within);
    cs_run run_0 = load_present(slots[0], at, within), run_1 = load_present(slots[1], at, within);
    float p[CS_RUN], g[CS_RUN], slot0[CS_RUN], slot1[CS_RUN];
    cs_run_widen(p, run_p, walk.master.dtype);
    cs_run_widen(g, run_g, walk.gradient.dtype);
    cs_run_widen(slot0, run_0, slots[0].dtype);
    cs_run_widen(slot1, run_1, slots[1].dtype);
    float *to = Rule::directs ? g : p;
    for (int i = 0; i < CS_RUN; i++)
        to[i] = Rule::of(p[i], g[i] * hyper.grad_scale, &slot0[i], &slot1[i], hyper);
    cs_run_store(Rule::directs ? walk.gradient : walk.master, at, within, to);
    if (slots[0].data)
        cs_run_store(slots[0], at, within, slot0);
    if (slots[1].data)
        cs_run_store(slots[1], at, within, slot1);
    if (walk.publish.data)
        cs_run_store(walk.publish, at, within, p);
}

template <typename Rule> static __global__ void __launch_bounds__(CS_RUN_THREADS) update_tile(update_walk walk)
{
    if (walk.gate && !walk.gate->open)
        return;
    int64_t tile = walk.ranges.tile + blockIdx.x;
    cs_state_range range = find_range(walk.ranges, tile);
    cs_range within = { range.from, range.to };
    cs_hyper hyper = walk.hyper;
    cs_view slots[CS_OPTIM_SLOTS];
    hyper.grad_scale *= walk.gate ? walk.gate->factor : 1;
    if (!range.decays)
        hyper.decay = 0;
    for (int i = 0; i < CS_OPTIM_SLOTS; i++)
        slots[i] = walk.slots[i].data ? cs_run_from(walk.slots[i], range.slots[i] - range.from) : walk.slots[i];
    int64_t at = (range.from / CS_STATE_TILE + tile - range.tile) * CS_STATE_TILE + (int64_t)threadIdx.x * CS_RUN;
    if (at + CS_RUN > range.from && at < range.to)
        update_run<Rule>(walk, slots, hyper, at, within);
}

#define RULE(rule, ...) update_tile<rule_##rule>,
#define DIRECTION(rule, ...) update_tile<rule_##rule>,
static void (*const walks[])(update_walk) = {
#include "optim/rules.h"
};

extern "C" void cs_cuda_update(cs_stream *stream, const cs_optimizer *optimizer, cs_hyper hyper,
                               const cs_state_rows *rows)
{
    update_walk walk = {};
    walk.master = cs_run_view(rows->master);
    walk.gradient = cs_run_view(rows->gradient);
    for (int i = 0; i < CS_OPTIM_SLOTS; i++)
        walk.slots[i] = cs_run_view(rows->slots[i]);
    walk.publish = cs_run_view(rows->publish);
    walk.ranges = rows->ranges;
    walk.hyper = hyper;
    walk.gate = rows->gate;
    cs_launch(cs_cuda_stream(stream), cs_shape{ dim3((unsigned)rows->ranges.tiles), dim3(CS_RUN_THREADS) },
              walks[optimizer->kind], walk);
}
