/* part.c - address of an element of a unit's row in this rank's buffers. */
#include "zero/part.h"

bool cs_part_dry(const cs_shard *shard)
{
    return shard->zero->comm == NULL;
}

cs_stream *cs_part_stream(const cs_shard *shard, cs_stream_role role)
{
    return cs_device_stream(shard->zero->device, role);
}

void cs_part_follow(const cs_shard *shard, cs_stream_role later, cs_stream_role earlier)
{
    cs_stream_follow(cs_part_stream(shard, later), cs_part_stream(shard, earlier));
}

int64_t cs_part_from(const cs_shard *shard)
{
    return shard->zero->stage.optim == CS_SHARDED ? shard->part.from : 0;
}

int64_t cs_part_count(const cs_shard *shard)
{
    return cs_stage_share(shard->zero, shard->zero->stage.optim, shard->padded);
}

cs_range cs_part_moved(const cs_shard *shard)
{
    return (cs_range){ cs_part_from(shard), cs_part_from(shard) + cs_part_count(shard) };
}

cs_range cs_part_own(const cs_shard *shard, const cs_unit_entry *entry)
{
    return cs_range_overlap(cs_part_moved(shard), (cs_range){ entry->offset, entry->offset + entry->count });
}

void *cs_part_at(void *row, cs_dtype dtype, int64_t element)
{
    return (char *)row + (size_t)element * cs_dtype_bytes(dtype);
}

void *cs_part_home(const cs_shard *shard, int64_t element)
{
    int64_t from = shard->zero->stage.params == CS_SHARDED ? shard->part.from : 0;
    return cs_part_at(shard->home, shard->zero->precision.values, element - from);
}

void *cs_part_sum(const cs_shard *shard, int64_t element)
{
    int64_t from = shard->zero->stage.grads == CS_SHARDED ? shard->part.from : 0;
    return cs_part_at(shard->sum, shard->zero->precision.sums, element - from);
}

void *cs_part_master(const cs_shard *shard, int64_t element)
{
    return cs_part_at(shard->master, shard->zero->precision.masters, element - cs_part_from(shard));
}

void *cs_part_slot(const cs_shard *shard, int slot, int64_t element)
{
    cs_range before = { cs_part_from(shard), element };
    return cs_part_at(shard->slots[slot], shard->zero->precision.slots,
                      cs_stage_slot_share(shard->zero, shard->unit, before, slot));
}
