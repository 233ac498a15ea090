/* rng.c - random keys from names; hashes of elements; uniform random numbers. */
#include "base/rng.h"

#include "cspeed/ops.h"

#include <string.h>

void cs_rng_philox(uint64_t key, uint64_t counter, uint32_t words[4])
{
    memcpy(words, ce_rng_philox(key, counter).word, sizeof(ce_rng_block));
}

uint64_t cs_rng_mix(uint64_t key, uint64_t number)
{
    return ce_rng_mix(key, number);
}

uint64_t ce_rng_key(uint64_t seed, const char *name)
{
    uint64_t key = ce_rng_mix(0x6373706565642121u, seed);
    for (; *name; name++)
        key = ce_rng_mix(key, (unsigned char)*name);
    return key;
}

uint64_t ce_rng_hash(const void *elements, size_t each, int64_t count, uint64_t key, int64_t first)
{
    uint64_t hash = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        memcpy(&bits, (const char *)elements + (size_t)i * each, each);
        hash += ce_rng_mix(key ^ bits, (uint64_t)(first + i));
    }
    return hash;
}

double ce_rng_uniform(uint64_t key, uint64_t index)
{
    ce_rng_block block = ce_rng_philox(key, index);
    uint64_t bits = (uint64_t)block.word[1] << 32 | block.word[0];
    return (double)(bits >> 11) * 0x1p-53;
}
