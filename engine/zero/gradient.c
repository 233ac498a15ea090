/* gradient.c - accumulation of a unit's gradient over micro-batches and its reduction over ranks. */
#include "zero/part.h"
#include "base/trace.h"
#include "comm/common.h"

/* Returns true if backward adds gradients directly to the shard's `sum`. Otherwise backward adds gradients to a
 * temporary buffer of the pool, which is then reduced over ranks or added to `sum`. */
static bool sums_in_place(const ce_shard *shard)
{
    return shard->zero->stage.grads == CS_REPLICATED && shard->zero->precision.sums == CS_F32;
}

static void clear(const ce_shard *shard, float *row, int64_t from, int64_t to)
{
    if (from < to && !ce_part_dry(shard))
        cs_op_fill(ce_part_stream(shard, CS_COMPUTE), cs_vector(row + from, CS_F32, to - from), 0);
}

/* Prepares a gradient buffer to which nothing was added yet: sets it to zero, except gradients that their layer
 * overwrites at the first use (cs_param_grows) and the gaps behind these gradients, which the layer overwrites as well
 * (cs_param.padded). */
static void begin_row(const ce_shard *shard, float *row)
{
    int64_t from = 0;
    for (int i = 0; i < shard->unit->entry_count; i++) {
        const ce_unit_entry *entry = shard->unit->entries[i];
        if (!entry->param.growth)
            continue;
        clear(shard, row, from, entry->offset);
        from = ce_unit_gap(entry).to;
    }
    clear(shard, row, from, shard->padded);
    ce_unit_set_fresh(shard->unit, true);
}

/* Sets to zero the gradients that begin_row did not set to zero and that no layer has written since. */
static void end_row(const ce_shard *shard)
{
    for (int i = 0; i < shard->unit->entry_count; i++) {
        const ce_unit_entry *entry = shard->unit->entries[i];
        if (ce_unit_is_fresh(entry))
            clear(shard, entry->growth.data, 0, ce_unit_gap(entry).to - entry->offset);
    }
    ce_unit_set_fresh(shard->unit, false);
}

void ce_gradient_open(ce_shard *shard, ce_micro micro)
{
    if (shard->unit->frozen || shard->padded == 0)
        return;
    /* The buffer is open already: the backward of a unit that borrows a parameter from this unit has opened it. */
    if (shard->grad_row)
        return;
    float *whole = shard->sum;
    bool begun = micro == CS_LATER_MICRO_BATCH;
    if (!sums_in_place(shard)) {
        shard->grad_row = ce_pool_borrow(shard->grads_pool, shard->padded);
        whole = ce_pool_data(shard->grad_row);
        begun = false;
        if (!ce_part_dry(shard) && ce_pool_after(shard->grad_row).stream)
            ce_stream_wait(ce_part_stream(shard, CS_COMPUTE), ce_pool_after(shard->grad_row));
    } else if (ce_unit_has_grads(shard->unit)) {
        return;
    }
    ce_unit_attach_grads(shard->unit, whole);
    if (!begun)
        begin_row(shard, whole);
}

/* Stores a gradient in the sum: the gradient of the first micro-batch overwrites the sum, that of a later micro-batch
 * is added to it. */
static void put(ce_shard *shard, cs_tensor sum, cs_tensor gradient)
{
    if (shard->micro == CS_FIRST_MICRO_BATCH)
        ce_state_convert(ce_part_stream(shard, CS_COMM), sum, gradient, 1);
    else
        ce_state_add(ce_part_stream(shard, CS_COMM), sum, gradient);
}

/* Multiplies fp32 elements by `factor` and converts them to `dtype`. If `dtype` is fp32, the result replaces the
 * elements; otherwise it is written to ce_zero.wire. Returns the address of the result. */
static void *pack(ce_shard *shard, void *from, int64_t count, cs_dtype dtype, float factor)
{
    void *packed = dtype == CS_F32 ? from : shard->zero->wire;
    if (dtype != CS_F32 || factor != 1)
        ce_state_convert(ce_part_stream(shard, CS_COMM), cs_vector(packed, dtype, count),
                         cs_vector(from, CS_F32, count), factor);
    return packed;
}

static void keep_whole(void *argument)
{
    ce_shard *shard = argument;
    pack(shard, shard->reducing, shard->padded, CS_F32, shard->zero->prescale_factor);
    put(shard, cs_vector(shard->sum, shard->zero->precision.sums, shard->padded),
        cs_vector(shard->reducing, CS_F32, shard->padded));
}

static void reduce_part(void *argument)
{
    ce_shard *shard = argument;
    ce_precision types = shard->zero->precision;
    int64_t count = ce_range_length(shard->part);
    bool straight = shard->micro == CS_FIRST_MICRO_BATCH && types.wire == types.sums;
    void *sent = pack(shard, shard->reducing, shard->padded, types.wire, shard->zero->prescale_factor);
    void *own_part = ce_part_at(sent, types.wire, shard->part.from);
    double traced = ce_trace_begin();
    bool added = !straight && types.wire == CS_F32 && types.sums == CS_F32 &&
                 ce_comm_reduce_scatter_add(shard->zero->comm, shard->sum, sent, count);
    if (!added)
        cs_comm_reduce_scatter(shard->zero->comm, straight ? shard->sum : own_part, sent, count, types.wire, CS_SUM);
    ce_trace_end(CS_TRACE_COMMUNICATION, "reduce_scatter", ce_part_name(shard), traced);
    if (!added && !straight)
        put(shard, cs_vector(shard->sum, types.sums, count), cs_vector(own_part, types.wire, count));
}

void ce_gradient_reduce(ce_shard *shard, ce_micro micro)
{
    if (shard->padded == 0)
        return;
    end_row(shard);
    ce_unit_attach_grads(shard->unit, NULL);
    if (sums_in_place(shard))
        return;
    if (!ce_part_dry(shard)) {
        /* The function that the previous micro-batch put into the comm stream may still read `reducing` and `micro`. */
        if (shard->reduced.stream)
            ce_stream_wait(ce_part_stream(shard, CS_COMPUTE), shard->reduced);
        shard->reducing = ce_pool_data(shard->grad_row);
        shard->micro = micro;
        ce_part_follow(shard, CS_COMM, CS_COMPUTE);
        ce_stream_call(ce_part_stream(shard, CS_COMM),
                       shard->zero->stage.grads == CS_SHARDED ? reduce_part : keep_whole, shard);
        shard->reduced = ce_stream_record(ce_part_stream(shard, CS_COMM));
    }
    ce_pool_return(shard->grads_pool, shard->grad_row, shard->reduced);
    shard->grad_row = NULL;
}

/* Returns the type in which the groups of hybrid sharding add their gradients. If gradients accumulate in 16 bits, they
 * are sent in 16 bits even if `wire` is fp32: most collectives add 16-bit numbers in fp32 and round once, so fp32
 * copies would give the same bits. Only NCCL and the algorithms ring and halving may round more often. */
cs_dtype ce_gradient_across_type(ce_precision types)
{
    return types.sums == CS_F32 ? types.wire : types.sums;
}

/* Adds the gradient sums of a bucket over the ranks of `comm`. The sums are sent in `dtype`. */
static void reduce_bucket(ce_shard *shard, cs_comm *comm, cs_dtype dtype, float factor, const char *what)
{
    cs_dtype sums = shard->zero->precision.sums;
    int64_t count = shard->zero->buckets[shard->unit->index].elements;
    void *sent = sums == CS_F32 ? pack(shard, shard->sum, count, dtype, factor) : shard->sum;
    double traced = ce_trace_begin();
    cs_comm_all_reduce(comm, sent, count, dtype, CS_SUM);
    ce_trace_end(CS_TRACE_COMMUNICATION, what, ce_part_name(shard), traced);
    if (dtype != sums)
        ce_state_convert(ce_part_stream(shard, CS_COMM), cs_vector(shard->sum, sums, count),
                         cs_vector(sent, dtype, count), 1);
}

static void reduce_groups(void *argument)
{
    ce_shard *shard = argument;
    const ce_zero *zero = shard->zero;
    reduce_bucket(shard, zero->across, ce_gradient_across_type(zero->precision), 1, "all_reduce of groups");
}

static void reduce_replicas(void *argument)
{
    ce_shard *shard = argument;
    const ce_zero *zero = shard->zero;
    reduce_bucket(shard, zero->comm, zero->precision.wire, sums_in_place(shard) ? zero->prescale_factor : 1,
                  "all_reduce");
}

/* ZeRO stage 1: computes this rank's part of the gradient sum over the ranks of its group, and then over the groups. */
static void reduce_to_part(void *argument)
{
    ce_shard *shard = argument;
    ce_precision types = shard->zero->precision;
    int64_t count = ce_range_length(shard->part);
    void *sent = shard->sum;
    if (sums_in_place(shard))
        sent = pack(shard, shard->sum, shard->padded, types.wire, shard->zero->prescale_factor);
    void *own_part = ce_part_at(sent, types.wire, shard->part.from);
    double traced = ce_trace_begin();
    cs_comm_reduce_scatter(shard->zero->comm, own_part, sent, count, types.wire, CS_SUM);
    ce_trace_end(CS_TRACE_COMMUNICATION, "reduce_scatter", ce_part_name(shard), traced);
    if (shard->zero->across) {
        traced = ce_trace_begin();
        cs_comm_all_reduce(shard->zero->across, own_part, count, types.wire, CS_SUM);
        ce_trace_end(CS_TRACE_COMMUNICATION, "all_reduce of groups", ce_part_name(shard), traced);
    }
    if (types.wire != types.sums)
        ce_state_convert(ce_part_stream(shard, CS_COMM),
                         cs_vector(ce_part_at(shard->sum, types.sums, shard->part.from), types.sums, count),
                         cs_vector(own_part, types.wire, count), 1);
}

void ce_gradient_finish(ce_shard *shard)
{
    const ce_zero *zero = shard->zero;
    bool joins = ce_bucket_joins(zero);
    if (ce_part_dry(shard) || shard->padded == 0 || (zero->stage.grads == CS_SHARDED && !zero->across))
        return;
    if (joins && !zero->buckets[shard->unit->index].completes)
        return;
    ce_part_follow(shard, CS_COMM, CS_COMPUTE);
    ce_stream_call(ce_part_stream(shard, CS_COMM),
                   !joins                            ? reduce_to_part
                   : zero->stage.grads == CS_SHARDED ? reduce_groups
                                                     : reduce_replicas,
                   shard);
}

void ce_gradient_squares(ce_shard *shard, ce_exact *sum, double unscale)
{
    if (ce_range_length(shard->own) == 0)
        return;
    cs_tensor own =
        cs_vector(ce_part_sum(shard, shard->own.from), shard->zero->precision.sums, ce_range_length(shard->own));
    ce_state_sum_squares(ce_part_stream(shard, CS_COMPUTE), sum, own, 0, unscale);
}
