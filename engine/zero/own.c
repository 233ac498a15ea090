/* own.c - the elements of a part of a parameter, and of a unit's row those that only this rank adds to norms and
 * saves. */
#include "zero/part.h"
#include "base/must.h"

ce_range ce_part_of_cut(const ce_unit_entry *entry, int index)
{
    const ce_cut *cut = &entry->cut;
    int64_t from = entry->offset;
    if (cut->dim == 1) {
        CE_ASSERT(cut->count == 1 || cut->part[index].copies == 1);
        return (ce_range){ from, from + entry->count };
    }
    for (int i = 0; i < index; i++)
        from += cut->part[i].count * cut->whole[1];
    return (ce_range){ from, from + cut->part[index].count * cut->whole[1] };
}

int ce_shard_own_ranges(const ce_shard *shard, ce_range *ranges)
{
    int64_t from = shard->own.from;
    int count = 0;
    for (int i = 0; i < shard->unit->entry_count; i++) {
        const ce_unit_entry *entry = shard->unit->entries[i];
        for (int at = 0; at < entry->cut.count; at++) {
            ce_range copy = ce_range_overlap(shard->own, ce_part_of_cut(entry, at));
            if (entry->cut.part[at].copy == 0 || ce_range_length(copy) == 0)
                continue;
            if (from < copy.from)
                ranges[count++] = (ce_range){ from, copy.from };
            from = copy.to;
        }
    }
    if (from < shard->own.to)
        ranges[count++] = (ce_range){ from, shard->own.to };
    return count;
}
