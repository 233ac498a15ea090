/* zero.h - who holds what, when: stages, the forms of a unit's parameters, and the verbs of a shard.
 *
 * ZeRO (Rajbhandari et al., SC 2020) as three words a stage: where parameters, gradients and optimizer state are. The
 * forms:
 *
 *  whole    compute dtype, all elements   always if params REPLICATED, else while in use (from the pool)
 *  part     compute dtype, my elements    always if params SHARDED (else my slice of whole)
 *  grad     fp32, all elements            in backward (from the pool); always, and the same as sum, if grads REPLICATED
 *                                         and sums are fp32
 *  sum      my elements                   of what was reduced, between steps; all elements if grads REPLICATED
 *  master   mine by the optimizer's place, always; is part (or whole) itself where it is of their type
 *  slots    as master, as many as the optimizer has; each holds only parameters whose optimizer has it
 *  norms    fp32, all elements of norms   always, where a 16-bit model keeps norms in fp32
 *
 * Sums, masters and slots are fp32 unless the precision says otherwise (optim/precision.h has the row of types).
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
 * A unit's row of `length` elements is padded to a multiple of world size * 64; padding is zero and is never saved. The
 * same holds of the gaps that a row has behind padded parameters (unit/unit.h), where gradients are zero too. */
#ifndef CS_ZERO_ZERO_H
#define CS_ZERO_ZERO_H

#include "base/keys.h"
#include "base/range.h"
#include "cspeed/comm.h"
#include "cspeed/ops.h"
#include "device/state.h"
#include "optim/groups.h"
#include "optim/precision.h"
#include "unit/unit.h"

enum { CS_ZERO_ALIGN = 64 };

typedef enum { CS_REPLICATED, CS_SHARDED } cs_place;

typedef struct {
    cs_place params, grads, optim;
} cs_stage;

extern const cs_stage cs_stages[4];

/* What all shards of an engine share. */
typedef struct {
    cs_stage stage;
    cs_precision precision;
    float before;           /* gradients are multiplied by this before they travel */
    cs_optimizer optimizer; /* optimizer.type, with the most slots that a parameter has */
    const cs_groups *groups;
    cs_comm *comm;
    cs_device *device;
    int rank, world;
} cs_zero;

/* ---- stage.c ---- */

cs_range cs_stage_part(const cs_zero *zero, int64_t padded);                 /* this rank's elements of a row        */
int64_t cs_stage_padded(const cs_zero *zero, int64_t length);                /* a row's length with padding          */
int64_t cs_stage_share(const cs_zero *zero, cs_place place, int64_t padded); /* elements a rank holds under `place`  */
/* Elements of the unit's row in `range` that have this slot: all but those of parameters whose optimizer lacks it. */
int64_t cs_stage_slot_share(const cs_zero *zero, const cs_unit *unit, cs_range range, int slot);
bool cs_stage_one_copy(const cs_zero *zero);                      /* masters are the values themselves    */
int64_t cs_stage_norms(const cs_zero *zero, const cs_unit *unit); /* elements kept in fp32 beside a 16-bit row */

/* ---- pool.c: full-size rows that units take turns in ----
 * Rows are of the padded length of the unit that asks: units of one length share, a length used once has a row of its
 * own. Before cs_pool_settle the pool only counts how many rows of each length are out at once, and hands out addresses
 * nobody may touch. */

typedef struct cs_pool cs_pool;
typedef struct cs_row cs_row;

cs_status cs_pool_open(cs_pool **pool, size_t element_bytes);
void cs_pool_close(cs_pool *pool);
cs_row *cs_pool_borrow(cs_pool *pool, int64_t length);
void *cs_pool_data(cs_row *row);
/* When the row was last in use: whoever borrows waits for it in its own stream. stream NULL: never. */
cs_event cs_pool_after(const cs_row *row);
/* The row may be lent again once `after` is done. */
void cs_pool_return(cs_pool *pool, cs_row *row, cs_event after);
size_t cs_pool_bytes(const cs_pool *pool);
void cs_pool_settle(cs_pool *pool, cs_comm *comm); /* takes the memory that was counted */

/* ---- shard.c: the verbs ---- */

typedef struct cs_shard cs_shard;

cs_status cs_shard_open(cs_shard **shard, const cs_zero *zero, cs_unit *unit, cs_pool *values, cs_pool *grads);
void cs_shard_close(cs_shard *shard);

void cs_shard_gather(cs_shard *shard);  /* one more user wants the whole; starts fetching it for the first */
void cs_shard_await(cs_shard *shard);   /* the compute stream has the whole, and params point into it      */
void cs_shard_release(cs_shard *shard); /* one user fewer; the last lets the whole go                      */

const cs_unit *cs_shard_unit(const cs_shard *shard);
void cs_shard_publish(cs_shard *shard); /* new values reach the copies that compute */

/* First values of this rank's part from (seed, parameter name, element); then cs_shard_spread. */
void cs_shard_init(cs_shard *shard, uint64_t seed);
/* The optimizer's memory of earlier steps is gone: slots are what they are before the first step. */
void cs_shard_forget(cs_shard *shard);
/* This rank's part of master and slots was set; every copy follows. */
void cs_shard_spread(cs_shard *shard);

/* This rank's part of one parameter, for checkpoints: elements `range` of the parameter; master, slots and reduced
 * gradient begin at its first, in the types that the precision has for them. */
typedef struct {
    cs_unit_entry *entry;
    cs_range range;
    void *master;
    void *gradient;
    void *slots[CS_OPTIM_SLOTS];
} cs_shard_piece;
int cs_shard_pieces(cs_shard *shard, cs_shard_piece *pieces); /* room for one a parameter; returns how many */

/* ---- gradient.c: from backward to the reduced gradient ---- */

typedef enum { CS_FIRST_MICRO_BATCH, CS_LATER_MICRO_BATCH } cs_micro;
void cs_gradient_open(cs_shard *shard,
                      cs_micro micro); /* a full row is there; what is not fresh in it is zero or the sum so far */
void cs_gradient_reduce(cs_shard *shard, cs_micro micro); /* the unit's gradient of this micro-batch is complete      */
void cs_gradient_finish(cs_shard *shard);                 /* at the boundary: what was not reduced yet                */

/* Of this rank's part of the reduced gradient; *sum is in the device's memory. */
void cs_gradient_squares(cs_shard *shard, cs_exact *sum, double unscale);

/* ---- apply.c: the means of an update; entry counts the unit's parameters ---- */

/* This rank's elements of a parameter, which may be none, in its rows; `tile` is left to the table that it goes into. */
cs_state_range cs_apply_range(const cs_shard *shard, int entry);
/* The rule over some ranges of this rank's rows, as the gate lets it (NULL: open), in one launch. A direction takes the
 * place of the gradient. */
void cs_apply_rule(cs_shard *shard, cs_state_ranges ranges, const cs_optimizer *optimizer, cs_hyper hyper,
                   const cs_gate *gate);
/* sums[0] += the squares of a parameter, sums[1] of its direction: this rank's part of them. The device's memory. */
void cs_apply_norms(cs_shard *shard, int entry, cs_exact sums[2]);
/* The whole row of directions (fp32), for matrices to be worked on whole. Then each rank has its own elements back,
 * each the sum over ranks of what they left in their rows. */
float *cs_apply_collect(cs_shard *shard);
void cs_apply_distribute(cs_shard *shard);

/* ---- assign.c: which group of the optimizer moves which parameter ---- */

/* A glob of cspeed.param_groups that takes no parameter is a fault. */
cs_status cs_assign_groups(const cs_groups *groups, cs_model *model);
void cs_assign_print(const cs_groups *groups, const cs_model *model); /* a line a group */

/* ---- ranges.c: which elements of a rank's rows each group of the optimizer moves ---- */

/* A table of all units' ranges, a unit's by group: made once, and in the device's memory from then on. */
typedef struct {
    cs_state_range *here;        /* the host's copy; the one behind the last says how many tiles there are */
    const cs_state_range *there; /* the device's                                                          */
    int *first;                  /* of each unit's ranges; one more                                        */
    int *entry;                  /* of its unit, that each range is of                                     */
} cs_ranges;

size_t cs_ranges_bytes(const cs_model *model); /* of the device's memory, on any rank */
cs_status cs_ranges_open(cs_ranges *ranges, const cs_zero *zero, cs_shard **shards, const cs_model *model,
                         void *memory);
void cs_ranges_close(cs_ranges *ranges); /* accepts the half-open; the memory is its owner's */
/* Ranges [from, to) of the table, which are one unit's. */
cs_state_ranges cs_ranges_some(const cs_ranges *ranges, cs_range some);

/* ---- update.c: one step of all parameters ---- */

typedef struct cs_update cs_update;

typedef struct {
    double rate;         /* the schedule's, for optimizer.params.lr            */
    int64_t t;           /* this update's number, from 1                       */
    const cs_gate *gate; /* in the device's memory                             */
    bool cycles;         /* betas stand in place of the optimizer's own        */
    double betas[2];
} cs_move;

/* Bytes that matrices and LAMB's norms need meanwhile; cs_update_open borrows as many, of the device's, and keeps
 * cs_ranges_bytes of it at `table`. */
size_t cs_update_scratch(const cs_groups *groups, const cs_model *model);
cs_status cs_update_open(cs_update **update, const cs_zero *zero, cs_shard **shards, const cs_model *model,
                         void *scratch, void *table);
void cs_update_close(cs_update *update); /* accepts NULL */
/* Of this step: hyper-parameters, and the norms that LAMB needs. A step along a direction asks the host for numbers: of
 * an optimizer that directs, the gate is known to be open. */
void cs_update_begin(cs_update *update, const cs_move *move);
/* The step of the parameters of shard `number`; cs_shard_publish is due after it. Collective, both. */
void cs_update_take(cs_update *update, int number);

/* ---- muon.c: a matrix made nearly orthogonal ---- */

size_t cs_muon_scratch(int64_t rows, int64_t columns);                           /* bytes */
void cs_muon_orthogonalize(cs_stream *stream, cs_tensor matrix, float *scratch); /* fp32, in place */

/* ---- plan.c: the memory of a run, before it runs ---- */

typedef struct {
    size_t values, gradients, masters, slots; /* a rank's bytes that stay between steps     */
    size_t padding;                           /* of these: gaps behind padded parameters */
    int64_t rows_held, rows_zero;             /* rows of padded parameters, and of their gaps */
} cs_plan;
cs_plan cs_plan_persistent(const cs_zero *zero, const cs_model *model);

#endif
