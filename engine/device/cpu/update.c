/* update.c - the optimizer's walk: one loop a rule, made from the list of rules. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

#include "optim/rules.h"

enum { LEAST = 16384 };

typedef void rule_chunk(float *restrict master, float *restrict gradient, float *restrict slot0, float *restrict slot1,
                        int64_t count, cs_hyper hyper);

#define WALK(rule, to)                                                                                                 \
    static void walk_##rule(float *restrict master, float *restrict gradient, float *restrict slot0,                   \
                            float *restrict slot1, int64_t count, cs_hyper hyper)                                      \
    {                                                                                                                  \
        for (int64_t i = 0; i < count; i++)                                                                            \
            to[i] = rule(master[i], gradient[i] * hyper.grad_scale, &slot0[i], &slot1[i], hyper);                      \
    }
#define RULE(rule, ...) WALK(rule, master)
#define DIRECTION(rule, ...) WALK(rule, gradient)
#include "optim/rules.h"

#define RULE(rule, ...) walk_##rule,
#define DIRECTION(rule, ...) walk_##rule,
static rule_chunk *const walks[] = {
#include "optim/rules.h"
};

typedef struct {
    rule_chunk *walk;
    const cs_state_span *span;
    cs_hyper hyper;
} update_job;

static void update_part(void *argument, cs_range range, int part)
{
    (void)part;
    const update_job *all = argument;
    const cs_state_span *span = all->span;
    float none[CS_OPTIM_SLOTS][CS_CHUNK] = { 0 }; /* for slots the optimizer does not have */
    for (int64_t at = range.from; at < range.to; at += CS_CHUNK) {
        int64_t count = range.to - at < CS_CHUNK ? range.to - at : CS_CHUNK;
        float *master = span->master + at;
        all->walk(master, span->gradient + at, span->slots[0] ? span->slots[0] + at : none[0],
                  span->slots[1] ? span->slots[1] + at : none[1], count, all->hyper);
        if (span->publish)
            cs_elements_write(cs_vector(span->publish, span->dtype, span->count), at, count, master);
    }
}

void cs_cpu_update(cs_stream *stream, const cs_optimizer *optimizer, cs_hyper hyper, const cs_state_span *span)
{
    update_job all = { walks[optimizer->kind], span, hyper };
    if (span->gate && !span->gate->open)
        return;
    if (span->gate)
        all.hyper.grad_scale *= span->gate->factor;
    cs_cpu_walk(stream->device, span->count, LEAST, update_part, &all);
}
