/* experts.c - mixtures of experts: copies of rows to slots and sums of slots, the products of the experts, the scaling
 * of rows by factors, and the load-balancing loss.
 *
 * One method multiplies experts of all sizes. The number of an expert's tokens changes with each batch: if the method
 * depended on it, rounding would too, and oneDNN would compile a primitive, and so allocate, within a step. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"
#include "device/cpu/gemm.h"
#include "device/cpu/lanes.h"

#include <string.h>

enum {
    MIN_ROWS = 4,
    FEW_ROWS = 8 /* the greatest number of slots for which gemv.c copies the operand a */
};

/* ---- slots ---- */

typedef struct {
    cs_tensor y, x;
    /* When rows are copied to slots: the row of each slot. When slots are summed: for each row, its `chosen` slots. */
    const int32_t *index;
    int64_t chosen;
} slot_job;

static void take_rows(void *argument, ce_range range, int part)
{
    (void)part;
    const slot_job *all = argument;
    int64_t columns = cs_columns(all->x);
    for (int64_t slot = range.from; slot < range.to; slot++)
        memcpy(ce_elements_at(all->y, slot * columns), ce_elements_at(all->x, all->index[slot] * columns),
               (size_t)columns * cs_dtype_bytes(all->x.dtype));
}

void ce_cpu_take_slots(cs_device *device, cs_tensor y, cs_tensor x, const cs_routing *routing)
{
    slot_job all = { .y = y, .x = x, .index = routing->rows.data };
    ce_cpu_walk(device, cs_rows(y), MIN_ROWS, take_rows, &all);
}

static void add_chunk(const void *argument, int64_t row, int64_t at, int64_t count)
{
    const slot_job *all = argument;
    float sum[CE_CHUNK] = { 0 }, wide[CE_CHUNK];
    int64_t columns = cs_columns(all->x);
    for (int64_t j = 0; j < all->chosen; j++) {
        const float *x = ce_elements_read(all->x, all->index[row * all->chosen + j] * columns + at, count, wide);
        ce_elements_add(sum, x, count);
    }
    ce_elements_write(all->y, row * columns + at, count, sum);
}

void ce_cpu_add_slots(cs_device *device, cs_tensor y, cs_tensor x, const cs_routing *routing)
{
    slot_job all = { .y = y, .x = x, .index = routing->slots.data, .chosen = cs_columns(routing->slots) };
    ce_cpu_walk_rows(device, cs_rows(y), cs_columns(x), MIN_ROWS, add_chunk, &all);
}

/* ---- products ---- */

/* Requests the workspace of ce_cpu_steady_product for the case that one expert gets all slots. Otherwise the workspace
 * might grow in a later step, in which an expert gets more slots than before. */
static void reserve(cs_device *device, const ce_experts *job)
{
    const ce_product *whole = &job->product;
    ce_product most = ce_experts_part(job, 0, (ce_range){ 0, cs_rows(whole->a) });
    ce_cpu_reserve_steady(device, &most);
    bool widens = whole->a.dtype != CS_F32 && !ce_gemm_fits();
    int64_t slots = cs_rows(whole->a), rows = widens ? slots : slots < FEW_ROWS ? slots : FEW_ROWS;
    ce_cpu_workspace(device, CE_CPU_LEFT, (size_t)(rows * ce_round_up(cs_columns(whole->a), CE_LANES)) * sizeof(float));
    if (widens && whole->transpose_a)
        ce_cpu_workspace(device, CE_CPU_RIGHT, (size_t)cs_count(whole->b) * sizeof(float));
}

/* Computes the products of the experts, one expert after another. Each product is divided among the threads. */
void ce_cpu_experts(cs_device *device, const ce_experts *job)
{
    const int32_t *bounds = job->bounds.data;
    const ce_product *whole = &job->product;
    int64_t experts = cs_count(job->bounds) - 1;
    reserve(device, job);
    for (int64_t e = 0; e < experts; e++) {
        ce_product part = ce_experts_part(job, e, (ce_range){ bounds[e], bounds[e + 1] });
        if (bounds[e] < bounds[e + 1])
            ce_cpu_steady_product(device, &part);
        else if (whole->transpose_a && !whole->add)
            ce_cpu_fill(device, part.c, 0);
    }
}

/* ---- multiplication of rows by factors ---- */

typedef struct {
    cs_tensor y, x, dy, factors, dfactors;
    bool logistic;
} scale_job;

static float factor_at(const scale_job *all, int64_t row)
{
    float wide, factor = *ce_elements_read(all->factors, row, 1, &wide);
    return all->logistic ? 1 / (1 + ce_elements_exp_one(-factor)) : factor;
}

static void scale_one(const scale_job *all, cs_tensor y, cs_tensor x, int64_t row)
{
    float wide[CE_CHUNK], out[CE_CHUNK], factor = factor_at(all, row);
    int64_t columns = cs_columns(x);
    for (int64_t at = 0; at < columns; at += CE_CHUNK) {
        int64_t count = ce_elements_chunk(at, columns), place = row * columns + at;
        ce_elements_scale(out, ce_elements_read(x, place, count, wide), factor, count);
        ce_elements_write(y, place, count, out);
    }
}

static void scale_part(void *argument, ce_range range, int part)
{
    (void)part;
    const scale_job *all = argument;
    for (int64_t row = range.from; row < range.to; row++)
        scale_one(all, all->y, all->x, row);
}

void ce_cpu_scale_rows(cs_device *device, cs_tensor y, cs_tensor x, cs_tensor factors, bool logistic)
{
    scale_job all = { .y = y, .x = x, .factors = factors, .logistic = logistic };
    ce_cpu_walk(device, cs_rows(x), MIN_ROWS, scale_part, &all);
}

static float dot_of(const scale_job *all, int64_t row)
{
    float wide_x[CE_CHUNK], wide_dy[CE_CHUNK], sum = 0;
    int64_t columns = cs_columns(all->x);
    for (int64_t at = 0; at < columns; at += CE_CHUNK) {
        int64_t count = ce_elements_chunk(at, columns), place = row * columns + at;
        sum += ce_elements_dot(ce_elements_read(all->x, place, count, wide_x),
                               ce_elements_read(all->dy, place, count, wide_dy), count);
    }
    return sum;
}

static void scale_grad_part(void *argument, ce_range range, int part)
{
    (void)part;
    const scale_job *all = argument;
    for (int64_t row = range.from; row < range.to; row++) {
        float factor = factor_at(all, row), slope = all->logistic ? factor * (1 - factor) : 1;
        /* this is computed before dx is written, because dx and dy may be the same memory */
        float dfactor = slope * dot_of(all, row);
        ce_elements_write(all->dfactors, row, 1, &dfactor);
        scale_one(all, all->y, all->dy, row);
    }
}

void ce_cpu_scale_rows_grad(cs_device *device, cs_tensor dx, cs_tensor dfactors, cs_tensor dy, cs_tensor x,
                            cs_tensor factors, bool logistic)
{
    scale_job all = { .y = dx, .x = x, .dy = dy, .factors = factors, .dfactors = dfactors, .logistic = logistic };
    ce_cpu_walk(device, cs_rows(x), MIN_ROWS, scale_grad_part, &all);
}

/* ---- the load-balancing loss ---- */

/* The loss is E sum_e (n_e / R) (p_e / R). E is the number of experts, and R the number of rows of all layers together;
 * n_e counts the slots of expert e and p_e adds up its probabilities, over all layers. The derivative with respect to a
 * probability is E n_e / R^2. */
void ce_cpu_balance(cs_device *device, const cs_balance *balance, cs_tensor loss, cs_tensor targets, cs_tensor dloss)
{
    (void)device;
    int64_t experts = cs_columns(balance->tokens), layers = cs_rows(balance->tokens), rows = cs_rows(loss);
    const int32_t *tokens = balance->tokens.data, *target = targets.data;
    const float *probabilities = balance->probabilities.data, *weights = dloss.data;
    float *dprobabilities = balance->dprobabilities.data, *losses = loss.data;
    double all = (double)rows * (double)layers, value = 0, weight = 0;
    for (int64_t row = 0; row < rows; row++)
        weight += target[row] >= 0 ? (double)weights[row] : 0;
    for (int64_t e = 0; e < experts; e++) {
        double slots = 0, sum = 0;
        for (int64_t layer = 0; layer < layers; layer++) {
            slots += (double)tokens[layer * experts + e];
            sum += (double)probabilities[layer * experts + e];
        }
        double slope = (double)balance->coefficient * (double)experts * slots / (all * all);
        value += slope * sum;
        dprobabilities[e] = (float)(slope * weight);
    }
    for (int64_t row = 0; row < rows; row++)
        losses[row] += target[row] >= 0 ? (float)value : 0;
}
