/* four_bit.c - the tables of 4-bit weights, and their quantisation. */
#include "base/four_bit.h"
#include "base/dynamic_map.h"
#include "base/range.h"

#include <math.h>

const char *const ce_four_bit_names[CE_FOUR_BIT_TYPES + 1] = { "", "nf4", "fp4", NULL };

/* The values of FP4 are 0, 0.0625, 8, 12, 4, 6, 2 and 3 divided by 12; the fourth bit is the sign. */
static const float values[CE_FOUR_BIT_TYPES][16] = {
    [CE_NF4] = { -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
                 -0.18477343022823334f, -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f,
                 0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f,
                 0.7229568362236023f, 1.0f },
    [CE_FP4] = { 0.0f, 0.0052083333333333f, 0.6666666666666667f, 1.0f, 0.3333333333333333f, 0.5f, 0.1666666666666667f,
                 0.25f, 0.0f, -0.0052083333333333f, -0.6666666666666667f, -1.0f, -0.3333333333333333f, -0.5f,
                 -0.1666666666666667f, -0.25f },
};

/* The codes in the ascending order of their values. The two zeros of FP4 are one value here. */
static const struct {
    int count;
    uint8_t code[16];
} ascending[CE_FOUR_BIT_TYPES] = {
    [CE_NF4] = { 16, { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 } },
    [CE_FP4] = { 15, { 11, 10, 13, 12, 15, 14, 9, 0, 1, 6, 7, 4, 5, 2, 3 } },
};

const float *ce_four_bit_values(ce_four_bit_type type)
{
    return values[type];
}

const float *ce_four_bit_scales(void)
{
    return ce_dynamic_signed()->value;
}

/* ---- quantisation ---- */

static float greatest(const float *x, int64_t count)
{
    float most = 0;
    for (int64_t i = 0; i < count; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

/* Counts for each element the midpoints of neighbouring values that are less than the element, so that the loop over the
 * elements has no branches. */
float ce_four_bit_encode(uint8_t *codes, const float *from, int count, ce_four_bit_type type)
{
    float absmax = greatest(from, count), x[CE_FOUR_BIT_BLOCK];
    int32_t place[CE_FOUR_BIT_BLOCK] = { 0 };
    const uint8_t *order = ascending[type].code;
    for (int i = 0; i < count; i++)
        x[i] = absmax > 0 ? from[i] / absmax : 0;
    for (int at = 0; at + 1 < ascending[type].count; at++) {
        float middle = (values[type][order[at]] + values[type][order[at + 1]]) / 2;
        for (int i = 0; i < count; i++)
            place[i] += x[i] > middle;
    }
    for (int i = 0; i < count; i += 2)
        codes[i / 2] = (uint8_t)(order[place[i]] << 4 | order[place[i + 1]]);
    return absmax;
}

void ce_four_bit_encode_absmax(uint8_t *codes, float *nested, const float *absmax, int64_t blocks)
{
    int64_t groups = ce_divide_up(blocks, CE_FOUR_BIT_GROUP);
    double sum = 0;
    const ce_dynamic_map *map = ce_dynamic_signed();
    for (int64_t i = 0; i < blocks; i++)
        sum += (double)absmax[i];
    float offset = nested[groups] = (float)(sum / (double)blocks);
    for (int64_t group = 0; group < groups; group++) {
        float differences[CE_FOUR_BIT_GROUP];
        int64_t from = group * CE_FOUR_BIT_GROUP, rest = blocks - from;
        int64_t count = rest < CE_FOUR_BIT_GROUP ? rest : CE_FOUR_BIT_GROUP;
        for (int64_t i = 0; i < count; i++)
            differences[i] = absmax[from + i] - offset;
        nested[group] = greatest(differences, count);
        for (int64_t i = 0; i < count; i++)
            codes[from + i] = ce_dynamic_code(map, nested[group] > 0 ? differences[i] / nested[group] : 0);
    }
}

float ce_four_bit_absmax(const uint8_t *codes, const float *nested, int64_t block, int64_t blocks)
{
    return ce_four_bit_scales()[codes[block]] * nested[block / CE_FOUR_BIT_GROUP] +
           nested[ce_divide_up(blocks, CE_FOUR_BIT_GROUP)];
}

float ce_four_bit_value(const uint8_t *codes, int64_t index, ce_four_bit_type type)
{
    return values[type][codes[index / 2] >> (index % 2 ? 0 : 4) & 15];
}
