/* part.h - struct ce_shard, and the address of an element of a unit's parameter row in each buffer of the shard.
 * Private to this folder. */
#ifndef CE_ZERO_PART_H
#define CE_ZERO_PART_H

#include "zero/zero.h"

/* How the gradients of a unit become sums over ranks, and its new values reach the ranks; the argument is a ce_shard.
 * The functions run in the communication stream. A function is NULL if there is nothing to do. */
typedef struct {
    void (*reduce)(void *shard);  /* after each micro-batch, unless backward adds gradients directly to the sum */
    void (*finish)(void *shard);  /* after the last micro-batch of a step, once for each bucket */
    void (*publish)(void *shard); /* after an update */
} ce_reduction;

struct ce_shard {
    const ce_zero *zero;
    const ce_reduction *reduction;
    cs_unit *unit;
    ce_pool *values_pool, *grads_pool;
    int64_t padded;
    ce_range part; /* range of the unit's parameter row that this rank holds */
    /* own: the elements of the row that only this rank adds to norms and saves; equal to `part` unless sharding is
     * hybrid */
    ce_range own;
    ce_range *owned; /* the ranges of `own` that no other rank of the tensor-parallel group adds and saves */
    int owned_count;
    /* values in the compute type: the whole row if parameters are REPLICATED, otherwise this rank's part */
    void *home;
    /* the values of the whole row if they are always in memory: `home`, or the row that contains `home`; otherwise
     * NULL */
    void *whole;
    void *sum; /* reduced gradient: of the whole row if gradients are REPLICATED, otherwise of this rank's part */
    /* master values of the whole row or of this rank's part, as stage.optim says; points into `home` if masters and
     * values are one buffer (ce_part_one_copy) */
    void *master;
    void *slots[CE_OPTIM_SLOTS];
    /* fp32 values of all norms' parameters, one after another; NULL if norms have no separate fp32 values */
    float *norms;
    /* number of current users of the gathered row of parameters; the row is released when the number becomes 0 */
    int users;
    int gathers; /* number of times the row was gathered; ce_plan_sent reads it after the dry run */
    ce_row *value_row, *grad_row;
    ce_event gathered;
    /* `reducing` is the row that the queued call of reduce_part reads; `micro` is the micro-batch of that row */
    void *reducing;
    ce_micro micro;
    ce_event reduced;
};

/* Returns true if the row of values is in common memory of the host's ranks (ce_zero.common). */
bool ce_part_is_common(const ce_zero *zero);
/* Returns true if backward adds gradients directly to the shard's `sum`. Otherwise backward adds gradients to a
 * temporary buffer of the pool, which is then reduced over ranks or added to `sum`. */
bool ce_part_sums_in_place(const ce_shard *shard);
/* Returns true if masters and values are one buffer, because their types are equal or the parameters are frozen. */
bool ce_part_one_copy(const ce_shard *shard);
cs_dtype ce_part_masters(const ce_shard *shard); /* Returns the type of the master values. */
cs_stream *ce_part_stream(const ce_shard *shard, ce_stream_role role);
/* Makes the stream with the role `later` wait for the operations that are now in the stream with the role `earlier`. */
void ce_part_follow(const ce_shard *shard, ce_stream_role later, ce_stream_role earlier);

/* Returns the index, in the parameter row, of the first element that has a master value on this rank. */
int64_t ce_part_from(const ce_shard *shard);
/* Returns the number of elements that have a master value on this rank. */
int64_t ce_part_count(const ce_shard *shard);
/* Returns the range of the parameter row that has master values and slots on this rank. */
ce_range ce_part_updated_range(const ce_shard *shard);
/* Returns the bytes of a slot on this rank, without the scales behind them. */
int64_t ce_part_slot_bytes(const ce_shard *shard, int slot);
/* Returns the elements of the parameter `entry` that are in the range ce_part_updated_range. */
ce_range ce_part_updated(const ce_shard *shard, const ce_unit_entry *entry);

/* Adds up the gradients of those parameters of the unit of which other ranks compute terms too (copies.c). `row` has the
 * gradients of the whole unit. Does nothing without tensor parallelism. ce_copies_finish does this for the sums of all
 * micro-batches, if backward adds to them directly. */
void ce_copies_add(const ce_shard *shard, float *row);
void ce_copies_finish(const ce_shard *shard);
/* Lists the collectives of that in a step of `micros` micro-batches. */
void ce_copies_calls(ce_traffic *traffic, const ce_shard *shard, int64_t micros);
/* Returns how the gradients of every unit are reduced at this stage (reduction.c). */
const ce_reduction *ce_reduction_of(const ce_zero *zero);
/* Returns the type in which the groups of hybrid sharding add their gradients (reduction.c). */
cs_dtype ce_reduction_across_type(ce_precision types);
/* Does at once what ce_shard_publish and ce_shard_published put into the comm stream (shard.c). */
void ce_part_publish_now(ce_shard *shard);
const char *ce_part_name(const ce_shard *shard); /* Returns the name of the shard's unit, for a trace. */

/* ce_part_at returns the address of an element of `row`. The other functions return the address of an element of the
 * unit's parameter row in one of the shard's buffers. */
void *ce_part_at(void *row, cs_dtype dtype, int64_t element);
void *ce_part_home(const ce_shard *shard, int64_t element);
void *ce_part_sum(const ce_shard *shard, int64_t element);
void *ce_part_master(const ce_shard *shard, int64_t element);
void *ce_part_slot(const ce_shard *shard, int slot, int64_t element);
/* Returns the address of the scale of the block that begins with this element. */
float *ce_part_scale(const ce_shard *shard, int slot, int64_t element);

#endif
