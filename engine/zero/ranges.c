/* ranges.c - the table of the ranges of a rank's rows that each parameter group updates. The kernel launches of an
 * update read the table.
 *
 * The parameters of a unit that belong to one group share their rule and its hyper-parameters, so one launch updates
 * them all. The table says for each range whether weight decay applies, because vectors have none by default. Numbers
 * that change from step to step are arguments of the launch, so the table never changes. */
#include "zero/part.h"
#include "base/must.h"

#include <stdlib.h>

enum { ALIGNMENT = 64 };

static int count_entries(const cs_model *model)
{
    int count = 0;
    for (int i = 0; i < model->count; i++)
        count += model->units[i]->entry_count;
    return count;
}

size_t ce_ranges_bytes(const cs_model *model)
{
    return (size_t)ce_round_up(count_entries(model) * (int64_t)sizeof(ce_state_range), ALIGNMENT);
}

/* Returns this rank's elements of a parameter, possibly none, as a range of this rank's rows, without the member
 * `tile`. */
static ce_state_range range_of(const ce_shard *shard, int entry)
{
    const ce_unit_entry *from = shard->unit->entries[entry];
    ce_range own_range = ce_part_updated(shard, from);
    int64_t begin = ce_part_from(shard);
    ce_state_range range = { .from = own_range.from - begin,
                             .to = own_range.to - begin,
                             .decays = from->param.decay || shard->zero->groups->group[from->group].decays };
    for (int i = 0; i < CE_OPTIM_SLOTS; i++)
        range.slots[i] = ce_slots_bytes(shard->zero, shard->unit, (ce_range){ begin, own_range.from }, i) /
                         (int64_t)cs_dtype_bytes(ce_slots_type(shard->zero, from));
    return range;
}

/* Appends the ranges of those parameters of a unit that belong to this group. `count` is the number of ranges in the
 * table before the call. Returns the number of ranges in the table after the call. */
static int add_group(ce_ranges *ranges, const ce_shard *shard, int group, int count)
{
    const cs_unit *unit = ce_shard_unit(shard);
    for (int i = 0; i < unit->entry_count; i++) {
        ce_state_range range = range_of(shard, i);
        int64_t tiles = ce_state_tiles((ce_range){ range.from, range.to });
        if (unit->entries[i]->group != group || tiles == 0)
            continue;
        range.tile = ranges->here[count].tile;
        ranges->entry[count] = i;
        ranges->here[count] = range;
        ranges->here[count + 1].tile = range.tile + tiles;
        count++;
    }
    return count;
}

static void fill(ce_ranges *ranges, const ce_zero *zero, ce_shard **shards, int units)
{
    int count = 0;
    for (int i = 0; i < units; i++) {
        ranges->first[i] = count;
        for (int group = 0; group < zero->groups->count; group++)
            count = add_group(ranges, shards[i], group, count);
    }
    ranges->first[units] = count;
}

void ce_ranges_open(ce_ranges *ranges, const ce_zero *zero, ce_shard **shards, const cs_model *model, void *memory)
{
    size_t entries = (size_t)count_entries(model);
    cs_stream *compute = ce_device_stream(zero->device, CE_COMPUTE);
    *ranges = (ce_ranges){ .here = ce_must_alloc((entries + 1) * sizeof *ranges->here),
                           .there = memory,
                           .first = ce_must_alloc(((size_t)model->count + 1) * sizeof *ranges->first),
                           .entry = ce_must_alloc((entries + 1) * sizeof *ranges->entry) };
    fill(ranges, zero, shards, model->count);
    ce_stream_copy(compute, memory, ranges->here, (size_t)ranges->first[model->count] * sizeof *ranges->here);
    ce_stream_sync(compute);
}

void ce_ranges_close(ce_ranges *ranges)
{
    free(ranges->here);
    free(ranges->first);
    free(ranges->entry);
    *ranges = (ce_ranges){ 0 };
}

ce_state_ranges ce_ranges_some(const ce_ranges *ranges, ce_range some)
{
    int64_t tile = ranges->here[some.from].tile;
    return (ce_state_ranges){ .table = ranges->there + some.from,
                              .count = ce_range_length(some),
                              .tile = tile,
                              .tiles = ranges->here[some.to].tile - tile };
}
