/* range.h - [from, to): a rank's part, overlaps, padding. */
#ifndef CS_BASE_RANGE_H
#define CS_BASE_RANGE_H

#include <stdint.h>

typedef struct {
    int64_t from, to;
} cs_range;

static inline int64_t cs_range_length(cs_range range)
{
    return range.to > range.from ? range.to - range.from : 0;
}

static inline cs_range cs_range_overlap(cs_range a, cs_range b)
{
    cs_range both = { a.from > b.from ? a.from : b.from, a.to < b.to ? a.to : b.to };
    return both.from < both.to ? both : (cs_range){ both.from, both.from };
}

static inline int64_t cs_round_up(int64_t value, int64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

/* The `index`-th of `parts` nearly equal parts of [0, length), in order, none empty before a full one. */
static inline cs_range cs_range_part(int64_t length, int64_t index, int64_t parts)
{
    int64_t small = length / parts, large = length % parts;
    int64_t from = index * small + (index < large ? index : large);
    return (cs_range){ from, from + small + (index < large) };
}

#endif
