/* apply.c - building blocks of an update on this rank's elements: applying the optimizer's rule, computing the two
 * norms of LAMB, gathering a row of directions, and distributing it. update.c combines them. */
#include "zero/part.h"

void ce_apply_rule(ce_shard *shard, ce_state_ranges ranges, const ce_optimizer *optimizer, ce_hyper hyper,
                   const ce_gate *gate)
{
    const ce_zero *zero = shard->zero;
    ce_precision types = zero->precision;
    int64_t from = ce_part_from(shard), count = ce_part_count(shard);
    ce_state_rows rows = { .master = cs_vector(ce_part_master(shard, from), types.masters, count),
                           .gradient = cs_vector(ce_part_sum(shard, from), types.sums, count),
                           .ranges = ranges,
                           .gate = gate };
    for (int i = 0; i < optimizer->slots; i++)
        rows.slots[i] = cs_vector(shard->slots[i], types.slots,
                                  ce_stage_slot_share(zero, shard->unit, ce_part_updated_range(shard), i));
    if (!ce_stage_one_copy(zero) && !optimizer->directs)
        rows.publish = cs_vector(ce_part_home(shard, from), types.values, count);
    ce_state_update(ce_part_stream(shard, CE_COMPUTE), optimizer, hyper, &rows);
}

ce_state_range ce_apply_range(const ce_shard *shard, int entry)
{
    const ce_unit_entry *from = shard->unit->entries[entry];
    ce_range own_range = ce_part_updated(shard, from);
    int64_t begin = ce_part_from(shard);
    ce_state_range range = { .from = own_range.from - begin,
                             .to = own_range.to - begin,
                             .decays = from->param.decay || shard->zero->groups->group[from->group].decays };
    for (int i = 0; i < CE_OPTIM_SLOTS; i++)
        range.slots[i] = ce_stage_slot_share(shard->zero, shard->unit, (ce_range){ begin, own_range.from }, i);
    return range;
}

void ce_apply_norms(ce_shard *shard, int entry, ce_exact sums[2])
{
    const ce_unit_entry *from = shard->unit->entries[entry];
    ce_precision types = shard->zero->precision;
    ce_range range = ce_range_overlap(shard->part, (ce_range){ from->offset, from->offset + from->count });
    int64_t count = ce_range_length(range), lead = range.from % CE_ZERO_ALIGN;
    if (count == 0)
        return;
    ce_state_sum_squares(ce_part_stream(shard, CE_COMPUTE), &sums[0],
                         cs_vector(ce_part_master(shard, range.from), types.masters, count), lead, 1);
    ce_state_sum_squares(ce_part_stream(shard, CE_COMPUTE), &sums[1],
                         cs_vector(ce_part_sum(shard, range.from), types.sums, count), lead, 1);
}

static void collect(void *argument)
{
    ce_shard *shard = argument;
    cs_comm_all_gather(shard->zero->comm, shard->reducing, ce_part_sum(shard, shard->part.from),
                       ce_range_length(shard->part), CS_F32);
}

/* If gradients are REPLICATED, `sum` is a whole row, but only this rank's part of it holds directions, so the other
 * parts are gathered into it. */
float *ce_apply_collect(ce_shard *shard)
{
    shard->reducing = shard->sum;
    if (shard->zero->stage.grads == CE_SHARDED) {
        shard->grad_row = ce_pool_borrow(shard->grads_pool, shard->padded);
        shard->reducing = ce_pool_data(shard->grad_row);
        if (ce_pool_after(shard->grad_row).stream)
            ce_stream_wait(ce_part_stream(shard, CE_COMM), ce_pool_after(shard->grad_row));
    }
    if (shard->zero->stage.optim == CE_SHARDED) {
        ce_part_follow(shard, CE_COMM, CE_COMPUTE);
        ce_stream_call(ce_part_stream(shard, CE_COMM), collect, shard);
        ce_part_follow(shard, CE_COMPUTE, CE_COMM);
    }
    return shard->reducing;
}

static void distribute(void *argument)
{
    ce_shard *shard = argument;
    cs_comm *comm = shard->zero->comm;
    if (shard->zero->stage.optim == CE_SHARDED)
        cs_comm_reduce_scatter(comm, ce_part_sum(shard, shard->part.from), shard->reducing,
                               ce_range_length(shard->part), CS_F32, CS_SUM);
    else
        cs_comm_all_reduce(comm, shard->reducing, shard->padded, CS_F32, CS_SUM);
}

void ce_apply_distribute(ce_shard *shard)
{
    ce_part_follow(shard, CE_COMM, CE_COMPUTE);
    ce_stream_call(ce_part_stream(shard, CE_COMM), distribute, shard);
    ce_event done = ce_stream_record(ce_part_stream(shard, CE_COMM));
    ce_stream_wait(ce_part_stream(shard, CE_COMPUTE), done);
    if (shard->grad_row)
        ce_pool_return(shard->grads_pool, shard->grad_row, done);
    shard->grad_row = NULL;
}
