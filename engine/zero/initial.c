/* initial.c - a shard's values before the first step: initial values, and those of a checkpoint or of pretrained weights,
 * which are set piece by piece and then sent to the other ranks that hold them. */
#include "zero/part.h"
#include "base/must.h"

#include <stdlib.h>

static const ce_optimizer *optimizer_of(const ce_shard *shard, const ce_unit_entry *entry)
{
    return &shard->zero->groups->group[entry->group].optimizer;
}

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
    CE_FREED ce_shard_piece *pieces = ce_must_alloc((size_t)shard->unit->entry_count * sizeof *pieces);
    int count = ce_shard_pieces(shard, pieces);
    for (int i = 0; i < count; i++) {
        ce_unit_entry *entry = pieces[i].entry;
        int64_t items = ce_range_length(pieces[i].range);
        bool wide = pieces[i].dtype == CS_F32;
        float *values = wide ? pieces[i].master : ce_device_alloc(shard->zero->device, (size_t)items * sizeof(float));
        ce_state_init(ce_part_stream(shard, CE_COMPUTE), values, entry->param.init, ce_rng_key(seed, entry->full_name),
                      (ce_state_places){ .from = pieces[i].range.from }, items);
        if (wide)
            continue;
        cs_op_cast(ce_part_stream(shard, CE_COMPUTE), cs_vector(pieces[i].master, pieces[i].dtype, items),
                   cs_vector(values, CS_F32, items));
        ce_stream_sync(ce_part_stream(shard, CE_COMPUTE));
        ce_device_free(shard->zero->device, values);
    }
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
    if (ce_part_slot_count(shard, slot) == count) {
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
    ce_part_publish_now(shard);
}
