/* copies.c - tensor parallelism: the gradients of parameters of which several ranks hold copies. Each rank computes some
 * terms of the gradient of a copy (ce_cut.partial); the sum over the ranks is the gradient. All copies get the same bits,
 * so an update keeps them equal. */
#include "zero/part.h"
#include "base/beat.h"

/* Some consecutive elements of a row of gradients whose sums are over the same ranks: the whole tensor-parallel group,
 * or the ranks that hold the same key heads. */
typedef struct {
    ce_range range;
    int copies, copy; /* number of ranks, and this rank's number among them */
} partial_sum;

/* Finds the first sum that begins at or after part number *at of the entries, and sets *at to the part behind it. Adjacent
 * parts are one sum. Returns a sum with an empty range if there is none. */
static partial_sum next_sum(const cs_unit *unit, int *at)
{
    partial_sum sum = { 0 };
    for (; *at < unit->entry_count * CE_CUT_PARTS; ++*at) {
        const ce_unit_entry *entry = unit->entries[*at / CE_CUT_PARTS];
        int part = *at % CE_CUT_PARTS, copies = entry->cut.part[part].copies;
        if (!entry->cut.partial || part >= entry->cut.count || copies == 1)
            continue;
        ce_range range = ce_part_of_cut(entry, part);
        if (sum.copies && (sum.copies != copies || sum.range.to != range.from))
            break;
        sum.range.from = sum.copies ? sum.range.from : range.from;
        sum.range.to = range.to;
        sum.copies = copies;
        sum.copy = entry->cut.part[part].copy;
    }
    return sum;
}

void ce_copies_add(const ce_shard *shard, float *row)
{
    const ce_zero *zero = shard->zero;
    int at = 0;
    partial_sum sum;
    while (zero->tp.size > 1 && (sum = next_sum(shard->unit, &at)).copies > 0) {
        const ce_exchange *ranks = sum.copies == zero->tp.size ? &zero->tp : &zero->copies;
        float *data = row + sum.range.from;
        ranks->run(ranks->argument, CE_BEAT_ALL_REDUCE, data, data, ce_range_length(sum.range), CS_F32);
    }
}

void ce_copies_finish(const ce_shard *shard)
{
    if (shard->padded > 0 && ce_part_sums_in_place(shard))
        ce_copies_add(shard, shard->sum);
}

void ce_copies_calls(ce_traffic *traffic, const ce_shard *shard, int64_t micros)
{
    int at = 0;
    partial_sum sum;
    int64_t times = ce_part_sums_in_place(shard) ? 1 : micros;
    while ((sum = next_sum(shard->unit, &at)).copies > 0)
        ce_traffic_add(traffic, (ce_traffic_call){ CS_AXIS_TP, CE_BEAT_ALL_REDUCE, ce_range_length(sum.range), CS_F32,
                                                   times, sum.copies, sum.copy });
}
