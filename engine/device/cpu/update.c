/* update.c - the optimizer's update: one loop for each rule, made from the list of rules (optim/rules.h). */
#include "device/cpu/blocks.h"
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

#include "optim/rules.h"

enum { MIN_ELEMENTS = 16384, ROWS = 2 + CE_OPTIM_SLOTS };

typedef void rule_chunk(float *restrict master, float *restrict gradient, float *restrict slot0, float *restrict slot1,
                        int64_t count, ce_hyper hyper);

#define WALK(rule, to)                                                                                                 \
    static void walk_##rule(float *restrict master, float *restrict gradient, float *restrict slot0,                   \
                            float *restrict slot1, int64_t count, ce_hyper hyper)                                      \
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

/* The arguments of the update of one range. */
typedef struct {
    rule_chunk *walk;
    cs_tensor rows[ROWS]; /* master, gradient and slots; a slot that the optimizer does not have is absent */
    int64_t first[ROWS];  /* for each tensor in `rows`, the index of the range's first element */
    float *scales[ROWS];  /* the scales of slots in blocks, from the range's first block on */
    const ce_dynamic_map *maps[ROWS];
    cs_tensor publish;
    ce_hyper hyper;
    int64_t count, each; /* the elements of the range, and the elements of a unit in which the threads divide them */
} update_job;

/* Returns `count` elements of all->rows[row]: the tensor's own memory if the tensor is fp32, otherwise an fp32 copy in
 * `copy`. If the tensor is absent, returns `copy`, which holds zeros. */
static float *open_row(float *copy, const update_job *all, int row, int64_t at, int64_t count)
{
    cs_tensor x = all->rows[row];
    if (x.data && x.dtype == CS_F32)
        return (float *)x.data + all->first[row] + at;
    if (x.data && x.dtype == CS_U8)
        ce_blocks_decode(copy, (uint8_t *)x.data + all->first[row] + at, all->scales[row] + at / CE_OPTIM_BLOCK, count,
                         all->maps[row]);
    else if (x.data)
        ce_elements_widen(copy, ce_elements_at(x, all->first[row] + at), x.dtype, count);
    return copy;
}

static void close_row(const float *values, const update_job *all, int row, int64_t at, int64_t count)
{
    cs_tensor x = all->rows[row];
    if (x.data && x.dtype == CS_U8)
        ce_blocks_encode((uint8_t *)x.data + all->first[row] + at, all->scales[row] + at / CE_OPTIM_BLOCK, values,
                         count, all->maps[row]);
    else if (x.data && x.dtype != CS_F32)
        ce_elements_write(x, all->first[row] + at, count, values);
}

static void update_chunk(const update_job *all, float copies[ROWS][CE_CHUNK], int64_t at, int64_t count)
{
    float *x[ROWS];
    for (int row = 0; row < ROWS; row++)
        x[row] = open_row(copies[row], all, row, at, count);
    all->walk(x[0], x[1], x[2], x[3], count, all->hyper);
    for (int row = 0; row < ROWS; row++)
        close_row(x[row], all, row, at, count);
    if (all->publish.data)
        ce_elements_write(all->publish, all->first[0] + at, count, x[0]);
}

static void update_part(void *argument, ce_range part, int index)
{
    (void)index;
    const update_job *all = argument;
    int64_t to = part.to * all->each < all->count ? part.to * all->each : all->count;
    float copies[ROWS][CE_CHUNK] = { 0 };
    for (int64_t at = part.from * all->each; at < to; at += CE_CHUNK)
        update_chunk(all, copies, at, ce_elements_chunk(at, to));
}

void ce_cpu_update(cs_stream *stream, const ce_optimizer *optimizer, ce_hyper hyper, const ce_state_rows *rows)
{
    if (rows->gate && !rows->gate->open)
        return;
    if (rows->gate)
        hyper.grad_scale *= rows->gate->factor;
    for (int64_t i = 0; i < rows->ranges.count; i++) {
        const ce_state_range *range = &rows->ranges.table[i];
        int64_t block = range->from / CE_OPTIM_BLOCK, each = optimizer->blocks ? CE_OPTIM_BLOCK : 1;
        update_job all = { .walk = walks[optimizer->kind],
                           .rows = { rows->master, rows->gradient, rows->slots[0], rows->slots[1] },
                           .first = { range->from, range->from, range->slots[0], range->slots[1] },
                           .maps = { NULL, NULL, ce_dynamic_signed(), ce_dynamic_unsigned() },
                           .publish = rows->publish,
                           .hyper = hyper,
                           .count = range->to - range->from,
                           .each = each };
        for (int slot = 0; slot < CE_OPTIM_SLOTS && optimizer->blocks; slot++)
            all.scales[2 + slot] = rows->scales[slot] ? rows->scales[slot] + block : NULL;
        if (!range->decays)
            all.hyper.decay = 0;
        ce_cpu_walk(stream->device, ce_divide_up(all.count, each), MIN_ELEMENTS / each, update_part, &all);
    }
}
