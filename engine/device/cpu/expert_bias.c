/* expert_bias.c - mixtures of experts with biases: each slot gets the bias of its expert. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"
#include "device/slot.h"

enum { MIN_ROWS = 4 };

typedef struct {
    cs_tensor y, bias, dbias, factors, dfactors;
    const int32_t *bounds; /* first slot of each expert, and the number of slots */
} bias_job;

static int64_t expert_of(const bias_job *all, int64_t slot)
{
    return ce_slot_expert(all->bounds, (int)cs_rows(all->bias), (int32_t)slot);
}

static float factor_at(const bias_job *all, int64_t slot)
{
    float wide;
    return all->factors.data ? *ce_elements_read(all->factors, slot, 1, &wide) : 1;
}

static void add_chunk(const void *argument, int64_t slot, int64_t at, int64_t count)
{
    const bias_job *all = argument;
    float wide_y[CE_CHUNK], wide[CE_CHUNK], out[CE_CHUNK], factor = factor_at(all, slot);
    int64_t columns = cs_columns(all->y), place = slot * columns + at;
    const float *y = ce_elements_read(all->y, place, count, wide_y);
    const float *bias = ce_elements_read(all->bias, expert_of(all, slot) * columns + at, count, wide);
    for (int64_t i = 0; i < count; i++)
        out[i] = y[i] + factor * bias[i];
    ce_elements_write(all->y, place, count, out);
}

void ce_cpu_expert_bias(cs_device *device, cs_tensor y, cs_tensor bias, cs_tensor factors, const cs_routing *routing)
{
    bias_job all = { .y = y, .bias = bias, .factors = factors, .bounds = routing->bounds.data };
    ce_cpu_walk_rows(device, cs_rows(y), cs_columns(y), MIN_ROWS, add_chunk, &all);
}

/* Adds up the slots of expert e, in their order. Here y is the gradient of the biased rows. */
static void sum_chunk(const void *argument, int64_t e, int64_t at, int64_t count)
{
    const bias_job *all = argument;
    float wide[CE_CHUNK], sum[CE_CHUNK] = { 0 };
    int64_t columns = cs_columns(all->y);
    float *to = (float *)all->dbias.data + e * columns + at;
    for (int64_t slot = all->bounds[e]; slot < all->bounds[e + 1]; slot++) {
        const float *dy = ce_elements_read(all->y, slot * columns + at, count, wide);
        float factor = factor_at(all, slot);
        for (int64_t i = 0; i < count; i++)
            sum[i] += factor * dy[i];
    }
    for (int64_t i = 0; i < count; i++)
        to[i] = sum[i] + (all->dbias.overwrite ? 0 : to[i]);
}

static void dot_slots(void *argument, ce_range slots, int part)
{
    (void)part;
    const bias_job *all = argument;
    float wide_dy[CE_CHUNK], wide[CE_CHUNK];
    int64_t columns = cs_columns(all->y);
    for (int64_t slot = slots.from; slot < slots.to; slot++) {
        float *to = (float *)all->dfactors.data + slot;
        for (int64_t at = 0, count, e = expert_of(all, slot); at < columns; at += count) {
            count = ce_elements_chunk(at, columns);
            *to += ce_elements_dot(ce_elements_read(all->y, slot * columns + at, count, wide_dy),
                                   ce_elements_read(all->bias, e * columns + at, count, wide), count);
        }
    }
}

void ce_cpu_expert_bias_grad(cs_device *device, cs_tensor dbias, cs_tensor dfactors, cs_tensor dy, cs_tensor bias,
                             cs_tensor factors, const cs_routing *routing)
{
    bias_job all = {
        .y = dy, .bias = bias, .dbias = dbias, .factors = factors, .dfactors = dfactors, .bounds = routing->bounds.data
    };
    if (dbias.data)
        ce_cpu_walk_rows(device, cs_rows(bias), cs_columns(bias), 1, sum_chunk, &all);
    if (dfactors.data)
        ce_cpu_walk(device, cs_rows(dy), MIN_ROWS, dot_slots, &all);
}
