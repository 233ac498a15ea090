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

enum { CE_DYNAMIC_CODES = 256, CE_DYNAMIC_LEVELS = 8 };

typedef struct {
    float value[CE_DYNAMIC_CODES];
    /* The magnitudes are 0, the positive values in ascending order, and 1. `tree` has the midpoints between a magnitude and
     * the next, infinity behind the last, as a binary search visits them: from node 1, node `at` is followed by 2 at if the
     * number is at most tree[at], else by 2 at + 1. After all levels `at` is 256 plus the nearest magnitude's number. */
    float tree[CE_DYNAMIC_CODES];
    int32_t zero; /* the code of 0: 127 in the signed map, 0 in the unsigned map */
} ce_dynamic_map;

const ce_dynamic_map *ce_dynamic_signed(void);
const ce_dynamic_map *ce_dynamic_unsigned(void);

/* Returns the code of the value that is nearest to x, which is in [-1, 1]; a midpoint belongs to the lower value. NaN
 * becomes 0. The magnitude of a negative number is searched as the next greater one, so that midpoints go up. */
CE_HOST_DEVICE uint8_t ce_dynamic_code(const ce_dynamic_map *map, float x)
{
    uint32_t bits = ce_float_bits(x), sign = bits >> 31;
    float size = ce_bits_float((bits & 0x7fffffff) + sign);
    int32_t at = 1;
    for (int level = 0; level < CE_DYNAMIC_LEVELS; level++)
        at = 2 * at + (size > map->tree[at]);
    at -= CE_DYNAMIC_CODES;
    int32_t below = at < map->zero ? map->zero - at : 0;
    return (uint8_t)(sign ? below : map->zero + at);
}

#endif
