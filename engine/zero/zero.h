/* zero.h - who holds what, when: stages, the forms of a unit's parameters, and the verbs of a shard.
 *
 * ZeRO (Rajbhandari et al., SC 2020) as three words a stage: where parameters, gradients and optimizer state are. The forms:
 *
 *  whole    compute dtype, all elements   always if params REPLICATED, else while in use (from the pool)
 *  part     compute dtype, my elements    always if params SHARDED (else my slice of whole)
 *  grad     fp32, all elements            in backward (from the pool); always, and the same as sum, if grads REPLICATED
 *  sum      fp32, my elements             of what was reduced, between steps
 *  master   fp32, mine by the optimizer's place, always; is part (or whole) itself when computing in fp32
 *  slots    fp32, as master, 0-2 of them
 *
 * What each place makes of each verb:
 *
 *  gather, release (params)   REPLICATED: nothing             SHARDED: all-gather into a pool row, give it back
 *  reduce (grads)             REPLICATED: accumulates; at the SHARDED: reduce-scatter each micro-batch, add to my part
 *                             boundary all-reduce, or reduce-
 *                             scatter if optim is SHARDED
 *  update (optim)             the rule over all               the rule over my part
 *  publish (optim)            nothing more                    params REPLICATED: all-gather
 *
 * A unit's row of `length` elements is padded to a multiple of world size * 64; padding is zero and is never saved. */
#ifndef CS_ZERO_ZERO_H
#define CS_ZERO_ZERO_H

#include "base/keys.h"
#include "base/range.h"
#include "comm/comm.h"
#include "device/state.h"
#include "optim/optim.h"
#include "unit/unit.h"

enum { CS_ZERO_ALIGN = 64 };

typedef enum { CS_REPLICATED, CS_SHARDED } cs_place;

typedef struct {
    cs_place params, grads, optim;
} cs_stage;

extern const cs_stage cs_stages[4];

/* What all shards of an engine share. */
typedef struct {
    cs_stage     stage;
    cs_dtype     dtype; /* of whole and part */
    cs_optimizer optimizer;
    cs_comm     *comm;
    cs_device   *device;
    int          rank, world;
} cs_zero;

typedef struct cs_pool  cs_pool;
typedef struct cs_shard cs_shard;

#endif
