/* shard.c - the verbs gather, await, release and publish for a unit's parameters; also the shard's memory, initial
 * values, and the pieces that checkpoints save. zero.h explains the verbs; gradient.c and apply.c have the other
 * verbs. */
#include "zero/part.h"
#include "base/must.h"
#include "base/trace.h"
#include "comm/common.h"

#include <stdlib.h>

static int64_t slot_count(const ce_shard *shard, int slot)
{
    return ce_stage_slot_share(shard->zero, shard->unit, ce_part_updated_range(shard), slot);
}

static const ce_optimizer *optimizer_of(const ce_shard *shard, const ce_unit_entry *entry)
{
    return &shard->zero->groups->group[entry->group].optimizer;
}

static bool is_common(const ce_zero *zero)
{
    return zero->common && zero->stage.params == CE_SHARDED;
}

/* Allocates memory that the device's kernels can access. If `offloads` is true, it is pinned host memory.
 *
 * A GPU has not measured the alternatives yet: an update that reads offloaded state through a copy in device memory
 * instead of in place; a stream of its own for the copy of a unit's part, which now waits in the stream of the
 * collectives; pinned memory of the GPU's NUMA node, which the operating system chooses now. */
static void *alloc_state(const ce_zero *zero, bool offloads, size_t bytes)
{
    return offloads ? ce_device_alloc_pinned(zero->device, bytes) : ce_device_alloc(zero->device, bytes);
}

static void take_values(ce_shard *shard)
{
    const ce_zero *zero = shard->zero;
    cs_dtype dtype = zero->precision.values;
    size_t home = (size_t)ce_stage_share(zero, zero->stage.params, shard->padded) * cs_dtype_bytes(dtype);
    if (is_common(zero)) {
        shard->whole = ce_comm_alloc_common(zero->comm, (size_t)shard->padded * cs_dtype_bytes(dtype));
        shard->home = ce_part_at(shard->whole, dtype, shard->part.from);
        return;
    }
    shard->home = zero->offload_params ? ce_device_alloc_pinned(zero->device, home) : cs_comm_alloc(zero->comm, home);
    if (zero->stage.params == CE_REPLICATED)
        shard->whole = shard->home;
}

/* Buffers that collectives use are allocated by comm, so that collectives work in place; the other buffers are
 * allocated by the device. */
static void take_memory(ce_shard *shard)
{
    const ce_zero *zero = shard->zero;
    ce_precision types = zero->precision;
    size_t optim = (size_t)ce_part_count(shard), norms = (size_t)ce_stage_norms(zero, shard->unit);
    if (shard->padded == 0) /* The row is empty if all parameters of the unit are frozen. */
        return;
    take_values(shard);
    if (norms)
        shard->norms = cs_comm_alloc(zero->comm, norms * sizeof(float));
    shard->master = ce_part_one_copy(shard)
                        ? ce_part_home(shard, ce_part_from(shard))
                        : alloc_state(zero, zero->offload_optimizer, optim * cs_dtype_bytes(types.masters));
    if (shard->unit->frozen)
        return;
    shard->sum = zero->buckets[shard->unit->index].sum;
    for (int i = 0; i < zero->optimizer.slots; i++)
        shard->slots[i] =
            alloc_state(zero, zero->offload_optimizer, (size_t)slot_count(shard, i) * cs_dtype_bytes(types.slots));
}

cs_status ce_shard_open(ce_shard **shard, const ce_zero *zero, cs_unit *unit, ce_pool *values, ce_pool *grads)
{
    *shard = calloc(1, sizeof **shard);
    if (!*shard)
        return ce_fail(CS_NO_MEMORY, "out of memory for a shard");
    (*shard)->zero = zero;
    (*shard)->unit = unit;
    (*shard)->values_pool = values;
    (*shard)->grads_pool = grads;
    (*shard)->padded = ce_stage_padded(zero, unit->length);
    (*shard)->part = ce_stage_part(zero, (*shard)->padded);
    (*shard)->own = ce_stage_own(zero, (*shard)->padded);
    (*shard)->reduction = ce_reduction_of(zero);
    if (!ce_part_dry(*shard)) {
        take_memory(*shard);
        return CS_OK;
    }
    /* a placeholder address, which must not be accessed */
    (*shard)->home = (*shard)->sum = (*shard)->norms = (void *)((uintptr_t)1 << 44);
    if (zero->stage.params == CE_REPLICATED || is_common(zero))
        (*shard)->whole = (*shard)->home;
    return CS_OK;
}

void ce_shard_close(ce_shard *shard)
{
    if (!shard)
        return;
    if (!ce_part_dry(shard)) {
        if (shard->zero->offload_params)
            ce_device_free(shard->zero->device, shard->home);
        if (shard->master && !ce_part_one_copy(shard))
            ce_device_free(shard->zero->device, shard->master);
        for (int i = 0; i < shard->zero->optimizer.slots && shard->slots[i]; i++)
            ce_device_free(shard->zero->device, shard->slots[i]);
    }
    free(shard);
}

const cs_unit *ce_shard_unit(const ce_shard *shard)
{
    return shard->unit;
}

/* ---- parameters ---- */

/* If the part is in host memory, it is copied to its place in the row first, and the ranks gather in place. */
static void fetch(void *argument)
{
    ce_shard *shard = argument;
    cs_dtype dtype = shard->zero->precision.values;
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
    shard->value_row = ce_pool_borrow(shard->values_pool, shard->padded);
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
    ce_unit_attach_values(shard->unit, whole, shard->zero->precision.values);
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

/* ---- after an update ---- */

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

/* Gathers shard->norms on all ranks: every element is non-zero on at most one rank, so the sum of its bit patterns over
 * the ranks, as integers, is the bit pattern of the element. */
static void spread_norms(void *argument)
{
    ce_shard *shard = argument;
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
    if (shard->reduction->publish)
        ce_stream_call(ce_part_stream(shard, CE_COMM), shard->reduction->publish, shard);
    if (shard->norms && shard->zero->stage.optim == CE_SHARDED)
        ce_stream_call(ce_part_stream(shard, CE_COMM), spread_norms, shard);
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
    if (!is_common(zero))
        return;
    ce_stream_follow(comm, compute);
    ce_stream_call(comm, meet, zero->comm);
}

/* ---- initial values, checkpoints ---- */

int ce_shard_pieces(ce_shard *shard, ce_shard_piece *pieces)
{
    int count = 0;
    for (int i = 0; i < shard->unit->entry_count; i++) {
        ce_unit_entry *entry = shard->unit->entries[i];
        ce_range range = ce_range_overlap(shard->own, (ce_range){ entry->offset, entry->offset + entry->count });
        if (ce_range_length(range) == 0)
            continue;
        ce_shard_piece piece = { entry,
                                 { range.from - entry->offset, range.to - entry->offset },
                                 ce_part_masters(shard),
                                 ce_part_master(shard, range.from),
                                 shard->unit->frozen ? NULL : ce_part_sum(shard, range.from),
                                 { 0 } };
        for (int slot = 0; !shard->unit->frozen && slot < optimizer_of(shard, entry)->slots; slot++)
            piece.slots[slot] = ce_part_slot(shard, slot, range.from);
        pieces[count++] = piece;
    }
    return count;
}

/* Sets the optimizer's slots to their first values. If `new` is true, the memory is zero already, so slots whose first
 * value is 0 are not written. */
static void set_slots(ce_shard *shard, bool new)
{
    for (int i = 0; !shard->unit->frozen && i < shard->unit->entry_count; i++) {
        const ce_unit_entry *entry = shard->unit->entries[i];
        const ce_optimizer *optimizer = optimizer_of(shard, entry);
        ce_range range = ce_part_updated(shard, entry);
        for (int slot = 0; slot < optimizer->slots && !(new && optimizer->first_value == 0); slot++)
            cs_op_fill(ce_part_stream(shard, CE_COMPUTE),
                       cs_vector(ce_part_slot(shard, slot, range.from), shard->zero->precision.slots,
                                 ce_range_length(range)),
                       optimizer->first_value);
    }
}

void ce_shard_init(ce_shard *shard, uint64_t seed)
{
    ce_shard_piece *pieces = malloc((size_t)shard->unit->entry_count * sizeof *pieces + 1);
    if (!pieces)
        ce_fatal(CS_NO_MEMORY, "out of memory for a unit's first values");
    int count = ce_shard_pieces(shard, pieces);
    for (int i = 0; i < count; i++) {
        ce_unit_entry *entry = pieces[i].entry;
        int64_t items = ce_range_length(pieces[i].range);
        bool wide = pieces[i].dtype == CS_F32;
        float *values = wide ? pieces[i].master : ce_device_alloc(shard->zero->device, (size_t)items * sizeof(float));
        ce_state_init(ce_part_stream(shard, CE_COMPUTE), values, entry->param.init, ce_rng_key(seed, entry->full_name),
                      pieces[i].range.from, items);
        if (wide)
            continue;
        cs_op_cast(ce_part_stream(shard, CE_COMPUTE), cs_vector(pieces[i].master, pieces[i].dtype, items),
                   cs_vector(values, CS_F32, items));
        ce_stream_sync(ce_part_stream(shard, CE_COMPUTE));
        ce_device_free(shard->zero->device, values);
    }
    free(pieces);
    set_slots(shard, true);
    ce_shard_spread(shard);
}

void ce_shard_forget(ce_shard *shard)
{
    set_slots(shard, false);
}

/* Completes `row`, which has one element for each master value of this rank. Several ranks hold the same masters, and
 * each of them has set only its own elements; an all-gather in place among these ranks gives all elements to each of
 * them. The all-gather runs after the compute stream's earlier operations and before its later operations. */
static void spread_row(ce_shard *shard, void *row, cs_dtype dtype)
{
    cs_comm *comm = shard->zero->across ? shard->zero->across : shard->zero->comm;
    ce_part_follow(shard, CE_COMM, CE_COMPUTE);
    cs_comm_all_gather(comm, row, ce_part_at(row, dtype, shard->own.from - ce_part_from(shard)),
                       ce_range_length(shard->own), dtype);
    ce_part_follow(shard, CE_COMPUTE, CE_COMM);
}

/* If the optimizers of some parameters do not have this slot, the ranks' shares of the slot have unequal lengths. Then
 * the elements are copied to a temporary row with room for all parameters; this row is gathered and copied back. */
static void spread_slot(ce_shard *shard, int slot)
{
    cs_dtype dtype = shard->zero->precision.slots;
    int64_t from = ce_part_from(shard), count = ce_part_count(shard);
    if (slot_count(shard, slot) == count) {
        spread_row(shard, shard->slots[slot], dtype);
        return;
    }
    void *row = ce_device_alloc(shard->zero->device, (size_t)count * cs_dtype_bytes(dtype));
    for (int back = 0; back < 2; back++) {
        for (int i = 0; i < shard->unit->entry_count; i++) {
            const ce_unit_entry *entry = shard->unit->entries[i];
            ce_range range = ce_part_updated(shard, entry);
            if (slot >= optimizer_of(shard, entry)->slots || ce_range_length(range) == 0)
                continue;
            cs_tensor local = cs_vector(ce_part_slot(shard, slot, range.from), dtype, ce_range_length(range));
            cs_tensor placed = cs_vector(ce_part_at(row, dtype, range.from - from), dtype, ce_range_length(range));
            cs_op_cast(ce_part_stream(shard, CE_COMPUTE), back ? local : placed, back ? placed : local);
        }
        if (!back)
            spread_row(shard, row, dtype);
    }
    ce_stream_sync(ce_part_stream(shard, CE_COMPUTE));
    ce_device_free(shard->zero->device, row);
}

void ce_shard_spread(ce_shard *shard)
{
    const ce_zero *zero = shard->zero;
    if (shard->padded == 0)
        return;
    if (zero->stage.optim == CE_REPLICATED || zero->across) {
        spread_row(shard, shard->master, ce_part_masters(shard));
        for (int i = 0; i < zero->optimizer.slots && !shard->unit->frozen; i++)
            spread_slot(shard, i);
    }
    if (!ce_part_one_copy(shard) && ce_part_count(shard) > 0)
        cs_op_cast(ce_part_stream(shard, CE_COMPUTE),
                   cs_vector(ce_part_home(shard, ce_part_from(shard)), zero->precision.values, ce_part_count(shard)),
                   cs_vector(shard->master, zero->precision.masters, ce_part_count(shard)));
    take_norms(shard);
    ce_part_follow(shard, CE_COMM, CE_COMPUTE);
    if (shard->reduction->publish)
        shard->reduction->publish(shard);
    if (shard->norms && zero->stage.optim == CE_SHARDED)
        spread_norms(shard);
    if (is_common(zero))
        cs_comm_barrier(zero->comm);
    ce_part_follow(shard, CE_COMPUTE, CE_COMM);
}
