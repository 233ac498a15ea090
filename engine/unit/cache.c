/* cache.c - the key-value cache of text generation. */
#include "unit/pass.h"
#include "base/misuse.h"
#include "base/must.h"

#include <stdlib.h>

struct ce_cache {
    cs_device *device;
    int64_t positions;
    cs_tensor *tensors;
    int count, capacity, next;
};

cs_status ce_cache_open(ce_cache **cache, cs_device *device, int64_t positions)
{
    *cache = ce_must_alloc(sizeof **cache);
    (*cache)->device = device;
    (*cache)->positions = positions;
    return CS_OK;
}

void ce_cache_close(ce_cache *cache)
{
    if (!cache)
        return;
    for (int i = 0; i < cache->count; i++)
        ce_device_free(cache->device, cache->tensors[i].data);
    free(cache->tensors);
    free(cache);
}

void ce_cache_rewind(ce_cache *cache)
{
    cache->next = 0;
}

static void grow(ce_cache *cache, cs_dtype dtype, int64_t columns)
{
    CE_MUST_HOLD(cache->tensors, cache->capacity, cache->count + 1);
    size_t bytes = (size_t)(cache->positions * columns) * cs_dtype_bytes(dtype);
    void *memory = ce_device_alloc(cache->device, bytes);
    cache->tensors[cache->count++] = cs_matrix(memory, dtype, cache->positions, columns);
}

cs_tensor ce_cache_next(ce_cache *cache, cs_dtype dtype, int64_t columns)
{
    if (cache->next == cache->count)
        grow(cache, dtype, columns);
    cs_tensor tensor = cache->tensors[cache->next++];
    if (tensor.dtype != dtype || cs_columns(tensor) != columns)
        ce_misuse("cs_pass_cache",
                  "%lld columns are asked for, and this call asked for %lld columns of this type before",
                  (long long)columns, (long long)cs_columns(tensor));
    return tensor;
}
