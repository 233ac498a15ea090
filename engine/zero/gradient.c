/* gradient.c - accumulation of a unit's gradient over micro-batches; reduction.c has its reduction over ranks. */
#include "zero/part.h"

static void clear(const ce_shard *shard, float *row, int64_t from, int64_t to)
{
    if (from < to)
        cs_op_fill(ce_part_stream(shard, CE_COMPUTE), cs_vector(row + from, CS_F32, to - from), 0);
}

/* Prepares a gradient buffer to which nothing was added yet: sets it to zero, except gradients that their layer
 * overwrites at the first use (cs_param_overwrites) and the gaps behind these gradients, which the layer overwrites as well
 * (cs_param.padded). */
static void begin_row(const ce_shard *shard, float *row)
{
    int64_t from = 0;
    for (int i = 0; i < shard->unit->entry_count; i++) {
        const ce_unit_entry *entry = shard->unit->entries[i];
        if (!entry->param.gradient)
            continue;
        clear(shard, row, from, entry->offset);
        from = ce_unit_gap(entry).to;
    }
    clear(shard, row, from, shard->padded);
    ce_unit_set_unwritten(shard->unit, true);
}

/* Sets to zero the gradients that begin_row did not set to zero and that no layer has written since. */
static void end_row(const ce_shard *shard)
{
    for (int i = 0; i < shard->unit->entry_count; i++) {
        const ce_unit_entry *entry = shard->unit->entries[i];
        if (ce_unit_is_unwritten(entry))
            clear(shard, entry->gradient.data, 0, ce_unit_gap(entry).to - entry->offset);
    }
    ce_unit_set_unwritten(shard->unit, false);
}

void ce_gradient_open(ce_shard *shard, ce_micro micro)
{
    if (shard->unit->frozen || shard->padded == 0)
        return;
    /* The buffer is open already: the backward of a unit that shares a parameter of this unit has opened it. */
    if (shard->grad_row)
        return;
    float *whole = shard->sum;
    bool begun = micro == CE_LATER_MICRO_BATCH;
    if (!ce_part_sums_in_place(shard)) {
        shard->grad_row = ce_pool_borrow(shard->grads_pool, shard->padded);
        whole = ce_pool_data(shard->grad_row);
        begun = false;
        if (ce_pool_after(shard->grad_row).stream)
            ce_stream_wait(ce_part_stream(shard, CE_COMPUTE), ce_pool_after(shard->grad_row));
    } else if (ce_unit_has_grads(shard->unit)) {
        return;
    }
    ce_unit_attach_grads(shard->unit, whole);
    if (!begun)
        begin_row(shard, whole);
}

void ce_gradient_reduce(ce_shard *shard, ce_micro micro)
{
    if (shard->padded == 0)
        return;
    end_row(shard);
    ce_unit_attach_grads(shard->unit, NULL);
    if (ce_part_sums_in_place(shard))
        return;
    ce_copies_add(shard, ce_pool_data(shard->grad_row));
    /* The function that the previous micro-batch put into the comm stream may still read `reducing` and `micro`. */
    if (shard->reduced.stream)
        ce_stream_wait(ce_part_stream(shard, CE_COMPUTE), shard->reduced);
    shard->reducing = ce_pool_data(shard->grad_row);
    shard->micro = micro;
    ce_part_follow(shard, CE_COMM, CE_COMPUTE);
    ce_stream_call(ce_part_stream(shard, CE_COMM), shard->reduction->reduce, shard);
    shard->reduced = ce_stream_record(ce_part_stream(shard, CE_COMM));
    ce_pool_return(shard->grads_pool, shard->grad_row, shard->reduced);
    shard->grad_row = NULL;
}

void ce_gradient_finish(ce_shard *shard)
{
    ce_copies_finish(shard);
    if (!shard->reduction->finish || shard->padded == 0 || !shard->zero->buckets[shard->unit->index].completes)
        return;
    ce_part_follow(shard, CE_COMM, CE_COMPUTE);
    ce_stream_call(ce_part_stream(shard, CE_COMM), shard->reduction->finish, shard);
}

void ce_gradient_squares(ce_shard *shard, ce_exact *sum, double unscale)
{
    cs_dtype dtype = shard->zero->precision.sums;
    for (const ce_range *own = shard->owned; own < shard->owned + shard->owned_count; own++)
        ce_state_sum_squares(ce_part_stream(shard, CE_COMPUTE), sum,
                             cs_vector(ce_part_sum(shard, own->from), dtype, ce_range_length(*own)), 0, unscale);
}
