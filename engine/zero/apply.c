/* apply.c - applies optimizers' rules to this rank's elements. */
#include "zero/part.h"
#include "zero/update.h"

void ce_apply_rule(ce_shard *shard, ce_state_ranges ranges, const ce_optimizer *optimizer, ce_hyper hyper,
                   const ce_gate *gate)
{
    const ce_zero *zero = shard->zero;
    ce_precision types = zero->precision;
    int64_t from = ce_part_from(shard), count = ce_part_count(shard);
    ce_state_rows rows = { .master = cs_vector(ce_part_master(shard, from), types.masters, count),
                           .gradient = cs_vector(ce_part_sum(shard, from), types.sums, count),
                           .ranges = ranges,
                           .gate = gate };
    for (int i = 0; i < optimizer->slots; i++) {
        cs_dtype dtype = optimizer->blocks ? CS_U8 : types.slots;
        rows.slots[i] =
            cs_vector(shard->slots[i], dtype, ce_part_slot_bytes(shard, i) / (int64_t)cs_dtype_bytes(dtype));
        rows.scales[i] = ce_part_scale(shard, i, from);
    }
    if (!ce_stage_one_copy(zero) && !optimizer->directs)
        rows.publish = cs_vector(ce_part_home(shard, from), types.values, count);
    ce_state_update(ce_part_stream(shard, CE_COMPUTE), optimizer, hyper, &rows);
}

/* Returns the consecutive ranges of shard `number`, from range number `from` on, that belong to the same group as range
 * `from`. */
static ce_range group_from(const ce_update *update, int number, int from)
{
    const cs_unit *unit = ce_shard_unit(update->shards[number]);
    const ce_ranges *ranges = &update->ranges;
    int group = unit->entries[ranges->entry[from]]->group, to = from + 1;
    while (to < ranges->first[number + 1] && unit->entries[ranges->entry[to]]->group == group)
        to++;
    return (ce_range){ from, to };
}

void ce_apply_rules(ce_update *update, int number, int kind)
{
    ce_shard *shard = update->shards[number];
    const ce_ranges *ranges = &update->ranges;
    ce_range some;
    for (int at = ranges->first[number]; at < ranges->first[number + 1]; at = (int)some.to) {
        int group = ce_shard_unit(shard)->entries[ranges->entry[at]]->group;
        const ce_optimizer *optimizer = &update->zero->groups->group[group].optimizer;
        some = group_from(update, number, at);
        if (kind == CE_DIRECTLY ? !optimizer->directs : (int)optimizer->kind == kind)
            ce_apply_rule(shard, ce_ranges_some(ranges, some), optimizer, update->hyper[group], update->gate);
    }
}
