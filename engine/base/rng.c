/* rng.c - random keys from names; uniform random numbers. */
#include "base/rng.h"

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
