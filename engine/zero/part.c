/* part.c - returns the address of an element of a unit's parameter row in each of this rank's buffers. */
#include "zero/part.h"

bool ce_part_is_common(const ce_zero *zero)
{
    return zero->common && zero->stage.params == CE_SHARDED;
}

bool ce_part_one_copy(const ce_shard *shard)
{
    return shard->unit->frozen || ce_stage_one_copy(shard->zero);
}

cs_dtype ce_part_masters(const ce_shard *shard)
{
    return shard->unit->frozen ? ce_stage_values(shard->zero, shard->unit) : shard->zero->precision.masters;
}

const char *ce_part_name(const ce_shard *shard)
{
    return *shard->unit->name ? shard->unit->name : shard->unit->kind->name;
}

cs_stream *ce_part_stream(const ce_shard *shard, ce_stream_role role)
{
    return ce_device_stream(shard->zero->device, role);
}

void ce_part_follow(const ce_shard *shard, ce_stream_role later, ce_stream_role earlier)
{
    ce_stream_follow(ce_part_stream(shard, later), ce_part_stream(shard, earlier));
}

int64_t ce_part_from(const ce_shard *shard)
{
    return shard->zero->stage.optim == CE_SHARDED ? shard->part.from : 0;
}

int64_t ce_part_count(const ce_shard *shard)
{
    return ce_stage_share(shard->zero, shard->zero->stage.optim, shard->padded);
}

ce_range ce_part_updated_range(const ce_shard *shard)
{
    return (ce_range){ ce_part_from(shard), ce_part_from(shard) + ce_part_count(shard) };
}

ce_range ce_part_updated(const ce_shard *shard, const ce_unit_entry *entry)
{
    return ce_range_overlap(ce_part_updated_range(shard), (ce_range){ entry->offset, entry->offset + entry->count });
}

void *ce_part_at(void *row, cs_dtype dtype, int64_t element)
{
    return (char *)row + (size_t)element * cs_dtype_bytes(dtype);
}

void *ce_part_home(const ce_shard *shard, int64_t element)
{
    int64_t from = shard->zero->stage.params == CE_SHARDED ? shard->part.from : 0;
    return ce_part_at(shard->home, ce_stage_values(shard->zero, shard->unit), element - from);
}

void *ce_part_sum(const ce_shard *shard, int64_t element)
{
    int64_t from = shard->zero->stage.grads == CE_SHARDED ? shard->part.from : 0;
    return ce_part_at(shard->sum, shard->zero->precision.sums, element - from);
}

void *ce_part_master(const ce_shard *shard, int64_t element)
{
    return ce_part_at(shard->master, ce_part_masters(shard), element - ce_part_from(shard));
}

bool ce_part_sums_in_place(const ce_shard *shard)
{
    return shard->zero->stage.grads == CE_REPLICATED && shard->zero->precision.sums == CS_F32;
}
