/* gradient.c - accumulation of a unit's gradient over micro-batches and its reduction over ranks. */
#include "zero/part.h"

/* True if backward adds to `sum` directly. Else it adds to a row of the pool, which is then reduced or added to
 * `sum`. */
static bool sums_in_place(const cs_shard *shard)
{
    return shard->zero->stage.grads == CS_REPLICATED && shard->zero->precision.sums == CS_F32;
}

static void clear(const cs_shard *shard, float *row, int64_t from, int64_t to)
{
    if (from < to && !cs_part_dry(shard))
        cs_op_fill(cs_part_stream(shard, CS_COMPUTE), cs_vector(row + from, CS_F32, to - from), 0);
}

/* Prepares a row to which nothing was added yet: sets it to zero, except parameters whose layer overwrites the gradient
 * at its first use (cs_param_grows), and their gaps, which that use overwrites as well (cs_param.padded). */
static void begin_row(const cs_shard *shard, float *row)
{
    int64_t from = 0;
    for (int i = 0; i < shard->unit->entry_count; i++) {
        const cs_unit_entry *entry = shard->unit->entries[i];
        if (!entry->param.growth)
            continue;
        clear(shard, row, from, entry->offset);
        from = cs_unit_gap(entry).to;
    }
    clear(shard, row, from, shard->padded);
    cs_unit_set_fresh(shard->unit, true);
}

/* Sets to zero the gradient of each such parameter that no layer has used. */
static void end_row(const cs_shard *shard)
{
    for (int i = 0; i < shard->unit->entry_count; i++) {
        const cs_unit_entry *entry = shard->unit->entries[i];
        if (cs_unit_is_fresh(entry))
            clear(shard, entry->growth.data, 0, cs_unit_gap(entry).to - entry->offset);
    }
    cs_unit_set_fresh(shard->unit, false);
}

void cs_gradient_open(cs_shard *shard, cs_micro micro)
{
    if (shard->grad_row)
        return; /* the backward of a unit that borrows from this one has opened it */
    float *whole = shard->sum;
    bool begun = micro == CS_LATER_MICRO_BATCH;
    if (!sums_in_place(shard)) {
        shard->grad_row = cs_pool_borrow(shard->grads_pool, shard->padded);
        whole = cs_pool_data(shard->grad_row);
        begun = false;
        if (!cs_part_dry(shard) && cs_pool_after(shard->grad_row).stream)
            cs_stream_wait(cs_part_stream(shard, CS_COMPUTE), cs_pool_after(shard->grad_row));
    } else if (cs_unit_has_grads(shard->unit)) {
        return;
    }
    cs_unit_attach_grads(shard->unit, whole);
    if (!begun)
        begin_row(shard, whole);
}

/* The first micro-batch's gradient overwrites the sum, a later one's is added. */
static void put(cs_shard *shard, cs_tensor sum, cs_tensor gradient)
{
    if (shard->micro == CS_FIRST_MICRO_BATCH)
        cs_state_convert(cs_part_stream(shard, CS_COMM), sum, gradient, 1);
    else
        cs_state_add(cs_part_stream(shard, CS_COMM), sum, gradient);
}

/* Multiplies an fp32 row by prescale_factor and converts it to `dtype`: fp32 in place, or the type that is sent, in the
 * row for sending. Returns the result. */
static void *pack(cs_shard *shard, void *row, cs_dtype dtype)
{
    float factor = shard->zero->prescale_factor;
    void *packed = dtype == CS_F32 ? row : shard->zero->wire;
    if (dtype != CS_F32 || factor != 1)
        cs_state_convert(cs_part_stream(shard, CS_COMM), cs_vector(packed, dtype, shard->padded),
                         cs_vector(row, CS_F32, shard->padded), factor);
    return packed;
}

static void keep_whole(void *argument)
{
    cs_shard *shard = argument;
    pack(shard, shard->reducing, CS_F32);
    put(shard, cs_vector(shard->sum, shard->zero->precision.sums, shard->padded),
        cs_vector(shard->reducing, CS_F32, shard->padded));
}

static void reduce_part(void *argument)
{
    cs_shard *shard = argument;
    cs_precision types = shard->zero->precision;
    int64_t count = cs_range_length(shard->part);
    bool straight = shard->micro == CS_FIRST_MICRO_BATCH && types.wire == types.sums;
    void *sent = pack(shard, shard->reducing, types.wire);
    void *own = cs_part_at(sent, types.wire, shard->part.from);
    cs_comm_reduce_scatter(shard->zero->comm, straight ? shard->sum : own, sent, count, types.wire, CS_SUM);
    if (!straight)
        put(shard, cs_vector(shard->sum, types.sums, count), cs_vector(own, types.wire, count));
}

void cs_gradient_reduce(cs_shard *shard, cs_micro micro)
{
    end_row(shard);
    cs_unit_attach_grads(shard->unit, NULL);
    if (sums_in_place(shard))
        return;
    if (!cs_part_dry(shard)) {
        if (shard->reduced.stream) /* `reducing` and `micro` are still read by the previous micro-batch's call */
            cs_stream_wait(cs_part_stream(shard, CS_COMPUTE), shard->reduced);
        shard->reducing = cs_pool_data(shard->grad_row);
        shard->micro = micro;
        cs_part_follow(shard, CS_COMM, CS_COMPUTE);
        cs_stream_call(cs_part_stream(shard, CS_COMM),
                       shard->zero->stage.grads == CS_SHARDED ? reduce_part : keep_whole, shard);
        shard->reduced = cs_stream_record(cs_part_stream(shard, CS_COMM));
    }
    cs_pool_return(shard->grads_pool, shard->grad_row, shard->reduced);
    shard->grad_row = NULL;
}

static void reduce_whole(void *argument)
{
    cs_shard *shard = argument;
    cs_comm *comm = shard->zero->comm;
    cs_precision types = shard->zero->precision;
    bool sharded = shard->zero->stage.optim == CS_SHARDED;
    cs_range mine = sharded ? shard->part : (cs_range){ 0, shard->padded };
    int64_t count = cs_range_length(mine);
    void *sent = sums_in_place(shard) ? pack(shard, shard->sum, types.wire) : shard->sum;
    void *own = cs_part_at(sent, types.wire, mine.from);
    if (sharded)
        cs_comm_reduce_scatter(comm, own, sent, count, types.wire, CS_SUM);
    else
        cs_comm_all_reduce(comm, sent, count, types.wire, CS_SUM);
    if (types.wire != types.sums)
        cs_state_convert(cs_part_stream(shard, CS_COMM),
                         cs_vector(cs_part_at(shard->sum, types.sums, mine.from), types.sums, count),
                         cs_vector(own, types.wire, count), 1);
}

void cs_gradient_finish(cs_shard *shard)
{
    if (shard->zero->stage.grads == CS_SHARDED)
        return;
    cs_part_follow(shard, CS_COMM, CS_COMPUTE);
    cs_stream_call(cs_part_stream(shard, CS_COMM), reduce_whole, shard);
}

void cs_gradient_squares(cs_shard *shard, cs_exact *sum, double unscale)
{
    cs_tensor own =
        cs_vector(cs_part_sum(shard, shard->part.from), shard->zero->precision.sums, cs_range_length(shard->part));
    cs_state_sum_squares(cs_part_stream(shard, CS_COMPUTE), sum, own, 0, unscale);
}
