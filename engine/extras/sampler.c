/* sampler.c - the distributed sampler: entry k of the order of an epoch belongs to rank k % size. */
#include "cspeed/sampler.h"
#include "base/misuse.h"

#include "base/must.h"
#include "base/rng.h"
#include "data/data.h"

#include <math.h>

static void check(const cs_sampler *s)
{
    if (s->count < 1 || s->size < 1 || s->rank < 0 || s->rank >= s->size)
        ce_fatal(CS_MISUSE,
                 "cs_sampler: %lld samples for rank %d of %d; at least one sample is needed, and a rank below the "
                 "number of ranks",
                 (long long)s->count, s->rank, s->size);
}

int64_t cs_sampler_count(const cs_sampler *sampler)
{
    CE_GIVEN(sampler);
    check(sampler);
    int64_t each = sampler->count / sampler->size, rest = sampler->count % sampler->size;
    if (sampler->end == CS_SAMPLER_EXACT)
        return each + (sampler->rank < rest);
    return each + (sampler->end == CS_SAMPLER_PAD && rest > 0);
}

cs_status cs_sampler_weigh(double *cumulative, const double *weights, int64_t count)
{
    CE_GIVEN(cumulative);
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!(weights[i] >= 0 && isfinite(weights[i])))
            return ce_fail(CS_MISUSE, "cs_sampler_weigh: weight %lld is %g; a weight is a number of 0 or more",
                           (long long)i, weights[i]);
        cumulative[i] = sum += weights[i];
    }
    if (!(sum > 0 && isfinite(sum)))
        return ce_fail(CS_MISUSE, "cs_sampler_weigh: the %lld weights have the sum %g; it must be above 0 and finite",
                       (long long)count, sum);
    return CS_OK;
}

/* Draws a random point, and returns the sample whose interval of the cumulative weights contains this point. A sample
 * of weight 0 has no interval. */
static int64_t draw(const cs_sampler *s, int64_t entry)
{
    uint64_t key = ce_rng_mix(ce_rng_key(s->seed, "sampler"), (uint64_t)s->epoch);
    double point = ce_rng_uniform(key, (uint64_t)entry) * s->cumulative[s->count - 1];
    int64_t low = 0, high = s->count - 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (s->cumulative[middle] > point)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

int64_t cs_sampler_at(const cs_sampler *sampler, int64_t index)
{
    CE_GIVEN(sampler);
    int64_t count = cs_sampler_count(sampler);
    if (index < 0 || index >= count)
        ce_fatal(CS_MISUSE, "cs_sampler_at: entry %lld of %lld", (long long)index, (long long)count);
    int64_t entry = (index * sampler->size + sampler->rank) % sampler->count;
    if (sampler->cumulative)
        return draw(sampler, entry);
    return sampler->shuffle ? ce_windows_permute(sampler->seed, sampler->epoch, sampler->count, entry) : entry;
}
