/* rng.h - counter-based random number generator: a number depends on (key, index) only, not on earlier calls.
 *
 * The generator is Philox4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC 2011). */
#ifndef CE_BASE_RNG_H
#define CE_BASE_RNG_H

#include "base/host_device.h"

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t word[4];
} ce_rng_block;

/* Returns 128 random bits for (key, counter). The function is inline so that compilers vectorise it in kernels. */
CE_HOST_DEVICE ce_rng_block ce_rng_philox(uint64_t key, uint64_t counter)
{
    uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
    uint32_t a = (uint32_t)counter, b = (uint32_t)(counter >> 32), c = 0, d = 0;
    for (int round = 0; round < 10; round++) {
        uint64_t low = (uint64_t)0xD2511F53u * a, high = (uint64_t)0xCD9E8D57u * c;
        uint32_t next_a = (uint32_t)(high >> 32) ^ b ^ key0, next_c = (uint32_t)(low >> 32) ^ d ^ key1;
        b = (uint32_t)high;
        d = (uint32_t)low;
        a = next_a;
        c = next_c;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    ce_rng_block block = { { a, b, c, d } };
    return block;
}

/* Derives a new key from a key and a number. The mixing function is SplitMix64's (Steele, Lea and Flood, OOPSLA 2014):
 * every input bit influences every output bit. */
CE_HOST_DEVICE uint64_t ce_rng_mix(uint64_t key, uint64_t number)
{
    uint64_t x = key + 0x9e3779b97f4a7c15u * (number + 1);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

uint64_t ce_rng_key(uint64_t seed, const char *name); /* derives a key from a seed and a name */
/* Returns the sum, over `count` elements of `each` bytes (at most 4), of a hash of each element's bits and index. `first`
 * is the index of the first of them. The sum modulo 2^64 does not depend on how elements are divided into calls. */
uint64_t ce_rng_hash(const void *elements, size_t each, int64_t count, uint64_t key, int64_t first);
double ce_rng_uniform(uint64_t key, uint64_t index); /* returns a number that is uniform in [0, 1) */

#endif
