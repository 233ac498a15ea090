/* zero.h - ZeRO sharding: stages, the buffers that hold a unit's parameters, gradients and optimizer state, and the
 * operations (verbs) of a shard.
 *
 * ZeRO (Rajbhandari et al., SC 2020) divides the training state among ranks. A stage says for each of parameters,
 * gradients and optimizer state whether every rank holds all of it (REPLICATED) or only its own part (SHARDED). A
 * unit's parameters are one row of elements; a rank's part is a contiguous range of the row. A unit has these buffers:
 *
 * - whole: all elements in the compute type. It always exists if parameters are REPLICATED, otherwise it exists while
 *   it is in use (from a pool). If the ranks of one host have common memory (ce_zero.common), it always exists in that
 *   memory, and consists of the parts of all ranks.
 * - part: this rank's elements in the compute type. It always exists if parameters are SHARDED, otherwise it is a range
 *   of `whole`.
 * - grad: all elements in fp32. It exists during backward (from a pool). If gradients are REPLICATED and sums are fp32,
 *   it always exists and is the same buffer as `sum`.
 * - sum: the reduced gradients, kept between steps: this rank's elements, or all elements if gradients are REPLICATED.
 * - master: this rank's elements if optimizer state is SHARDED, otherwise all elements. It always exists. If its type
 *   is the compute type, it is the same buffer as `part` (or `whole`).
 * - slots: one buffer for each slot of the optimizer, with the same elements as `master`, but only of parameters whose
 *   optimizer has that slot. If some state is in blocks (optim/optim.h), the scales of all blocks of the row follow.
 * - norms: all elements of the parameters of normalization layers, in fp32. It always exists if a 16-bit model keeps
 *   these parameters in fp32.
 *
 * Frozen parameters are in rows of their own: each of these rows belongs to a further unit (cs_unit.store in
 * unit/unit.h). Of the buffers above, such a row has only `norms` and `whole` or `part`. The row is gathered and
 * released like the other rows, but a step does not change it. A unit whose parameters are all frozen has a row of
 * length 0, for which no verb does anything.
 *
 * Sums, masters and slots are fp32 unless the precision says otherwise (optim/precision.h lists the types).
 *
 * The verbs do the following; the boundary is the last micro-batch of gradient accumulation:
 *
 * - gather, release: nothing if parameters are REPLICATED or in common memory. If they are SHARDED, gather is an
 *   all-gather into a row of the pool, and release returns that row to the pool.
 * - reduce: if gradients are REPLICATED, they accumulate, and at the boundary they are summed over ranks: by an
 *   all-reduce of buckets, or by a reduce-scatter if optimizer state is SHARDED. If gradients are SHARDED, each
 *   micro-batch has a reduce-scatter, whose result is added to this rank's part.
 * - update: updates all elements if optimizer state is REPLICATED, or this rank's part if it is SHARDED.
 * - publish: nothing if optimizer state is REPLICATED. If it is SHARDED, an all-gather if parameters are REPLICATED; a
 *   barrier after the last unit if parameters are in common memory.
 *
 * Gradients in fp32 that are sent in 16 bits are converted into one further row, which all units use in turn
 * (ce_zero.wire).
 *
 * Hybrid sharding (MiCS; PyTorch's HSDP) divides the ranks into groups of consecutive ranks. State is SHARDED over the
 * ranks of a group, and every group has all of it, so "all ranks" above means the ranks of the group. At the boundary,
 * the ranks that have the same part in different groups add the gradients of this part (an all-reduce over
 * ce_zero.across, in the type that ce_reduction_across_type returns). These ranks divide their part into shares. Each rank has one
 * share, its `own` elements: only this rank adds the squares of their gradients to the norm, and only this rank reads
 * and writes them in checkpoints. Without hybrid sharding, `own` is the whole part.
 *
 * A unit's row is padded to a multiple of world size * ce_zero.align elements. Padding is zero and is not saved. The gaps behind
 * padded parameters (unit/unit.h) are also zero and not saved, and their gradients are zero. */
#ifndef CE_ZERO_ZERO_H
#define CE_ZERO_ZERO_H

#include "json/keys.h"
#include "base/boxes.h"
#include "cspeed/comm.h"
#include "cspeed/ops.h"
#include "device/state.h"
#include "mesh/mesh.h"
#include "optim/groups.h"
#include "optim/precision.h"
#include "unit/exchange.h"
#include "unit/unit.h"
#include "zero/traffic.h"

/* ce_zero.align is CE_ZERO_ALIGN, or CE_OPTIM_BLOCK if some state is in blocks. */
enum { CE_ZERO_ALIGN = 64 };

typedef enum { CE_REPLICATED, CE_SHARDED } ce_place;

typedef struct {
    ce_place params, grads, optim;
} ce_stage;

extern const ce_stage ce_stages[4];

/* A unit's place in its bucket of gradients (bucket.c). */
typedef struct {
    /* the unit's gradient sum; the sums of a bucket's units are adjacent, in the order of the units */
    void *sum;
    int64_t elements; /* number of elements of all units of the bucket */
    /* True if the unit is the bucket's first unit with elements. Backward completes the gradient of this unit last. */
    bool completes;
} ce_bucket;

/* Settings and memory that all shards of an engine share. */
typedef struct {
    ce_stage stage;
    ce_precision precision;
    /* The greatest number of elements of a bucket that has more than one unit. 0 means that each unit is a bucket by
     * itself. */
    int64_t bucket_elements;
    const ce_bucket *buckets; /* buckets [units]: one for each unit */
    float prescale_factor;    /* gradients are multiplied by this factor before their reduction over ranks */
    /* the optimizer that the key optimizer.type names. With Muon, parameters have different numbers of slots of
     * optimizer state; `slots` is then the largest of these numbers. */
    ce_optimizer optimizer;
    const ce_groups *groups;
    cs_comm *comm; /* the ranks over which state is sharded: all ranks, or the ranks of this rank's group */
    /* the ranks that have the same part, one of each group, in the order of groups; NULL if there is one group */
    cs_comm *across;
    /* Tensor parallelism: the ranks of the group, and those of them that hold the same key heads; without it the sizes of
     * the groups are 0. */
    ce_exchange tp, copies;
    cs_device *device;
    int align;       /* a rank's part of a row begins at a multiple of `align` elements */
    int rank, world; /* this rank's number in `comm`, and the number of ranks of `comm` */
    /* replica: number of this rank's group, also this rank's number in `across`; replicas: number of groups */
    int replica, replicas;
    /* True if the ranks have common memory (comm/common.h), which contains each SHARDED row of values. Each rank writes
     * its own part of the row, and all ranks compute with the whole row in place. */
    bool common;
    /* Offload from a GPU (ZeRO-Offload). offload_optimizer: masters and slots are in pinned host memory, which the
     * kernels of the update read and write in place; they must be SHARDED. offload_params: so are this rank's parts of
     * SHARDED values, and gather copies the part to the row on the GPU. */
    bool offload_optimizer, offload_params;
    /* buffer in which gradients are converted to precision.wire, one unit after another, in the comm stream; NULL if
     * gradients are sent without conversion (ce_plan_wire) */
    void *wire;
} ce_zero;

/* ---- stage.c ---- */

/* Sets the members `rank`, `world`, `replica` and `replicas` of *zero to this rank's place in the mesh. */
void ce_stage_place(ce_zero *zero, const ce_mesh *mesh);
/* Returns the range of a parameter row that this rank holds. */
ce_range ce_stage_part(const ce_zero *zero, int64_t padded);
/* Returns the range of a parameter row that only this rank adds to norms and saves. */
ce_range ce_stage_own(const ce_zero *zero, int64_t padded);
int64_t ce_stage_padded(const ce_zero *zero, int64_t length); /* Returns the length of a parameter row with padding. */
/* Returns how many elements of a row with the placement `place` a rank holds. */
int64_t ce_stage_share(const ce_zero *zero, ce_place place, int64_t padded);
/* Returns the type of the values in the unit's row: the compute type, or CS_U8 for 4-bit weights. */
cs_dtype ce_stage_values(const ce_zero *zero, const cs_unit *unit);
bool ce_stage_one_copy(const ce_zero *zero); /* Returns true if masters and values are one buffer. */
/* Returns the number of elements of the unit's normalization parameters that are kept in fp32, in addition to the copy
 * of these elements in the unit's 16-bit row; 0 if there is no such fp32 copy. */
int64_t ce_stage_norms(const ce_zero *zero, const cs_unit *unit);

/* ---- slots.c: the memory of optimizer slots ---- */

/* Returns whether the state of the unit's parameter `number` can be in blocks (optim/optim.h). */
bool ce_slots_fit(const cs_unit *unit, int number);
/* Returns the bytes of the optimizer slot number `slot` for the elements in `range` of the unit's row. A parameter whose
 * optimizer has fewer slots takes none; a block takes one for each element. */
int64_t ce_slots_bytes(const ce_zero *zero, const cs_unit *unit, ce_range range, int slot);
/* Returns the type of the slots of a parameter: precision.slots, or CS_U8 for blocks. */
cs_dtype ce_slots_type(const ce_zero *zero, const ce_unit_entry *entry);
/* Returns the number of scales of a slot for `elements` elements of a row; 0 if no state is in blocks. */
int64_t ce_slots_scales(const ce_zero *zero, int64_t elements);

/* ---- bucket.c ---- */

bool ce_bucket_joins(const ce_zero *zero); /* Returns true if a bucket may have several units. */
/* Returns the first unit of the bucket whose last unit is `last`. Sets *elements to the number of elements of this
 * rank's gradient sums of the bucket. */
int ce_bucket_first(const ce_zero *zero, const cs_model *model, int last, int64_t *elements);
/* Allocates the gradient sums of all units, as memory of zero->comm, and returns the list of their buckets, which the
 * caller frees with free(). */
ce_bucket *ce_bucket_open(const ce_zero *zero, const cs_model *model);

/* ---- pool.c: buffers of a whole row, which units borrow in turn ---- */

/* A row of a pool is a buffer for the padded row of the unit that borrows it; units of equal length share rows.
 * Before ce_pool_settle (in the dry run) the pool counts how many rows of each length are borrowed at the same time,
 * and returns addresses that must not be accessed. ce_pool_settle allocates as many rows as were counted. */

typedef struct ce_pool ce_pool;
typedef struct ce_row ce_row;

ce_pool *ce_pool_open(size_t element_bytes);
void ce_pool_close(ce_pool *pool);
ce_row *ce_pool_borrow(ce_pool *pool, int64_t length); /* `length`: number of elements of the pool */
void *ce_pool_data(ce_row *row);
/* Returns the event that is complete when the previous use of the row is over. The borrower must make its own stream
 * wait for this event. If the event's `stream` is NULL, the row was never used. */
ce_event ce_pool_after(const ce_row *row);
/* Returns the row to the pool. The next borrower may write to the row once the event `after` is complete. */
void ce_pool_return(ce_pool *pool, ce_row *row, ce_event after);
size_t ce_pool_bytes(const ce_pool *pool);
void ce_pool_settle(ce_pool *pool, cs_comm *comm); /* Allocates the rows that the dry run counted. */

/* ---- open.c, shard.c, initial.c: a shard, its verbs, its first values ---- */

typedef struct ce_shard ce_shard;

ce_shard *ce_shard_open(const ce_zero *zero, cs_unit *unit, ce_pool *values, ce_pool *grads);
void ce_shard_close(ce_shard *shard);

/* Counts one more user of the row in which the parameters are gathered; the first user's call starts the all-gather. */
void ce_shard_gather(ce_shard *shard);
/* Makes the compute stream wait for the all-gather; the parameters then point into the row. */
void ce_shard_await(ce_shard *shard);
void ce_shard_release(ce_shard *shard); /* Counts one user less; when no user is left, the row returns to the pool. */

const cs_unit *ce_shard_unit(const ce_shard *shard);
void ce_shard_publish(ce_shard *shard); /* Sends the new values to the other ranks; called after an update. */
/* To be called after the last unit of an update. If values are in common memory, this function puts a barrier into the
 * comm stream; after the barrier all ranks have written their new values. Collective. No rank may write new values
 * while another rank still computes with the old values. This holds because the all-reduce of the gradient norm
 * precedes each update. */
void ce_shard_published(const ce_zero *zero);

/* Sets this rank's own elements to their initial values. A value depends only on the seed, the parameter's name and the
 * index of the element in the whole parameter. Calls ce_shard_spread. */
void ce_shard_init(ce_shard *shard, uint64_t seed);
/* Sets the optimizer's slots to their values before the first step. */
void ce_shard_forget(ce_shard *shard);
/* To be called after this rank's own masters and slots were set: sends these elements to the other ranks that hold
 * them, and writes the new values in the compute type on all ranks. Collective. */
void ce_shard_spread(ce_shard *shard);

/* ---- pieces.c, own.c: which elements this rank saves and loads ---- */

/* A piece of one parameter: the elements `range` of `part`, a box of the whole parameter. Without tensor parallelism
 * `part` is the whole parameter. The pointers are addresses of the first of these elements, in memory that the device's
 * kernels access (device memory, or pinned host memory with offload); the elements of `gradient` have the type
 * precision.sums, and those of `slots` the type slot_dtype. */
typedef struct {
    ce_unit_entry *entry;
    ce_box part;
    ce_range range; /* counts the elements of `part` in the box's own row-major order */
    /* 0: the elements are contiguous. Otherwise `range` is all of `part`, and each row of `part` begins `pitch` elements
     * after the row before it. */
    int64_t pitch;
    int64_t place;  /* index of the first element in the local parameter, which has entry->count elements */
    bool copy;      /* true if another rank of the tensor-parallel group saves these elements */
    cs_dtype dtype; /* type of `master`; if the parameter is frozen, `master` is its value in the compute type */
    void *master;
    void *gradient; /* NULL if the parameter is frozen */
    void *slots[CE_OPTIM_SLOTS];
    cs_dtype slot_dtype;
    float *scales[CE_OPTIM_SLOTS]; /* the scales of the piece's blocks; NULL if slot_dtype is not CS_U8 */
} ce_shard_piece;

/* The greatest number of pieces of one parameter: a range of a matrix consists of up to three boxes, and each of them may
 * have columns of every part. It is 1 without tensor parallelism. */
enum { CE_PIECES_EACH = 3 * CE_CUT_PARTS };
/* Fills `pieces` with the pieces that this rank saves in checkpoints and adds to hashes. Over all ranks, each element is in
 * one of these pieces. Returns their number. `pieces` has ce_shard_pieces_room bytes. */
int ce_shard_pieces(ce_shard *shard, ce_shard_piece *pieces);
/* As ce_shard_pieces, with the copies too: the pieces whose values this rank needs when values are initialized or
 * loaded. */
int ce_shard_held_pieces(ce_shard *shard, ce_shard_piece *pieces);
size_t ce_shard_pieces_room(const ce_shard *shard);
/* Divides the elements `local` of the local parameter into pieces and sets their members up to `copy`. `pieces` has room
 * for CE_PIECES_EACH. Returns the number of pieces. */
int ce_shard_divide(ce_shard_piece *pieces, ce_unit_entry *entry, ce_range local);
/* Returns the number of elements from the piece's first to its last, including those between rows that have a pitch: they
 * belong to other pieces of the same parameter. */
int64_t ce_shard_span(const ce_shard_piece *piece);

/* Returns the elements of part number `index` of a parameter's cut, in the row of its unit. If the parameter is cut by
 * columns, only a part that is all of it can have copies, and only such a part has one range of elements. */
ce_range ce_part_of_cut(const ce_unit_entry *entry, int index);
/* Writes to `ranges` the elements of the unit's row that only this rank adds to norms and saves: its own elements without
 * copies that another rank of the tensor-parallel group saves. It is one range if the rank has no such copies. `ranges`
 * has room for CE_CUT_PARTS ranges for each parameter and one more. Returns the number of ranges. */
int ce_shard_own_ranges(const ce_shard *shard, ce_range *ranges);

/* The elements of a parameter that this rank holds in the type with which the model computes (local.c). */
typedef struct {
    bool sharded;
    ce_range range; /* this rank's elements of the parameter; may be empty */
    void *data;     /* address of the first element of `range`, as in ce_shard_piece; NULL if the range is empty */
    cs_dtype dtype;
} ce_shard_local_part;
ce_shard_local_part ce_shard_local(const ce_shard *shard, const ce_unit_entry *entry);

/* ---- gradient.c: accumulation and reduction of gradients ---- */

typedef enum { CE_FIRST_MICRO_BATCH, CE_LATER_MICRO_BATCH } ce_micro;
/* Makes a row for the gradients of the whole unit available to backward. The row holds the sum of the earlier
 * micro-batches, or zeros. A gradient for which cs_param_overwrites was called is not set to zero, because the first
 * operation that writes the gradient sets it. */
void ce_gradient_open(ce_shard *shard, ce_micro micro);
/* To be called when the unit's gradient of this micro-batch is complete. Adds the gradient to the sum; if gradients are
 * SHARDED, a reduce-scatter adds it over the ranks first. */
void ce_gradient_reduce(ce_shard *shard, ce_micro micro);
/* To be called at the boundary of gradient accumulation for each unit, from the last to the first. Reduces the gradient
 * sums of a bucket over ranks once the sums of all units of the bucket are complete. */
void ce_gradient_finish(ce_shard *shard);

/* Adds the squares of this rank's own elements of the reduced gradient, times unscale^2, to *sum, which is in device
 * memory. */
void ce_gradient_squares(ce_shard *shard, ce_exact *sum, double unscale);

/* ---- assign.c: assignment of parameters to parameter groups ---- */

/* Assigns parameters to groups, and marks the parameters of groups with "train": false as frozen. A parameter that was
 * frozen before this call belongs to no group. Fails if a pattern of cspeed.param_groups matches no parameter. */
cs_status ce_assign_groups(const ce_groups *groups, cs_model *model);
/* How many parameters belong to one group: `tensors` parameters, which together have `elements` elements. */
typedef struct {
    int64_t tensors, elements;
    int64_t undecayed; /* number of tensors to which weight decay does not apply */
} ce_assigned;
ce_assigned ce_assign_count(const ce_groups *groups, const cs_model *model, int number);
/* Logs one line for each group that is trained and has parameters. If some parameters are frozen, also logs how many
 * elements are trained and how many are frozen. */
void ce_assign_print(const ce_groups *groups, const cs_model *model);

/* ---- ranges.c: the ranges of a rank's rows that each parameter group updates ---- */

/* A table of all units' ranges; the ranges of one unit are ordered by group. The table is made once and kept in device
 * memory. */
typedef struct {
    /* the table in host memory; the entry after the last range has only the member `tile`: the number of tiles
     * (device/state.h) of all ranges together */
    ce_state_range *here;
    const ce_state_range *there; /* the copy of `here` in device memory */
    /* index of each unit's first range; the entry after the last unit is the number of all ranges */
    int *first;
    int *entry; /* for each range: the index of its parameter in the unit */
} ce_ranges;

/* Returns the bytes of device memory that ce_ranges_open needs. The number is the same on all ranks: there is room for
 * one range of each trained parameter. */
size_t ce_ranges_bytes(const cs_model *model);
void ce_ranges_open(ce_ranges *ranges, const ce_zero *zero, ce_shard **shards, const cs_model *model, void *memory);
/* Frees the host's tables, not the device memory. */
void ce_ranges_close(ce_ranges *ranges);
/* Returns the ranges [some.from, some.to) of the table. All these ranges must belong to one unit. */
ce_state_ranges ce_ranges_some(const ce_ranges *ranges, ce_range some);

/* ---- update.c: the optimizer's update of all parameters ---- */

typedef struct ce_update ce_update;

typedef struct {
    double rate;         /* learning rate from the schedule */
    int64_t t;           /* number of this update, counted from 1 */
    const ce_gate *gate; /* the gate that decides whether the update is applied; in device memory */
    bool cycles;         /* True if `betas` replace those of the optimizer. */
    double betas[2];
} ce_update_terms;

/* Returns the bytes of scratch memory that Muon's matrices and LAMB's norms need. The caller of ce_update_open passes
 * device memory: this many bytes as `scratch`, and ce_ranges_bytes bytes as `table`. ce_update_close does not free this
 * device memory. */
size_t ce_update_scratch(const ce_groups *groups, const cs_model *model);
ce_update *ce_update_open(const ce_zero *zero, ce_shard **shards, const cs_model *model, void *scratch, void *table);
void ce_update_close(ce_update *update); /* accepts NULL */
/* Begins an update: sets hyper-parameters and computes LAMB's norms. With an optimizer whose rule returns a direction
 * (LAMB, Muon), the host waits for numbers from the device during an update, and the step along the direction does not
 * check the gate. With such an optimizer, call this function only if the gate is open. Collective. */
void ce_update_begin(ce_update *update, const ce_update_terms *move);
/* Updates the parameters of shard `number`; call ce_shard_publish after it. Collective. */
void ce_update_take(ce_update *update, int number);

/* ---- muon.c: orthogonalization of a matrix ---- */

/* Returns the size in bytes of the scratch memory for a matrix of this shape. */
size_t ce_muon_scratch(int64_t rows, int64_t columns);
/* Orthogonalizes `matrix`, which is fp32, in place. `scratch` is device memory. */
void ce_muon_orthogonalize(cs_stream *stream, cs_tensor matrix, float *scratch);

/* ---- plan.c: memory of a run, computed before it starts ---- */

typedef struct {
    size_t values, gradients, masters, slots; /* bytes that one rank keeps in memory between steps */
    size_t offloaded;                         /* how many of these bytes are in host memory (offload) */
    size_t padding;                           /* how many of these bytes belong to gaps behind padded parameters */
    /* rows_held: number of rows of all padded parameters and of the gaps behind them; rows_zero: number of rows of
     * these gaps alone */
    int64_t rows_held, rows_zero;
} ce_plan;
ce_plan ce_plan_persistent(const ce_zero *zero, const cs_model *model);
/* Returns the bytes of ce_zero.wire, which has room for the longest unit or bucket; 0 if this buffer is not needed. */
size_t ce_plan_wire(const ce_zero *zero, const cs_model *model);
/* Lists the collectives of a shard in an optimizer step of `micros` micro-batches. Not listed are those of an optimizer
 * (LAMB, Muon). The dry run of one micro-batch must have counted the gathers of the shard. */
void ce_plan_calls(ce_traffic *traffic, const ce_zero *zero, const ce_shard *shard, int64_t micros);

#endif
