/* zero.h - ZeRO sharding: stages, the buffers that hold a unit's parameters, gradients and optimizer state, and the
 * operations (verbs) of a shard.
 *
 * ZeRO (Rajbhandari et al., SC 2020). A stage says for each of parameters, gradients and optimizer state whether every
 * rank holds all of it (REPLICATED) or only its own part (SHARDED). A unit's parameters are one row of elements; a
 * rank's part is a contiguous range of it. The buffers of a unit:
 *
 *  whole    compute type, all elements    exists always if params are REPLICATED, else while in use (from a pool); in
 *                                         memory common to the ranks of one host (ce_zero.common) it exists always
 *                                         and consists of the parts of all ranks
 *  part     compute type, own elements    exists always if params are SHARDED; else it is a range of whole
 *  grad     fp32, all elements            during backward (from a pool); if grads are REPLICATED and sums are fp32 it
 *                                         exists always and is the same buffer as sum
 *  sum      own elements                  reduced gradients, kept between steps; all elements if grads are REPLICATED
 *  master   exists always: own elements if optim is SHARDED, else all. If types are equal, it is the same buffer as
 *           part (or whole)
 *  slots    like master: one buffer for each slot of the optimizer, only for parameters whose optimizer has that slot
 *  norms    fp32, all elements of norms   exists always if a 16-bit model keeps its norms in fp32
 *
 * Frozen parameters are in rows of their own: the rows of stores (unit/unit.h). Of the buffers above, such a row has
 * only `norms` and `whole` or `part`. It is gathered and released like the other rows, but a step does not change it. A
 * unit whose parameters are all frozen has a row of length 0, for which no verb does anything.
 *
 * Sums, masters and slots are fp32 unless the precision says otherwise (optim/precision.h lists the types).
 *
 * What each verb does:
 *
 *  gather, release (params)   REPLICATED: nothing             SHARDED: all-gather into a pool row; return the row. In
 *                                                             common memory: nothing
 *  reduce (grads)             REPLICATED: accumulates; at the SHARDED: reduce-scatter of each micro-batch, which is
 *                             boundary all-reduce of buckets, added to this rank's part
 *                             or reduce-scatter if optim is
 *                             SHARDED
 *  update (optim)             updates all elements            updates this rank's part
 *  publish (optim)            nothing more                    if params are REPLICATED: all-gather; if they are in
 *                                                             common memory: a barrier after the last unit
 *
 * Gradients in fp32 that are sent in 16 bits are converted into one further row, which all units use in turn
 * (ce_zero.wire).
 *
 * Hybrid sharding (MiCS; PyTorch's HSDP) divides the ranks into groups of consecutive ranks. State is SHARDED over the
 * ranks of a group, and every group has all of it, so "all ranks" above means those of the group. At the boundary the
 * ranks that have the same part in different groups add its gradients (an all-reduce over ce_zero.across, in the type
 * across_type of gradient.c). Of its part, each of these ranks alone answers for one share, its `own` elements: it adds
 * their squares to the norm, and reads and writes them in checkpoints. Without hybrid sharding `own` is the part.
 *
 * A unit's row is padded to a multiple of world size * 64 elements. Padding is zero and is not saved. The gaps behind
 * padded parameters (unit/unit.h) are also zero and not saved, and their gradients are zero. */
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

typedef enum { CS_REPLICATED, CS_SHARDED } ce_place;

typedef struct {
    ce_place params, grads, optim;
} ce_stage;

extern const ce_stage ce_stages[4];
/* Of a worker or a replica, which is stateless (ce_zero), and of a parameter server. */
extern const ce_stage ce_stage_worker, ce_stage_server;

/* The mode of a parameter server: ranks 0 .. workers - 1 compute with whole rows and have no optimizer state; each of
 * the other ranks, the servers, has a part of each row as at stage 3, and does not compute. */
typedef struct {
    int workers, servers;
    bool async;          /* a worker's gradients are not added to those of the others */
    bool serves;         /* this rank is a server */
    uint64_t *sent;      /* [workers + servers] bytes that this rank has sent to each rank */
    float *staging;      /* of a server: `longest` elements of gradients for each worker */
    const void **inputs; /* of a server: the workers' places in `staging` */
    size_t longest;      /* elements of the longest part */
} ce_served;

/* A unit's place in its bucket of gradients (bucket.c). */
typedef struct {
    void *sum;        /* the unit's sum; the sums of a bucket's units are adjacent, in the order of the units */
    int64_t elements; /* of all units of the bucket */
    bool completes;   /* the unit is the bucket's first: when its gradient is complete, so are those of all others */
} ce_bucket;

/* Facts that all shards of an engine share. */
typedef struct {
    ce_stage stage;
    ce_precision precision;
    int64_t bucket_elements;  /* a bucket takes one more unit while it has at most so many elements; 0: one unit each */
    const ce_bucket *buckets; /* [units]; NULL in the dry run */
    float prescale_factor;    /* gradients are multiplied by this before their reduction over ranks */
    ce_optimizer optimizer;   /* as optimizer.type says; its slot count is the maximum over all parameters */
    const ce_groups *groups;
    cs_comm *comm;   /* the ranks over which state is sharded: all, or those of this rank's group */
    cs_comm *across; /* the ranks that have the same part, one of each group, in order; NULL: there is one group */
    cs_device *device;
    int rank, world;       /* in `comm` */
    int replica, replicas; /* number of this rank's group, and of all groups; the same in `across` */
    bool common; /* ranks have common memory (comm/common.h): a SHARDED row of values is in it, each rank writes its own
                  * part of the row, and all ranks compute with the whole row in place */
    bool stateless;    /* this rank keeps no optimizer state: its part of a SHARDED row is empty */
    ce_served *served; /* NULL: there is no parameter server. `world` is the number of servers, `rank` the server's */
    void *wire; /* a row in which the gradients of one unit after another are converted to precision.wire, in the comm
                 * stream; NULL: gradients are sent in the type that they have (ce_plan_wire) */
} ce_zero;

/* ---- stage.c ---- */

/* Sets the numbers of a rank of a world of `size` ranks in which state is sharded over groups of `shard_size`. */
void ce_stage_place(ce_zero *zero, int rank, int size, int shard_size);
ce_range ce_stage_part(const ce_zero *zero, int64_t padded);  /* this rank's elements of a row */
ce_range ce_stage_own(const ce_zero *zero, int64_t padded);   /* those of them for which this rank alone answers */
int64_t ce_stage_padded(const ce_zero *zero, int64_t length); /* a row's length with padding */
int64_t ce_stage_share(const ce_zero *zero, ce_place place,
                       int64_t padded); /* elements that a rank holds under `place` */
/* Number of elements in `range` of the unit's row that have this slot. Parameters whose optimizer has fewer slots have
 * none. */
int64_t ce_stage_slot_share(const ce_zero *zero, const cs_unit *unit, ce_range range, int slot);
bool ce_stage_one_copy(const ce_zero *zero); /* true if masters and values are one buffer */
int64_t ce_stage_norms(const ce_zero *zero,
                       const cs_unit *unit); /* norm elements kept in fp32 in addition to a 16-bit row */

/* ---- bucket.c ---- */

bool ce_bucket_joins(const ce_zero *zero); /* true if a bucket may have several units */
/* The first unit of the bucket whose last unit is `last`; *elements: of this rank's sums of the bucket's units. */
int ce_bucket_first(const ce_zero *zero, const cs_model *model, int last, int64_t *elements);
/* Allocates all sums, from zero->comm. *buckets is malloc'ed, also after a failure. */
cs_status ce_bucket_open(ce_bucket **buckets, const ce_zero *zero, const cs_model *model);

/* ---- pool.c: buffers of a whole row, which units borrow in turn ---- A row has the padded length of the unit that
 * borrows it; units of equal length share rows. Before ce_pool_settle the pool counts how many rows of each length are
 * borrowed at the same time, and returns addresses that must not be accessed (dry run). ce_pool_settle allocates as
 * many rows as were counted. */

typedef struct ce_pool ce_pool;
typedef struct ce_row ce_row;

cs_status ce_pool_open(ce_pool **pool, size_t element_bytes);
void ce_pool_close(ce_pool *pool);
ce_row *ce_pool_borrow(ce_pool *pool, int64_t length);
void *ce_pool_data(ce_row *row);
/* Returns the event that is done when the previous use of the row is over. The borrower must make its own stream wait
 * for this event. If `stream` of the event is NULL, the row was never used. */
ce_event ce_pool_after(const ce_row *row);
/* The next borrower may write to the row once `after` is done. */
void ce_pool_return(ce_pool *pool, ce_row *row, ce_event after);
size_t ce_pool_bytes(const ce_pool *pool);
void ce_pool_settle(ce_pool *pool, cs_comm *comm); /* allocates the rows that were counted */

/* ---- shard.c: the verbs ---- */

typedef struct ce_shard ce_shard;

cs_status ce_shard_open(ce_shard **shard, const ce_zero *zero, cs_unit *unit, ce_pool *values, ce_pool *grads);
void ce_shard_close(ce_shard *shard);

void ce_shard_gather(ce_shard *shard);  /* counts one more user; the first call starts the all-gather */
void ce_shard_await(ce_shard *shard);   /* the compute stream waits for the all-gather; parameters point into the row */
void ce_shard_release(ce_shard *shard); /* counts one user fewer; without users, the row returns to the pool */

const cs_unit *ce_shard_unit(const ce_shard *shard);
void ce_shard_publish(ce_shard *shard); /* after an update: the other ranks get the new values */
/* After the last unit of an update: waits until all ranks have written their new values to common memory. Collective.
 * When an update begins, no rank may still compute with the old values; the all-reduce of the gradient norm ensures
 * this. */
void ce_shard_published(const ce_zero *zero);

/* For replicas in one process, whose rows of values are REPLICATED: copies the row of `from` and returns its bytes. */
size_t ce_shard_copy(ce_shard *to, const ce_shard *from);
/* The row of summed gradients, fp32 and REPLICATED; and the sum of `count` such rows, in the order of ce_reduce, which
 * replaces the row of `shard`. Returns the bytes of a row. */
float *ce_shard_sum(const ce_shard *shard);
size_t ce_shard_add_up(ce_shard *shard, const void *const *rows, int count);

/* Initializes this rank's own elements. A value depends only on seed, parameter name and element. Calls
 * ce_shard_spread. */
void ce_shard_init(ce_shard *shard, uint64_t seed);
/* Sets the optimizer's slots to their values before the first step. */
void ce_shard_forget(ce_shard *shard);
/* To be called after this rank's own elements of master and slots were set: updates all other copies of these values on
 * all ranks. Collective. */
void ce_shard_spread(ce_shard *shard);

/* This rank's own elements of one parameter, for checkpoints: elements `range` of the parameter. The pointers are to
 * the first of these elements, in device memory; gradient and slots have the precision's types. */
typedef struct {
    ce_unit_entry *entry;
    ce_range range;
    cs_dtype dtype; /* the type of `master`, which is the value itself if the parameter is frozen */
    void *master;
    void *gradient; /* NULL: frozen */
    void *slots[CS_OPTIM_SLOTS];
} ce_shard_piece;
int ce_shard_pieces(
    ce_shard *shard,
    ce_shard_piece *pieces); /* `pieces`: one for each parameter of the unit; returns the number filled */

/* The elements of a parameter that this rank holds in the type with which the model computes (local.c). */
typedef struct {
    bool sharded;
    ce_range range; /* the parameter's elements that this rank holds; may be empty */
    void *data;     /* address of the first of them, in device memory; NULL: there are none */
    cs_dtype dtype;
} ce_shard_local_part;
ce_shard_local_part ce_shard_local(const ce_shard *shard, const ce_unit_entry *entry);

/* ---- gradient.c: accumulation and reduction of gradients ---- */

typedef enum { CS_FIRST_MICRO_BATCH, CS_LATER_MICRO_BATCH } ce_micro;
/* Makes a whole row of gradients available to backward. The row holds the sum so far, or zeros; but gradients that
 * their layer sets at first use (cs_param_grows) are not set to zero. */
void ce_gradient_open(ce_shard *shard, ce_micro micro);
void ce_gradient_reduce(ce_shard *shard,
                        ce_micro micro); /* call when the unit's gradient of this micro-batch is complete */
/* At the boundary, from the last unit to the first: reduces what was not reduced yet, once the bucket is complete. */
void ce_gradient_finish(ce_shard *shard);

/* Adds to *sum the squares of this rank's own elements of the reduced gradient, times unscale^2. *sum is in device
 * memory. */
void ce_gradient_squares(ce_shard *shard, ce_exact *sum, double unscale);

/* ---- served.c: the verbs with a parameter server ---- */

/* Bytes in which a server has the gradients of all workers for one unit. Call these two when zero->world is set. */
size_t ce_served_staging(const ce_zero *zero, const cs_model *model);
/* Allocates that memory, if this rank is a server. */
cs_status ce_served_open(ce_zero *zero, const cs_model *model);
void ce_served_close(ce_served *served);
/* Of all ranks together: the sum of the workers' gradients reaches the servers, in the order of ce_reduce; the servers'
 * values reach the workers. */
void ce_served_collect(ce_shard *shard);
void ce_served_deliver(ce_shard *shard);
/* Of one worker and one server: the worker pushes its gradients and pulls values, the server takes and gives them. */
void ce_served_push(ce_shard *shard, int server);
void ce_served_take(ce_shard *shard, int worker);
void ce_served_give(ce_shard *shard, int worker);
void ce_served_pull(ce_shard *shard, int server);
/* Replaces `count` integers of 64 bits by their sums over all ranks. Collective. */
void ce_served_sum(const ce_zero *zero, void *data, size_t count);

/* ---- apply.c: building blocks of an update; `entry` is the number of a parameter in its unit ---- */

/* This rank's elements of a parameter (possibly none) as a range of this rank's rows. `tile` is set by
 * ce_ranges_open. */
ce_state_range ce_apply_range(const ce_shard *shard, int entry);
/* Runs the optimizer's rule over some ranges of this rank's rows in one launch, if the gate is open. gate NULL: always.
 * A rule that returns a direction (LAMB, Muon) writes it over the gradient and leaves the master as it is. */
void ce_apply_rule(ce_shard *shard, ce_state_ranges ranges, const ce_optimizer *optimizer, ce_hyper hyper,
                   const ce_gate *gate);
/* Adds to sums[0] the squares of this rank's elements of a parameter, and to sums[1] those of its direction. `sums` is
 * in device memory. */
void ce_apply_norms(ce_shard *shard, int entry, ce_exact sums[2]);
/* ce_apply_collect gathers the whole row of directions (fp32) on each rank, so that ranks can work on whole matrices.
 * ce_apply_distribute sums the ranks' rows and returns to each rank its own elements. */
float *ce_apply_collect(ce_shard *shard);
void ce_apply_distribute(ce_shard *shard);

/* ---- assign.c: assignment of parameters to parameter groups ---- */

/* Also marks the parameters of groups with "train": false as frozen. A parameter that is frozen before this call
 * belongs to no group. Fails if a pattern of cspeed.param_groups matches no parameter. */
cs_status ce_assign_groups(const ce_groups *groups, cs_model *model);
/* The parameters of group `number`. */
typedef struct {
    int64_t tensors, elements;
    int64_t undecayed; /* tensors to which weight decay does not apply */
} ce_assigned;
ce_assigned ce_assign_count(const ce_groups *groups, const cs_model *model, int number);
/* Logs one line for each group and, if some parameters are frozen, how many elements are trained and how many are
 * frozen. */
void ce_assign_print(const ce_groups *groups, const cs_model *model);

/* ---- ranges.c: the ranges of a rank's rows that each parameter group updates ---- */

/* A table of all units' ranges; the ranges of one unit are ordered by group. Made once, then kept in device memory. */
typedef struct {
    ce_state_range *here;        /* the host's copy; behind the last entry, `tile` is the number of all tiles */
    const ce_state_range *there; /* the same in device memory */
    int *first;                  /* index of each unit's first range; behind the last unit, the number of all ranges */
    int *entry;                  /* for each range: the number of its parameter in the unit */
} ce_ranges;

size_t ce_ranges_bytes(const cs_model *model); /* device memory that ce_ranges_open needs, on any rank */
cs_status ce_ranges_open(ce_ranges *ranges, const ce_zero *zero, ce_shard **shards, const cs_model *model,
                         void *memory);
void ce_ranges_close(ce_ranges *ranges); /* also after a failed open; does not free the memory */
/* Returns the ranges [some.from, some.to) of the table, which must belong to one unit. */
ce_state_ranges ce_ranges_some(const ce_ranges *ranges, ce_range some);

/* ---- update.c: the optimizer's update of all parameters ---- */

typedef struct ce_update ce_update;

typedef struct {
    double rate;         /* learning rate from the schedule */
    int64_t t;           /* number of this update, from 1 */
    const ce_gate *gate; /* in device memory */
    bool cycles;         /* `betas` replace those of the optimizer */
    double betas[2];
} ce_update_terms;

/* Bytes of scratch memory that Muon's matrices and LAMB's norms need. The caller of ce_update_open gives it so much
 * device memory at `scratch`, and ce_ranges_bytes at `table`; it does not free them. */
size_t ce_update_scratch(const ce_groups *groups, const cs_model *model);
cs_status ce_update_open(ce_update **update, const ce_zero *zero, ce_shard **shards, const cs_model *model,
                         void *scratch, void *table);
void ce_update_close(ce_update *update); /* accepts NULL */
/* Begins an update: sets hyper-parameters and computes LAMB's norms. Optimizers whose rule returns a direction (LAMB,
 * Muon) wait for numbers on the host; with such an optimizer, call this only if the gate is open. Collective. */
void ce_update_begin(ce_update *update, const ce_update_terms *move);
/* Updates the parameters of shard `number`; call ce_shard_publish after it. Collective. */
void ce_update_take(ce_update *update, int number);

/* ---- muon.c: orthogonalization of a matrix ---- */

size_t ce_muon_scratch(int64_t rows, int64_t columns);                           /* bytes */
void ce_muon_orthogonalize(cs_stream *stream, cs_tensor matrix, float *scratch); /* fp32, in place */

/* ---- plan.c: memory of a run, computed before it starts ---- */

typedef struct {
    size_t values, gradients, masters, slots; /* bytes of one rank's memory that exist between steps */
    size_t padding;                           /* how many of these bytes are gaps behind padded parameters */
    int64_t rows_held, rows_zero;             /* rows of padded parameters with their gaps; rows of the gaps alone */
} ce_plan;
ce_plan ce_plan_persistent(const ce_zero *zero, const cs_model *model);
/* Bytes of ce_zero.wire, which has room for the longest unit or bucket; 0: no such row is needed. */
size_t ce_plan_wire(const ce_zero *zero, const cs_model *model);
/* The bytes that a rank has to send in an optimizer step of `micros` micro-batches, as cs_comm_counters counts them,
 * without the bytes that an optimizer sends itself (LAMB, Muon) and those of the step's judgement. In the dry run of
 * one micro-batch, each shard has counted how often it was gathered. */
size_t ce_plan_sent(const ce_zero *zero, ce_shard *const *shards, int count, int64_t micros);
/* The part of these bytes that goes to other groups of hybrid sharding; it does not depend on `micros`. */
size_t ce_plan_sent_to_groups(const ce_zero *zero, ce_shard *const *shards, int count);

#endif
