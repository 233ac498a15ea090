/* exchange.h - how the layers of a model exchange tensors with the other ranks of their tensor-parallel group. Layers
 * and units know no communicator: the engine fills this table. */
#ifndef CE_UNIT_EXCHANGE_H
#define CE_UNIT_EXCHANGE_H

#include "cspeed/cspeed.h"

/* All ranks of the group call the same functions in the same order. A call takes its place in the compute stream:
 * earlier operations are complete before it, and it is complete before later operations. */
typedef struct {
    /* Replaces each element of data[count] by its sum over the ranks; every rank gets the same bits. */
    void (*sum)(void *argument, void *data, int64_t count, cs_dtype dtype);
    /* out[size * count] becomes in[count] of all ranks, in the order of the ranks. */
    void (*gather)(void *argument, void *out, const void *in, int64_t count, cs_dtype dtype);
    /* out[count] becomes the sum over the ranks of part number `rank` of in[size * count]. */
    void (*scatter)(void *argument, void *out, const void *in, int64_t count, cs_dtype dtype);
    void *argument;
    int size, rank; /* number of ranks of the group, 0 without tensor parallelism; this rank's number in the group */
} ce_exchange;

#endif
