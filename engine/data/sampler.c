/* sampler.c - the distributed sampler: entry k of an epoch's order belongs to rank k % size. */
#include "cspeed/sampler.h"

#include "base/must.h"
#include "data/data.h"

static void check(const cs_sampler *s)
{
    if (s->count < 1 || s->size < 1 || s->rank < 0 || s->rank >= s->size)
        ce_fatal(CS_MISUSE,
                 "cs_sampler: %lld samples for rank %d of %d; a sampler needs a sample and a rank below its size",
                 (long long)s->count, s->rank, s->size);
}

int64_t cs_sampler_count(const cs_sampler *sampler)
{
    check(sampler);
    int64_t each = sampler->count / sampler->size, rest = sampler->count % sampler->size;
    if (sampler->end == CS_SAMPLER_EXACT)
        return each + (sampler->rank < rest);
    return each + (sampler->end == CS_SAMPLER_PAD && rest > 0);
}

int64_t cs_sampler_at(const cs_sampler *sampler, int64_t index)
{
    int64_t count = cs_sampler_count(sampler);
    if (index < 0 || index >= count)
        ce_fatal(CS_MISUSE, "cs_sampler_at: entry %lld of %lld", (long long)index, (long long)count);
    int64_t entry = (index * sampler->size + sampler->rank) % sampler->count;
    return sampler->shuffle ? ce_windows_permute(sampler->seed, sampler->epoch, sampler->count, entry) : entry;
}
