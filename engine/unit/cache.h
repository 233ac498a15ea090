/* cache.h - the key-value cache of text generation: tensors of keys and values of the positions so far, which
 * outlive a pass. Tensors are identified by the order in which the units ask for them. */
#ifndef CS_UNIT_CACHE_H
#define CS_UNIT_CACHE_H

#include "base/status.h"
#include "device/device.h"

typedef struct cs_cache cs_cache;

/* Each tensor has `positions` rows and is allocated when it is first requested. */
cs_status cs_cache_open(cs_cache **cache, cs_device *device, int64_t positions);
void cs_cache_close(cs_cache *cache);  /* accepts NULL */
void cs_cache_rewind(cs_cache *cache); /* the next request returns the first tensor again */
cs_tensor cs_cache_next(cs_cache *cache, cs_dtype dtype, int64_t columns); /* (positions, columns) */

/* A text that a pass continues: its cache holds `start` positions. */
typedef struct {
    cs_cache *cache;
    int64_t start;
} cs_sequence;

#endif
