/* dynamic_map.c - the tables of 8-bit numbers. */
#include "base/dynamic_map.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

enum { DECADES = 7 };

static ce_dynamic_map both, positive;

static int ascend(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* bitsandbytes computes the maps by torch.linspace in fp32, which counts the second half of the borders from the end, and
 * rounds each border once. */
static float border(int index, int count)
{
    float step = (1.0f - 0.1f) / (float)(count - 1);
    double exact = index < count / 2 ? (double)0.1f + (double)step * index : 1 - (double)step * (count - 1 - index);
    return (float)exact;
}

static void fill_values(ce_dynamic_map *map, bool has_signs)
{
    int count = 0;
    for (int i = 0; i < DECADES; i++)
        for (int at = 0, parts = has_signs ? 1 << i : 2 << i; at < parts; at++) {
            float middle = (border(at, parts + 1) + border(at + 1, parts + 1)) / 2 * (float)pow(10, i - 6);
            map->value[count++] = middle;
            if (has_signs)
                map->value[count++] = -middle;
        }
    map->value[count++] = 0;
    map->value[count] = 1;
    qsort(map->value, CE_DYNAMIC_CODES, sizeof *map->value, ascend);
    map->zero = has_signs ? (CE_DYNAMIC_CODES - 1) / 2 : 0;
}

static void fill(ce_dynamic_map *map, bool has_signs)
{
    fill_values(map, has_signs);
    const float *magnitude = map->value + map->zero;
    int last = CE_DYNAMIC_CODES - 1 - map->zero;
    for (int level = 0; level < CE_DYNAMIC_LEVELS; level++)
        for (int node = 0, half = CE_DYNAMIC_CODES >> (level + 1); node < 1 << level; node++) {
            int at = (2 * node + 1) * half - 1; /* between the magnitudes at and at + 1 */
            map->tree[(1 << level) + node] = at < last ? (magnitude[at] + magnitude[at + 1]) / 2 : INFINITY;
        }
}

static void fill_both(void)
{
    fill(&both, true);
    fill(&positive, false);
}

static const ce_dynamic_map *filled(const ce_dynamic_map *map)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_both);
    return map;
}

const ce_dynamic_map *ce_dynamic_signed(void)
{
    return filled(&both);
}

const ce_dynamic_map *ce_dynamic_unsigned(void)
{
    return filled(&positive);
}
