/* common.h - what ranks of one host can do in shared memory beyond the collectives of comm.h. Private to the engine. */
#ifndef CS_COMM_COMMON_H
#define CS_COMM_COMMON_H

#include "cspeed/comm.h"

/* True if CPU ranks of this world that communicate by this cs_comm_settings.kind have common memory: all of them are on
 * one host, and the transport is not TCP. */
bool ce_comm_has_common(const cs_world *world, const char *kind);
/* Like cs_comm_alloc, but all ranks get the same bytes, each at an address of its own. A page lies on the NUMA node of
 * the rank that first writes to it. Only barriers order what one rank writes and another one reads. The comm must be of
 * host memory and a kind for which ce_comm_has_common is true. */
void *ce_comm_alloc_common(cs_comm *comm, size_t bytes);

/* A reduce_scatter of fp32 whose sum over ranks is added to sum[count], in one pass. The result is rounded as if the
 * sum over ranks were written to memory before the addition. `in`, which has size * count elements, must be from
 * cs_comm_alloc. If the transport does not support this, it does nothing and returns false. */
bool ce_comm_reduce_scatter_add(cs_comm *comm, float *sum, const float *in, int64_t count);

#endif
