/* dynamic_map.h - 8-bit numbers as bitsandbytes stores them (Dettmers 2015, "dynamic" data type): codes 0 to 255 of 256
 * values in ascending order, of which the greatest is 1.
 *
 * The signed map has, for i from 0 to 6, the midpoints of 2^i equal parts of [0.1, 1] times 10^(i - 6), with both signs;
 * 0 and 1. The unsigned map has 2^(i + 1) parts, and no negative values. */
#ifndef CE_BASE_DYNAMIC_MAP_H
#define CE_BASE_DYNAMIC_MAP_H

#include "base/half.h"
#include "base/host_device.h"

#include <stdint.h>

enum {
    CE_DYNAMIC_CODES = 256,
    /* Magnitudes with the same upper 16 bits are one bucket. Below the first bucket are magnitudes whose nearest value is
     * 0; the last bucket has only 1. */
    CE_DYNAMIC_FIRST = 0x3400,
    CE_DYNAMIC_LAST = 0x3f80,
    CE_DYNAMIC_BUCKETS = CE_DYNAMIC_LAST - CE_DYNAMIC_FIRST + 1
};

typedef struct {
    float value[CE_DYNAMIC_CODES];
    /* The magnitudes are 0, the positive values in ascending order, and 1. middle[m]: the midpoint between magnitudes m
     * and m + 1; infinity behind the last magnitude. */
    float middle[CE_DYNAMIC_CODES];
    /* The least magnitude that is nearest to a number of the bucket. A bucket contains at most one midpoint. */
    uint8_t start[CE_DYNAMIC_BUCKETS];
    int32_t zero; /* the code of 0: 127 in the signed map, 0 in the unsigned map */
} ce_dynamic_map;

const ce_dynamic_map *ce_dynamic_signed(void);
const ce_dynamic_map *ce_dynamic_unsigned(void);

/* Returns the code of the value that is nearest to x, which is in [-1, 1]; a midpoint belongs to the lower value. NaN
 * becomes 0. */
CE_HOST_DEVICE uint8_t ce_dynamic_code(const ce_dynamic_map *map, float x)
{
    float size = x < 0 ? -x : x;
    int32_t bucket = (int32_t)(ce_float_bits(size) >> 16);
    int32_t within = bucket > CE_DYNAMIC_LAST ? CE_DYNAMIC_LAST : bucket < CE_DYNAMIC_FIRST ? CE_DYNAMIC_FIRST : bucket;
    int32_t at = map->start[within - CE_DYNAMIC_FIRST];
    at += x < 0 ? size >= map->middle[at] : size > map->middle[at];
    at = x < 0 ? at < map->zero ? map->zero - at : 0 : map->zero + at;
    return (uint8_t)(x == x ? at : map->zero);
}

#endif
