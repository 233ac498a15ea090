/* update.cu - the optimizer's walk: one kernel a rule, made from the list of rules. Unscaling, clipping, the update and
 * the cast of what is published are one pass, which memory bounds: 30 bytes an element of AdamW in fp32. */
#include "device/cuda/update.cuh"

#include "optim/rules.h"

/* A rule as a type; `directs`: what it returns is a direction, which takes the gradient's place. */
#define NAME(rule, is_direction)                                                                                       \
    struct rule_##rule {                                                                                               \
        static constexpr bool  directs = is_direction;                                                                 \
        static __device__ float of(float p, float g, float *s0, float *s1, cs_hyper h)                                 \
        {                                                                                                              \
            return rule(p, g, s0, s1, h);                                                                              \
        }                                                                                                              \
    };
#define RULE(rule, ...)      NAME(rule, false)
#define DIRECTION(rule, ...) NAME(rule, true)
#include "optim/rules.h"

static __device__ cs_run load_present(cs_view x, int64_t at, cs_range within)
{
    return x.data ? cs_run_load(x, at, within) : cs_run{};
}

template <typename Rule> static __global__ void __launch_bounds__(CS_RUN_THREADS) walk_runs(cs_walk walk)
{
    cs_range all   = cs_run_all(walk.flat);
    float    scale = walk.hyper.grad_scale * (walk.gate ? walk.gate->factor : 1);
    if (walk.gate && !walk.gate->open)
        return;
    for (int64_t at = cs_run_first(walk.flat); at < walk.flat.count; at += cs_run_step()) {
        cs_run run_p = cs_run_load(walk.master, at, all), run_g = cs_run_load(walk.gradient, at, all);
        cs_run run_0 = load_present(walk.slots[0], at, all), run_1 = load_present(walk.slots[1], at, all);
        float  p[CS_RUN], g[CS_RUN], slot0[CS_RUN], slot1[CS_RUN];
        cs_run_widen(p, run_p, walk.master.dtype);
        cs_run_widen(g, run_g, walk.gradient.dtype);
        cs_run_widen(slot0, run_0, walk.slots[0].dtype);
        cs_run_widen(slot1, run_1, walk.slots[1].dtype);
        float *to = Rule::directs ? g : p;
        for (int i = 0; i < CS_RUN; i++)
            to[i] = Rule::of(p[i], g[i] * scale, &slot0[i], &slot1[i], walk.hyper);
        cs_run_store(Rule::directs ? walk.gradient : walk.master, at, all, to);
        if (walk.slots[0].data)
            cs_run_store(walk.slots[0], at, all, slot0);
        if (walk.slots[1].data)
            cs_run_store(walk.slots[1], at, all, slot1);
        if (walk.publish.data)
            cs_run_store(walk.publish, at, all, p);
    }
}

#define RULE(rule, ...)      walk_runs<rule_##rule>,
#define DIRECTION(rule, ...) walk_runs<rule_##rule>,
static void (*const walks[])(cs_walk) = {
#include "optim/rules.h"
};

void cs_update_walk(cs_stream *stream, const cs_optimizer *optimizer, const cs_walk &walk)
{
    cs_launch(cs_cuda_stream(stream), cs_run_shape(walk.flat), walks[optimizer->kind], walk);
}

extern "C" void cs_cuda_update(cs_stream *stream, const cs_optimizer *optimizer, cs_hyper hyper,
                               const cs_state_span *span)
{
    cs_walk walk  = {};
    walk.master   = cs_view{ (unsigned char *)span->master, CS_F32 };
    walk.gradient = cs_view{ (unsigned char *)span->gradient, CS_F32 };
    for (int i = 0; i < CS_OPTIM_SLOTS; i++)
        walk.slots[i] = cs_view{ (unsigned char *)span->slots[i], CS_F32 };
    walk.publish = cs_view{ (unsigned char *)span->publish, span->dtype };
    walk.flat    = cs_run_flat(cs_vector(span->master, CS_F32, span->count));
    walk.hyper   = hyper;
    walk.gate    = span->gate;
    cs_update_walk(stream, optimizer, walk);
}
