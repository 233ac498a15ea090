/* rng.c - random keys from names; uniform and normal random numbers. */
#include "base/rng.h"

#include <math.h>

uint64_t ce_rng_key(uint64_t seed, const char *name)
{
    uint64_t key = cs_rng_mix(0x6373706565642121u, seed);
    for (; *name; name++)
        key = cs_rng_mix(key, (unsigned char)*name);
    return key;
}

double ce_rng_uniform(uint64_t key, uint64_t index)
{
    ce_rng_block block = cs_rng_philox(key, index);
    uint64_t bits = (uint64_t)block.word[1] << 32 | block.word[0];
    return (double)(bits >> 11) * 0x1p-53;
}

float ce_rng_normal(uint64_t key, uint64_t index)
{
    /* The four words of a block are two pairs. Each pair gives two normal numbers. */
    ce_rng_block block = cs_rng_philox(key, index / 4);
    int pair = (int)(index % 4 / 2);
    double angle = 6.283185307179586 * ((double)block.word[2 * pair] * 0x1p-32);
    double first = ((double)block.word[2 * pair + 1] + 0.5) * 0x1p-32;
    double swing = index % 2 ? sin(angle) : cos(angle);
    return (float)(sqrt(-2 * log(first)) * swing);
}
