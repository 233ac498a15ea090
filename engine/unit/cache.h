/* cache.h - what outlives a pass while a text is read: keys and values of the positions so far, tensor after tensor in
 * the order in which the list of units asks for them. */
#ifndef CS_UNIT_CACHE_H
#define CS_UNIT_CACHE_H

#include "base/status.h"
#include "device/device.h"

typedef struct cs_cache cs_cache;

/* Room for `positions` rows a tensor; a tensor is allocated when it is first asked for. */
cs_status cs_cache_open(cs_cache **cache, cs_device *device, int64_t positions);
void cs_cache_close(cs_cache *cache);                                      /* accepts NULL */
void cs_cache_rewind(cs_cache *cache);                                     /* the next tensor is the first again */
cs_tensor cs_cache_next(cs_cache *cache, cs_dtype dtype, int64_t columns); /* (positions, columns) */

#endif
