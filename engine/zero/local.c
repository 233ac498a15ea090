/* local.c - which elements of one parameter this rank holds. */
#include "zero/part.h"

/* If norms are kept in fp32, every rank holds the parameters of all norms, one after another, so the result is the
 * whole parameter. */
static ce_shard_local_part whole_norm(const ce_shard *shard, const ce_unit_entry *entry)
{
    int64_t place = 0;
    for (int i = 0; shard->unit->entries[i] != entry; i++)
        place += shard->unit->entries[i]->param.norm ? shard->unit->entries[i]->count : 0;
    return (ce_shard_local_part){ .range = { 0, entry->count }, .data = shard->norms + place, .dtype = CS_F32 };
}

ce_shard_local_part ce_shard_local(const ce_shard *shard, const ce_unit_entry *entry)
{
    bool sharded = shard->zero->stage.params == CE_SHARDED;
    ce_range all = { entry->offset, entry->offset + entry->count };
    if (shard->zero->precision.wide_norms && entry->param.norm)
        return whole_norm(shard, entry);
    ce_range held = sharded ? ce_range_overlap(shard->part, all) : all;
    bool any = ce_range_length(held) > 0;
    return (ce_shard_local_part){ .sharded = sharded,
                                  .range =
                                      any ? (ce_range){ held.from - all.from, held.to - all.from } : (ce_range){ 0, 0 },
                                  .data = any ? ce_part_home(shard, held.from) : NULL,
                                  .dtype = ce_stage_values(shard->zero, shard->unit) };
}
