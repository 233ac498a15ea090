/* exchange.h - how the layers of a model exchange tensors with the other ranks of their tensor-parallel group. Layers
 * and units know no communicator: the engine fills this table. */
#ifndef CE_UNIT_EXCHANGE_H
#define CE_UNIT_EXCHANGE_H

#include "cspeed/cspeed.h"

/* All ranks of the group make the same calls in the same order. A call takes its place in the compute stream: earlier
 * operations are complete before it, and it is complete before later operations, unless `overlap` says otherwise. */
typedef struct {
    /* Exchanges vectors, by the collective `what` (base/beat.h).
     * CE_BEAT_ALL_REDUCE: each element of out[count], which is `in`, becomes its sum over the ranks, with the same bits.
     * CE_BEAT_ALL_GATHER: out[size * count] becomes in[count] of all ranks, in the order of the ranks.
     * CE_BEAT_REDUCE_SCATTER: out[count] becomes the sum over the ranks of part number `rank` of in[size * count]. */
    void (*run)(void *argument, int what, void *out, const void *in, int64_t count, cs_dtype dtype);
    /* true: the next exchange runs beside the operations that follow, until this function is called with false. NULL: no
     * exchange does (tensor_parallel.tp_overlap_comm). */
    void (*overlap)(void *argument, bool begins);
    void *argument;
    int size, rank; /* number of ranks of the group, 0 without tensor parallelism; this rank's number in the group */
} ce_exchange;

#endif
