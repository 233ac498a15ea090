/* traffic.h - the list of the collectives that a step calls, from which the bytes of a rank on each axis are planned. */
#ifndef CE_ZERO_TRAFFIC_H
#define CE_ZERO_TRAFFIC_H

#include "cspeed/cspeed.h"
#include "mesh/mesh.h"

#include <stdint.h>

typedef struct {
    cs_axis axis;
    int what; /* CE_BEAT_ALL_REDUCE, CE_BEAT_REDUCE_SCATTER or CE_BEAT_ALL_GATHER */
    int64_t count;
    cs_dtype dtype;
    int64_t times;
    /* If `size` is not 0, only `size` consecutive ranks of the axis take part, of which this rank is number `index`. */
    int size, index;
} ce_traffic_call;

typedef struct {
    ce_traffic_call *calls;
    int count;
} ce_traffic;

void ce_traffic_add(ce_traffic *traffic, ce_traffic_call call);
/* Sets sent[axis] to the bytes that the rank of `mesh` sends; host[rank] is the number of the host of each rank. */
void ce_traffic_plan(const ce_traffic *traffic, const ce_mesh *mesh, const int *host, cs_sent sent[CS_AXES]);
void ce_traffic_free(ce_traffic *traffic);

#endif
