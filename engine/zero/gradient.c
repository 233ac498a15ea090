/* gradient.c - accumulation of a unit's gradient over micro-batches and its reduction over ranks. */
#include "zero/part.h"
#include "base/trace.h"
#include "comm/common.h"

/* True if backward adds to `sum` directly. If false, backward adds to a row of the pool, and that row is then reduced
 * or added to `sum`. */
static bool sums_in_place(const ce_shard *shard)
{
    return shard->zero->stage.grads == CS_REPLICATED && shard->zero->precision.sums == CS_F32;
}

static void clear(const ce_shard *shard, float *row, int64_t from, int64_t to)
{
    if (from < to && !ce_part_dry(shard))
        cs_op_fill(ce_part_stream(shard, CS_COMPUTE), cs_vector(row + from, CS_F32, to - from), 0);
}

/* Prepares a row to which nothing was added yet: sets it to zero, except the gradients that their layer overwrites at
 * the first use (cs_param_grows) and the gaps behind them, which the layer overwrites as well (cs_param.padded). */
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

/* Sets to zero the gradients that begin_row left to their layers and that no layer has written. */
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
    if (shard->grad_row)
        return; /* the row is open already: a unit that borrows from this unit has opened it in its backward */
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

/* Puts a gradient into the sum: that of the first micro-batch overwrites the sum, that of a later one is added. */
static void put(ce_shard *shard, cs_tensor sum, cs_tensor gradient)
{
    if (shard->micro == CS_FIRST_MICRO_BATCH)
        ce_state_convert(ce_part_stream(shard, CS_COMM), sum, gradient, 1);
    else
        ce_state_add(ce_part_stream(shard, CS_COMM), sum, gradient);
}

/* Multiplies an fp32 row by prescale_factor and converts it to `dtype`. If `dtype` is fp32, the result replaces the
 * row; otherwise it is written to ce_zero.wire. Returns the result. */
static void *pack(ce_shard *shard, void *row, cs_dtype dtype)
{
    float factor = shard->zero->prescale_factor;
    void *packed = dtype == CS_F32 ? row : shard->zero->wire;
    if (dtype != CS_F32 || factor != 1)
        ce_state_convert(ce_part_stream(shard, CS_COMM), cs_vector(packed, dtype, shard->padded),
                         cs_vector(row, CS_F32, shard->padded), factor);
    return packed;
}

static void keep_whole(void *argument)
{
    ce_shard *shard = argument;
    pack(shard, shard->reducing, CS_F32);
    put(shard, cs_vector(shard->sum, shard->zero->precision.sums, shard->padded),
        cs_vector(shard->reducing, CS_F32, shard->padded));
}

static void reduce_part(void *argument)
{
    ce_shard *shard = argument;
    ce_precision types = shard->zero->precision;
    int64_t count = ce_range_length(shard->part);
    bool straight = shard->micro == CS_FIRST_MICRO_BATCH && types.wire == types.sums;
    void *sent = pack(shard, shard->reducing, types.wire);
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
        /* The queued call of the previous micro-batch may still read `reducing` and `micro`. */
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

/* The type in which groups add their gradients. Sums in 16 bits are sent as they are, for the sum of fp32 copies would
 * have the same bits. */
cs_dtype ce_gradient_across_type(ce_precision types)
{
    return types.sums == CS_F32 ? types.wire : types.sums;
}

static void add_groups(const ce_shard *shard, void *part, cs_dtype dtype)
{
    double traced = ce_trace_begin();
    cs_comm_all_reduce(shard->zero->across, part, ce_range_length(shard->part), dtype, CS_SUM);
    ce_trace_end(CS_TRACE_COMMUNICATION, "all_reduce of groups", ce_part_name(shard), traced);
}

/* Adds the groups' gradients of this rank's part. */
static void reduce_across(void *argument)
{
    ce_shard *shard = argument;
    ce_precision types = shard->zero->precision;
    cs_dtype sent = ce_gradient_across_type(types);
    cs_tensor sum = cs_vector(shard->sum, types.sums, ce_range_length(shard->part)), row = sum;
    if (sent != types.sums) {
        row = cs_vector(shard->zero->wire, sent, ce_range_length(shard->part));
        ce_state_convert(ce_part_stream(shard, CS_COMM), row, sum, 1);
    }
    add_groups(shard, row.data, sent);
    if (sent != types.sums)
        ce_state_convert(ce_part_stream(shard, CS_COMM), sum, row, 1);
}

static void reduce_whole(void *argument)
{
    ce_shard *shard = argument;
    cs_comm *comm = shard->zero->comm;
    ce_precision types = shard->zero->precision;
    bool sharded = shard->zero->stage.optim == CS_SHARDED;
    ce_range mine = sharded ? shard->part : (ce_range){ 0, shard->padded };
    int64_t count = ce_range_length(mine);
    void *sent = sums_in_place(shard) ? pack(shard, shard->sum, types.wire) : shard->sum;
    void *own_part = ce_part_at(sent, types.wire, mine.from);
    double traced = ce_trace_begin();
    if (sharded)
        cs_comm_reduce_scatter(comm, own_part, sent, count, types.wire, CS_SUM);
    else
        cs_comm_all_reduce(comm, sent, count, types.wire, CS_SUM);
    ce_trace_end(CS_TRACE_COMMUNICATION, sharded ? "reduce_scatter" : "all_reduce", ce_part_name(shard), traced);
    if (shard->zero->across)
        add_groups(shard, own_part, types.wire);
    if (types.wire != types.sums)
        ce_state_convert(ce_part_stream(shard, CS_COMM),
                         cs_vector(ce_part_at(shard->sum, types.sums, mine.from), types.sums, count),
                         cs_vector(own_part, types.wire, count), 1);
}

static void collect(void *argument)
{
    ce_served_collect(argument);
}

void ce_gradient_finish(ce_shard *shard)
{
    bool sharded = shard->zero->stage.grads == CS_SHARDED, served = shard->zero->served != NULL;
    if (shard->padded == 0 || (sharded && !served && !shard->zero->across))
        return;
    ce_part_follow(shard, CS_COMM, CS_COMPUTE);
    ce_stream_call(ce_part_stream(shard, CS_COMM), served ? collect : sharded ? reduce_across : reduce_whole, shard);
}

void ce_gradient_squares(ce_shard *shard, ce_exact *sum, double unscale)
{
    const ce_served *served = shard->zero->served;
    bool alone = served && served->async && !served->serves; /* the gradients are those of this worker */
    ce_range range = alone ? (ce_range){ 0, shard->padded } : shard->own;
    if (ce_range_length(range) == 0)
        return;
    cs_tensor own = cs_vector(ce_part_sum(shard, range.from), shard->zero->precision.sums, ce_range_length(range));
    ce_state_sum_squares(ce_part_stream(shard, CS_COMPUTE), sum, own, 0, unscale);
}
