/* range.h - half-open ranges of integers [from, to): overlap, division into parts; division and multiples, rounded up. */
#ifndef CE_BASE_RANGE_H
#define CE_BASE_RANGE_H

#include "base/host_device.h"

#include <stdint.h>

typedef struct {
    int64_t from, to;
} ce_range;

static inline int64_t ce_range_length(ce_range range)
{
    return range.to > range.from ? range.to - range.from : 0;
}

static inline ce_range ce_range_overlap(ce_range a, ce_range b)
{
    ce_range both = { a.from > b.from ? a.from : b.from, a.to < b.to ? a.to : b.to };
    return both.from < both.to ? both : (ce_range){ both.from, both.from };
}

/* Returns value / by, rounded up, for value >= 0 and by > 0. */
CE_HOST_DEVICE int64_t ce_divide_up(int64_t value, int64_t by)
{
    return (value + by - 1) / by;
}

CE_HOST_DEVICE int64_t ce_round_up(int64_t value, int64_t multiple)
{
    return ce_divide_up(value, multiple) * multiple;
}

/* Divides [0, length) into `parts` parts and returns part number `index`. The parts' lengths differ by at most 1, and
 * longer parts come first. */
static inline ce_range ce_range_part(int64_t length, int64_t index, int64_t parts)
{
    int64_t small = length / parts, large = length % parts;
    int64_t from = index * small + (index < large ? index : large);
    return (ce_range){ from, from + small + (index < large) };
}

#endif
