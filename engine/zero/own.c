/* own.c - which elements of a unit's row this rank alone adds to norms and saves. */
#include "zero/part.h"

/* Appends a range, merged with the last one if they are adjacent. */
static int append(ce_range *ranges, int count, ce_range range)
{
    if (ce_range_length(range) == 0)
        return count;
    if (count > 0 && ranges[count - 1].to == range.from) {
        ranges[count - 1].to = range.to;
        return count;
    }
    ranges[count] = range;
    return count + 1;
}

int ce_shard_own_ranges(const ce_shard *shard, ce_range *ranges)
{
    int64_t at = 0;
    int count = 0;
    for (int i = 0; i < shard->unit->entry_count; i++) {
        const ce_unit_entry *entry = shard->unit->entries[i];
        const ce_cut *cut = &entry->cut;
        int64_t offset = entry->offset;
        for (int part = 0; part < cut->count; part++) {
            int64_t elements = cut->count == 1 ? entry->count : cut->part[part].count * cut->whole[1];
            if (cut->dim == 1 && part > 0)
                break;
            if (cut->dim == 1)
                elements = entry->count;
            if (cut->part[part].copy > 0) {
                count = append(ranges, count, ce_range_overlap(shard->own, (ce_range){ at, offset }));
                at = offset + elements;
            }
            offset += elements;
        }
    }
    return append(ranges, count, ce_range_overlap(shard->own, (ce_range){ at, shard->padded }));
}
