/* apply.c - building blocks of an update on this rank's elements: the optimizer's rule, two norms, and gathering and
 * distributing a row of directions. update.c combines them. */
#include "zero/part.h"

void cs_apply_rule(cs_shard *shard, cs_state_ranges ranges, const cs_optimizer *optimizer, cs_hyper hyper,
                   const cs_gate *gate)
{
    const cs_zero *zero = shard->zero;
    cs_precision types = zero->precision;
    int64_t from = cs_part_from(shard), count = cs_part_count(shard);
    cs_state_rows rows = { .master = cs_vector(cs_part_master(shard, from), types.masters, count),
                           .gradient = cs_vector(cs_part_sum(shard, from), types.sums, count),
                           .ranges = ranges,
                           .gate = gate };
    for (int i = 0; i < optimizer->slots; i++)
        rows.slots[i] =
            cs_vector(shard->slots[i], types.slots, cs_stage_slot_share(zero, shard->unit, cs_part_moved(shard), i));
    if (!cs_stage_one_copy(zero) && !optimizer->directs)
        rows.publish = cs_vector(cs_part_home(shard, from), types.values, count);
    cs_state_update(cs_part_stream(shard, CS_COMPUTE), optimizer, hyper, &rows);
}

cs_state_range cs_apply_range(const cs_shard *shard, int entry)
{
    const cs_unit_entry *from = shard->unit->entries[entry];
    cs_range own = cs_part_own(shard, from);
    int64_t begin = cs_part_from(shard);
    cs_state_range range = { .from = own.from - begin,
                             .to = own.to - begin,
                             .decays = from->param.decay || shard->zero->groups->group[from->group].decays };
    for (int i = 0; i < CS_OPTIM_SLOTS; i++)
        range.slots[i] = cs_stage_slot_share(shard->zero, shard->unit, (cs_range){ begin, own.from }, i);
    return range;
}

void cs_apply_norms(cs_shard *shard, int entry, cs_exact sums[2])
{
    const cs_unit_entry *from = shard->unit->entries[entry];
    cs_precision types = shard->zero->precision;
    cs_range range = cs_range_overlap(shard->part, (cs_range){ from->offset, from->offset + from->count });
    int64_t count = cs_range_length(range), lead = range.from % CS_ZERO_ALIGN;
    if (count == 0)
        return;
    cs_state_sum_squares(cs_part_stream(shard, CS_COMPUTE), &sums[0],
                         cs_vector(cs_part_master(shard, range.from), types.masters, count), lead, 1);
    cs_state_sum_squares(cs_part_stream(shard, CS_COMPUTE), &sums[1],
                         cs_vector(cs_part_sum(shard, range.from), types.sums, count), lead, 1);
}

static void collect(void *argument)
{
    cs_shard *shard = argument;
    cs_comm_all_gather(shard->zero->comm, shard->reducing, cs_part_sum(shard, shard->part.from),
                       cs_range_length(shard->part), CS_F32);
}

/* If gradients are replicated, `sum` is a whole row already, but only this rank's part of it holds directions. */
float *cs_apply_collect(cs_shard *shard)
{
    shard->reducing = shard->sum;
    if (shard->zero->stage.grads == CS_SHARDED) {
        shard->grad_row = cs_pool_borrow(shard->grads_pool, shard->padded);
        shard->reducing = cs_pool_data(shard->grad_row);
        if (cs_pool_after(shard->grad_row).stream)
            cs_stream_wait(cs_part_stream(shard, CS_COMM), cs_pool_after(shard->grad_row));
    }
    if (shard->zero->stage.optim == CS_SHARDED) {
        cs_part_follow(shard, CS_COMM, CS_COMPUTE);
        cs_stream_call(cs_part_stream(shard, CS_COMM), collect, shard);
        cs_part_follow(shard, CS_COMPUTE, CS_COMM);
    }
    return shard->reducing;
}

static void distribute(void *argument)
{
    cs_shard *shard = argument;
    cs_comm *comm = shard->zero->comm;
    if (shard->zero->stage.optim == CS_SHARDED)
        cs_comm_reduce_scatter(comm, cs_part_sum(shard, shard->part.from), shard->reducing,
                               cs_range_length(shard->part), CS_F32, CS_SUM);
    else
        cs_comm_all_reduce(comm, shard->reducing, shard->padded, CS_F32, CS_SUM);
}

void cs_apply_distribute(cs_shard *shard)
{
    cs_part_follow(shard, CS_COMM, CS_COMPUTE);
    cs_stream_call(cs_part_stream(shard, CS_COMM), distribute, shard);
    cs_event done = cs_stream_record(cs_part_stream(shard, CS_COMM));
    cs_stream_wait(cs_part_stream(shard, CS_COMPUTE), done);
    if (shard->grad_row)
        cs_pool_return(shard->grads_pool, shard->grad_row, done);
    shard->grad_row = NULL;
}
