/* plan.c - computes, before the run, the memory that depends on sizes and types only: the bytes of each kind of data
 * that exists between steps, and the row in which gradients are converted (ce_zero.wire). It also lists the
 * collectives that a step calls. */
#include "zero/part.h"
#include "base/beat.h"

/* Returns the bytes of the gaps behind the unit's padded parameters in this rank's values, gradient sums, master values
 * and slots. If such an array is SHARDED, only the gap elements in `part` are counted, otherwise all of them. */
static size_t padding_of(const ce_zero *zero, const cs_unit *unit, ce_range part)
{
    ce_precision types = zero->precision;
    ce_stage stage = zero->stage;
    size_t bytes = 0, values = cs_dtype_bytes(ce_stage_values(zero, unit)),
           masters = ce_stage_one_copy(zero) ? 0 : cs_dtype_bytes(types.masters);
    size_t moved = masters + (size_t)zero->optimizer.slots * cs_dtype_bytes(types.slots);
    for (int i = 0; i < unit->entry_count; i++) {
        ce_range gap = ce_unit_gap(unit->entries[i]);
        size_t all = (size_t)ce_range_length(gap);
        size_t mine = (size_t)ce_range_length(ce_range_overlap(gap, part));
        bytes += (stage.params == CE_SHARDED ? mine : all) * values;
        if (unit->frozen)
            continue;
        bytes += (stage.grads == CE_SHARDED ? mine : all) * cs_dtype_bytes(types.sums);
        bytes += (stage.optim == CE_SHARDED ? mine : all) * moved;
    }
    return bytes;
}

/* Returns the number of rows of the unit's padded parameters. If `held` is true, the rows of zeros in the gaps behind
 * these parameters are included. */
static int64_t rows_of(const cs_unit *unit, bool held)
{
    int64_t rows = 0;
    for (int i = 0; i < unit->entry_count; i++) {
        const cs_param *param = &unit->entries[i]->param;
        if (param->padded)
            rows += held ? param->held : cs_rows(param->value);
    }
    return rows;
}

static ce_plan plan_unit(const ce_zero *zero, const cs_unit *unit)
{
    ce_precision types = zero->precision;
    int64_t padded = ce_stage_padded(zero, unit->length);
    size_t width = cs_dtype_bytes(ce_stage_values(zero, unit));
    size_t optim = (size_t)ce_stage_share(zero, zero->stage.optim, padded);
    ce_range whole = { 0, padded }, mine = zero->stage.optim == CE_SHARDED ? ce_stage_part(zero, padded) : whole;
    ce_plan plan = {
        .values = (size_t)ce_stage_share(zero, zero->stage.params, padded) * width +
                  (size_t)ce_stage_norms(zero, unit) * sizeof(float),
        .padding = padding_of(zero, unit, ce_stage_part(zero, padded)),
        .rows_held = rows_of(unit, true),
        .rows_zero = rows_of(unit, true) - rows_of(unit, false),
    };
    if (zero->offload_params)
        plan.offloaded = (size_t)ce_range_length(ce_stage_part(zero, padded)) * width;
    if (unit->frozen)
        return plan;
    for (int i = 0; i < zero->optimizer.slots; i++)
        plan.slots += (size_t)ce_slots_bytes(zero, unit, mine, i) +
                      (size_t)ce_slots_scales(zero, ce_range_length(mine)) * sizeof(float);
    plan.gradients = (size_t)ce_stage_share(zero, zero->stage.grads, padded) * cs_dtype_bytes(types.sums);
    plan.masters = ce_stage_one_copy(zero) ? 0 : optim * cs_dtype_bytes(types.masters);
    plan.offloaded += zero->offload_optimizer ? plan.masters + plan.slots : 0;
    return plan;
}

ce_plan ce_plan_persistent(const ce_zero *zero, const cs_model *model)
{
    ce_plan plan = { 0 };
    for (int i = 0; i < model->total; i++) {
        ce_plan unit = plan_unit(zero, model->units[i]);
        plan.values += unit.values;
        plan.gradients += unit.gradients;
        plan.masters += unit.masters;
        plan.slots += unit.slots;
        plan.offloaded += unit.offloaded;
        plan.padding += unit.padding;
        plan.rows_held += unit.rows_held;
        plan.rows_zero += unit.rows_zero;
    }
    return plan;
}

/* No memory for converted gradients is needed if gradients are sent in fp32, or if the sums of whole rows are sent and
 * already have the type in which gradients are sent. */
size_t ce_plan_wire(const ce_zero *zero, const cs_model *model)
{
    ce_precision types = zero->precision;
    int64_t longest = 0;
    if (types.wire == CS_F32 || (zero->stage.grads == CE_REPLICATED && types.sums == types.wire))
        return 0;
    for (int i = 0; i < model->count; i++) {
        int64_t padded = ce_stage_padded(zero, model->units[i]->length), bucket;
        ce_bucket_first(zero, model, i, &bucket);
        longest = padded > longest ? padded : longest;
        longest = bucket > longest ? bucket : longest;
    }
    return (size_t)longest * cs_dtype_bytes(types.wire);
}

/* Lists the calls of a bucket's or unit's reduction at the end of a step (reduction.c). */
static void list_reduction(ce_traffic *traffic, const ce_zero *zero, const ce_shard *shard)
{
    ce_precision types = zero->precision;
    ce_bucket bucket = zero->buckets[shard->unit->index];
    int64_t part = ce_range_length(shard->part), sums = bucket.completes ? bucket.elements : 0;
    ce_traffic_call replicas = {
        CS_AXIS_REPLICATE, CE_BEAT_ALL_REDUCE, sums, ce_reduction_across_type(types), 1, 0, 0
    };
    if (zero->stage.optim == CE_REPLICATED) {
        ce_traffic_add(traffic, (ce_traffic_call){ CS_AXIS_SHARD, CE_BEAT_ALL_REDUCE, sums, types.wire, 1, 0, 0 });
        return;
    }
    if (zero->stage.grads == CE_REPLICATED) {
        ce_traffic_add(traffic, (ce_traffic_call){ CS_AXIS_SHARD, CE_BEAT_REDUCE_SCATTER, part, types.wire, 1, 0, 0 });
        replicas.count = part;
        replicas.dtype = types.wire;
    }
    if (zero->replicas > 1)
        ce_traffic_add(traffic, replicas);
}

void ce_plan_calls(ce_traffic *traffic, const ce_zero *zero, const ce_shard *shard, int64_t micros)
{
    ce_precision types = zero->precision;
    ce_stage stage = zero->stage;
    int64_t part = shard->padded / zero->world, norms = ce_stage_norms(zero, shard->unit);
    ce_traffic_call gather = {
        CS_AXIS_SHARD, CE_BEAT_ALL_GATHER, part, ce_stage_values(zero, shard->unit), shard->gathers * micros, 0, 0
    };
    if (shard->padded == 0)
        return;
    ce_traffic_add(traffic, gather);
    if (shard->unit->frozen)
        return;
    ce_copies_calls(traffic, shard, micros);
    if (stage.grads == CE_SHARDED)
        ce_traffic_add(traffic,
                       (ce_traffic_call){ CS_AXIS_SHARD, CE_BEAT_REDUCE_SCATTER, part, types.wire, micros, 0, 0 });
    list_reduction(traffic, zero, shard);
    if (stage.optim == CE_SHARDED)
        ce_traffic_add(traffic, (ce_traffic_call){ CS_AXIS_SHARD, CE_BEAT_ALL_REDUCE, norms, CS_I32, 1, 0, 0 });
    gather.times = stage.params == CE_REPLICATED && stage.optim == CE_SHARDED;
    ce_traffic_add(traffic, gather);
}
