/* route.c - routing in mixtures of experts: the choice of the experts for each row, and the gradient of the router's
 * logits. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"
#include "device/slot.h"

#include <string.h>

enum { MIN_ROWS = 8 };

/* ---- routing ---- */

typedef struct {
    const cs_routing *routing;
    cs_tensor factors, logits, dlogits, dfactors, dprobabilities;
    int64_t experts, chosen;
    bool normalized;
} route_job;

static void read_probabilities(const route_job *all, int64_t row, float probability[CS_MAX_EXPERTS])
{
    float wide[CS_MAX_EXPERTS];
    const float *logits = ce_elements_read(all->logits, row * all->experts, all->experts, wide);
    memcpy(probability, logits, (size_t)all->experts * sizeof *probability);
    float sum = ce_elements_exp(probability, all->experts, 1, ce_elements_max(logits, all->experts));
    for (int64_t e = 0; e < all->experts; e++)
        probability[e] /= sum;
}

/* Chooses the experts of each row. `slots` holds the numbers of the chosen experts until number_slots replaces these
 * numbers by slots. */
static void choose_rows(void *argument, ce_range range, int part)
{
    (void)part;
    const route_job *all = argument;
    float probability[CS_MAX_EXPERTS];
    for (int64_t row = range.from; row < range.to; row++) {
        int32_t *chosen = (int32_t *)all->routing->slots.data + row * all->chosen;
        read_probabilities(all, row, probability);
        for (int64_t j = 0; j < all->chosen; j++) {
            int32_t best = 0;
            for (int32_t e = 1; e < all->experts; e++)
                best = probability[e] > probability[best] ? e : best;
            chosen[j] = best;
            probability[best] = -1;
        }
    }
}

/* Numbers the slots in the order of experts, and the slots of one expert in the order of rows. */
static void number_slots(const route_job *all)
{
    int32_t next[CS_MAX_EXPERTS] = { 0 }, *bounds = all->routing->bounds.data, *rows = all->routing->rows.data;
    int32_t *slots = all->routing->slots.data, *tokens = all->routing->tokens.data;
    int64_t count = cs_count(all->routing->slots);
    memset(tokens, 0, (size_t)all->experts * sizeof *tokens);
    for (int64_t i = 0; i < count; i++)
        tokens[slots[i]]++;
    bounds[0] = 0;
    for (int64_t e = 0; e < all->experts; e++) {
        next[e] = bounds[e];
        bounds[e + 1] = bounds[e] + tokens[e];
    }
    for (int64_t i = 0; i < count; i++) {
        int32_t slot = next[slots[i]]++;
        rows[slot] = (int32_t)(i / all->chosen);
        slots[i] = slot;
    }
}

static int expert_of(const route_job *all, int32_t slot)
{
    return ce_slot_expert(all->routing->bounds.data, (int)all->experts, slot);
}

/* Returns the divisor of the chosen probabilities of a row. If all->normalized is true, the divisor is the sum of these
 * probabilities; otherwise it is 1. */
static float divisor_of(const route_job *all, const int32_t *slots, const float *probability)
{
    float sum = 0;
    for (int64_t j = 0; j < all->chosen && all->normalized; j++)
        sum += probability[expert_of(all, slots[j])];
    return all->normalized ? sum : 1;
}

static void weigh_rows(void *argument, ce_range range, int part)
{
    (void)part;
    const route_job *all = argument;
    float probability[CS_MAX_EXPERTS];
    for (int64_t row = range.from; row < range.to; row++) {
        const int32_t *slots = (const int32_t *)all->routing->slots.data + row * all->chosen;
        read_probabilities(all, row, probability);
        float divisor = divisor_of(all, slots, probability);
        for (int64_t j = 0; j < all->chosen; j++) {
            float factor = probability[expert_of(all, slots[j])] / divisor;
            ce_elements_write(all->factors, slots[j], 1, &factor);
        }
    }
}

/* Adds up the probabilities of each expert in the order of the rows. */
static void add_probabilities(const route_job *all)
{
    double sum[CS_MAX_EXPERTS] = { 0 };
    float probability[CS_MAX_EXPERTS];
    for (int64_t row = 0; row < cs_rows(all->logits); row++) {
        read_probabilities(all, row, probability);
        for (int64_t e = 0; e < all->experts; e++)
            sum[e] += (double)probability[e];
    }
    for (int64_t e = 0; e < all->experts; e++)
        ((float *)all->routing->probabilities.data)[e] = (float)sum[e];
}

void ce_cpu_route(cs_device *device, const cs_routing *routing, cs_tensor factors, cs_tensor logits, bool normalized)
{
    route_job all = { .routing = routing, .factors = factors, .logits = logits, .normalized = normalized };
    all.experts = cs_columns(logits);
    all.chosen = cs_columns(routing->slots);
    ce_cpu_walk(device, cs_rows(logits), MIN_ROWS, choose_rows, &all);
    number_slots(&all);
    ce_cpu_walk(device, cs_rows(logits), MIN_ROWS, weigh_rows, &all);
    if (routing->probabilities.data)
        add_probabilities(&all);
}

/* Computes the gradient of the logits, through the softmax: dlogit = p (dp - sum of p dp). The factor of expert e is
 * f_e = p_e / s, where s is the sum of the chosen probabilities. So dp_e is (df_e - sum of f df) / s; without
 * normalization, dp_e is df_e. */
static void route_grad_rows(void *argument, ce_range range, int part)
{
    (void)part;
    const route_job *all = argument;
    const float *dfactors = all->dfactors.data, *further = all->dprobabilities.data;
    float probability[CS_MAX_EXPERTS], slope[CS_MAX_EXPERTS];
    for (int64_t row = range.from; row < range.to; row++) {
        const int32_t *slots = (const int32_t *)all->routing->slots.data + row * all->chosen;
        read_probabilities(all, row, probability);
        float divisor = divisor_of(all, slots, probability), mean = 0;
        for (int64_t e = 0; e < all->experts; e++)
            slope[e] = further ? further[e] : 0;
        for (int64_t j = 0; j < all->chosen && all->normalized; j++)
            mean += probability[expert_of(all, slots[j])] / divisor * dfactors[slots[j]];
        for (int64_t j = 0; j < all->chosen; j++)
            slope[expert_of(all, slots[j])] += (dfactors[slots[j]] - mean) / divisor;
        float common = ce_elements_dot(probability, slope, all->experts);
        for (int64_t e = 0; e < all->experts; e++)
            slope[e] = probability[e] * (slope[e] - common);
        ce_elements_write(all->dlogits, row * all->experts, all->experts, slope);
    }
}

void ce_cpu_route_grad(cs_device *device, cs_tensor dlogits, const cs_routing *routing, cs_tensor dfactors,
                       cs_tensor dprobabilities, cs_tensor logits, bool normalized)
{
    route_job all = { .routing = routing, .dlogits = dlogits, .dfactors = dfactors, .dprobabilities = dprobabilities };
    all.logits = logits;
    all.experts = cs_columns(logits);
    all.chosen = cs_columns(routing->slots);
    all.normalized = normalized;
    ce_cpu_walk(device, cs_rows(logits), MIN_ROWS, route_grad_rows, &all);
}
