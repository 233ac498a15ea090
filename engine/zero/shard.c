/* shard.c - the verbs gather, await, release and publish for a unit's parameters. zero.h explains the verbs; gradient.c
 * and update.c have the other verbs. */
#include "zero/part.h"
#include "base/must.h"
#include "base/trace.h"

/* If the part is in host memory, it is copied to its place in the row first, and the ranks gather in place. */
static void fetch(void *argument)
{
    ce_shard *shard = argument;
    cs_dtype dtype = ce_stage_values(shard->zero, shard->unit);
    int64_t count = ce_range_length(shard->part);
    void *row = ce_pool_data(shard->value_row), *own = ce_part_at(row, dtype, shard->part.from);
    double traced = ce_trace_begin();
    if (shard->zero->offload_params)
        ce_stream_copy(ce_part_stream(shard, CE_COMM), own, shard->home, (size_t)count * cs_dtype_bytes(dtype));
    cs_comm_all_gather(shard->zero->comm, row, shard->zero->offload_params ? own : shard->home, count, dtype);
    ce_trace_end(CE_TRACE_COMMUNICATION, "all_gather", ce_part_name(shard), traced);
}

void ce_shard_gather(ce_shard *shard)
{
    if (shard->users++ > 0 || shard->whole || shard->padded == 0)
        return;
    CE_ASSERT(!shard->value_row);
    shard->value_row =
        ce_pool_borrow(shard->values_pool,
                       shard->padded * (int64_t)cs_dtype_bytes(ce_stage_values(shard->zero, shard->unit)));
    shard->gathers++;
    ce_event last_use = ce_pool_after(shard->value_row);
    if (last_use.stream)
        ce_stream_wait(ce_part_stream(shard, CE_COMM), last_use);
    ce_stream_call(ce_part_stream(shard, CE_COMM), fetch, shard);
    shard->gathered = ce_stream_record(ce_part_stream(shard, CE_COMM));
}

/* Sets the address of each parameter's value to the parameter's place in the row `whole`, or, for a normalization
 * parameter that is kept in fp32, to its place in shard->norms. If `whole` is NULL, all these addresses become NULL. */
static void attach_values(ce_shard *shard, void *whole)
{
    int64_t place = 0;
    ce_unit_attach_values(shard->unit, whole, ce_stage_values(shard->zero, shard->unit));
    for (int i = 0; shard->zero->precision.wide_norms && i < shard->unit->entry_count; i++) {
        ce_unit_entry *entry = shard->unit->entries[i];
        if (!entry->param.norm)
            continue;
        entry->param.value.data = whole ? shard->norms + place : NULL;
        entry->param.value.dtype = CS_F32;
        place += entry->count;
    }
}

void ce_shard_await(ce_shard *shard)
{
    CE_ASSERT(shard->users > 0);
    if (shard->value_row)
        ce_stream_wait(ce_part_stream(shard, CE_COMPUTE), shard->gathered);
    if (shard->padded > 0)
        attach_values(shard, shard->whole ? shard->whole : ce_pool_data(shard->value_row));
}

void ce_shard_release(ce_shard *shard)
{
    CE_ASSERT(shard->users > 0);
    if (--shard->users > 0)
        return;
    attach_values(shard, NULL);
    if (!shard->value_row)
        return;
    ce_pool_return(shard->values_pool, shard->value_row, ce_stream_record(ce_part_stream(shard, CE_COMPUTE)));
    shard->value_row = NULL;
}

/* Copies this rank's elements of the normalization parameters to shard->norms as fp32, and sets other ranks' elements
 * to zero. */
static void take_norms(ce_shard *shard)
{
    cs_stream *stream = ce_part_stream(shard, CE_COMPUTE);
    int64_t place = 0;
    if (!shard->norms)
        return;
    cs_op_fill(stream, cs_vector(shard->norms, CS_F32, ce_stage_norms(shard->zero, shard->unit)), 0);
    for (int i = 0; i < shard->unit->entry_count; i++) {
        ce_unit_entry *entry = shard->unit->entries[i];
        ce_range range = ce_part_updated(shard, entry);
        int64_t count = ce_range_length(range);
        if (!entry->param.norm)
            continue;
        if (count > 0)
            cs_op_cast(stream, cs_vector(shard->norms + place + (range.from - entry->offset), CS_F32, count),
                       cs_vector(ce_part_master(shard, range.from), ce_part_masters(shard), count));
        place += entry->count;
    }
}

/* Sends the new values in the compute type to the other ranks. The norms' parameters in fp32 are a sum of bit patterns
 * as integers: every element is non-zero on at most one rank, so the sum over ranks is the element's bit pattern. */
static void send_values(void *argument)
{
    ce_shard *shard = argument;
    if (shard->reduction->publish)
        shard->reduction->publish(shard);
    if (shard->norms && shard->zero->stage.optim == CE_SHARDED)
        cs_comm_all_reduce(shard->zero->comm, shard->norms, ce_stage_norms(shard->zero, shard->unit), CS_I32, CS_SUM);
}

/* The update has written this rank's new values in the compute type; this function sends them to the other ranks and
 * receives the new values of those ranks. */
void ce_shard_publish(ce_shard *shard)
{
    if (shard->padded == 0)
        return;
    take_norms(shard);
    ce_part_follow(shard, CE_COMM, CE_COMPUTE);
    ce_stream_call(ce_part_stream(shard, CE_COMM), send_values, shard);
}

void ce_part_publish_now(ce_shard *shard)
{
    take_norms(shard);
    ce_part_follow(shard, CE_COMM, CE_COMPUTE);
    send_values(shard);
    if (ce_part_is_common(shard->zero))
        cs_comm_barrier(shard->zero->comm);
    ce_part_follow(shard, CE_COMPUTE, CE_COMM);
}

static void meet(void *comm)
{
    double traced = ce_trace_begin();
    cs_comm_barrier(comm);
    ce_trace_end(CE_TRACE_COMMUNICATION, "barrier", "", traced);
}

void ce_shard_published(const ce_zero *zero)
{
    cs_stream *compute = ce_device_stream(zero->device, CE_COMPUTE), *comm = ce_device_stream(zero->device, CE_COMM);
    if (!ce_part_is_common(zero))
        return;
    ce_stream_follow(comm, compute);
    ce_stream_call(comm, meet, zero->comm);
}
