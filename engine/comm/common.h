/* common.h - what a comm can do beyond comm.h: memory that the ranks of one host share, and an axis of the device mesh.
 * Private to the engine. */
#ifndef CE_COMM_COMMON_H
#define CE_COMM_COMMON_H

#include "cspeed/comm.h"

/* Returns true if the CPU ranks of this world have common memory when they communicate by this cs_comm_settings.kind:
 * all ranks are on one host, and the transport is not TCP. */
bool ce_comm_has_common(const cs_world *world, const char *kind);
/* Allocates memory as cs_comm_alloc does, but all ranks get the same bytes, each rank at an address of its own. A page
 * is on the NUMA node of the rank that first writes to it. Only barriers order the writes of one rank and the reads of
 * another rank. The comm must be of host memory, and of a kind for which ce_comm_has_common is true. */
void *ce_comm_alloc_common(cs_comm *comm, size_t bytes);

/* Does a reduce_scatter of fp32 and adds the sum over ranks to sum[count], in one pass. The result is rounded as if the
 * sum over ranks were written to memory before the addition. `in`, which has size * count elements, must be from
 * cs_comm_alloc. Does nothing and returns false if the comm has a device side or the transport has no such function. */
bool ce_comm_reduce_scatter_add(cs_comm *comm, float *sum, const float *in, int64_t count);

/* Lets an open comm make nonblocking calls, as cs_comm_settings.nonblocking does. The call is collective. */
cs_status ce_comm_open_nonblocking(cs_comm *comm);

/* Sets the axis of the device mesh along which the ranks of this comm communicate, such as CE_BEAT_TP (base/beat.h). The
 * heartbeat names the axis beside the collective. The axis of a new comm is CE_BEAT_WORLD. */
void ce_comm_set_axis(cs_comm *comm, int axis);

#endif
