/* traffic.c - the bytes of a collective. What goes to other hosts is counted as the TCP transport sends it: directly, or
 * by one rank of each host for its whole host (tcp/hierarchical.c). */
#include "comm/traffic.h"
#include "comm/collective/collective.h"
#include "base/beat.h"
#include "base/range.h"

bool ce_traffic_is_hierarchical(const ce_traffic_group *group)
{
    int each = group->here;
    return group->even && each >= 2 && each < group->size && (each & (each - 1)) == 0;
}

/* Returns the number of elements that an all_reduce among `size` ranks sends to the ranks outside of [first, first + here). */
static int64_t reduce_among(const ce_traffic_group *group, int64_t count, cs_dtype dtype)
{
    int64_t others = group->size - group->here, sent = 0;
    if ((size_t)count * cs_dtype_bytes(dtype) <= CE_ALL_REDUCE_WHOLE)
        return others * count;
    for (int i = 0; i < group->size; i++)
        if (i < group->first || i >= group->first + group->here)
            sent += ce_range_length(ce_all_reduce_part(count, group->size, i)) +
                    ce_range_length(ce_all_reduce_part(count, group->size, group->index));
    return sent;
}

static int64_t reduce_between_hosts(const ce_traffic_group *group, int64_t count, cs_dtype dtype)
{
    if (!ce_traffic_is_hierarchical(group) || dtype == CS_BF16 || dtype == CS_F16)
        return reduce_among(group, count, dtype);
    int each = group->here, host = group->index / each;
    ce_traffic_group across = { group->size / each, host, host, 1, true };
    int64_t part = (size_t)count * cs_dtype_bytes(dtype) > CE_ALL_REDUCE_WHOLE ? count / each : 0;
    return reduce_among(&across, part, dtype) + reduce_among(&across, count - part * each, dtype);
}

/* In a reduce_scatter and an all_gather a rank sends `count` elements to each rank of other hosts. */
static int64_t parts_between_hosts(const ce_traffic_group *group, int what, int64_t count, cs_dtype dtype)
{
    bool rounds = what == CE_BEAT_REDUCE_SCATTER && (dtype == CS_BF16 || dtype == CS_F16);
    int others = group->size - group->here;
    return count * (ce_traffic_is_hierarchical(group) && !rounds ? others / group->here : others);
}

cs_comm_traffic ce_traffic_of(const ce_traffic_group *group, int what, int64_t count, cs_dtype dtype)
{
    uint64_t width = cs_dtype_bytes(dtype), all = (uint64_t)(group->size - 1) * (uint64_t)count * width;
    bool reduces = what == CE_BEAT_ALL_REDUCE;
    int64_t between =
        reduces ? reduce_between_hosts(group, count, dtype) : parts_between_hosts(group, what, count, dtype);
    return (cs_comm_traffic){ .bytes = reduces ? 2 * all / (uint64_t)group->size : all,
                              .between_hosts = (uint64_t)between * width,
                              .calls = 1 };
}
