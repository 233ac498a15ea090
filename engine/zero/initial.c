/* initial.c - a shard's values before the first step: initial values, and those of a checkpoint or of pretrained weights,
 * which are set piece by piece and then sent to the other ranks that hold them. */
#include "zero/part.h"
#include "base/must.h"

#include <stdlib.h>

static const ce_optimizer *optimizer_of(const ce_shard *shard, const ce_unit_entry *entry)
{
    return &shard->zero->groups->group[entry->group].optimizer;
}

/* Sets the elements of a slot to their first value. Blocks whose scale is 0 are zero. */
static void fill_slot(ce_shard *shard, int slot, ce_range range, const ce_optimizer *optimizer)
{
    int64_t count = ce_range_length(range);
    cs_tensor slots = cs_vector(ce_part_slot(shard, slot, range.from), shard->zero->precision.slots, count);
    if (optimizer->blocks)
        slots = cs_vector(ce_part_scale(shard, slot, range.from), CS_F32, ce_slots_scales(shard->zero, count));
    cs_op_fill(ce_part_stream(shard, CE_COMPUTE), slots, optimizer->first_value);
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
            fill_slot(shard, slot, range, optimizer);
    }
}

/* Computes the initial values of `items` elements at their places by the parameter's own function, on the host. */
static void compute_by_function(const ce_shard *shard, float *values, const cs_param *param, ce_state_places places,
                                int64_t columns, int64_t items)
{
    CE_FREED float *host = ce_must_alloc((size_t)items * sizeof *host);
    for (int64_t i = 0; i < items; i++) {
        int64_t place = places.from + (places.run ? i / places.run * places.stride + i % places.run : i);
        host[i] = param->initial(place / columns, place % columns, param->argument);
    }
    ce_stream_copy(ce_part_stream(shard, CE_COMPUTE), values, host, (size_t)items * sizeof *host);
    ce_stream_sync(ce_part_stream(shard, CE_COMPUTE));
}

/* Computes the initial values of a piece, one after another. */
static void compute(const ce_shard *shard, float *values, const ce_shard_piece *piece, uint64_t seed)
{
    const ce_unit_entry *entry = piece->entry;
    const int64_t *whole = entry->cut.whole;
    ce_box boxes[CE_MAX_BOXES];
    int count = ce_boxes_split(boxes, piece->part.size, piece->part.dims, piece->range);
    for (int i = 0; i < count; i++) {
        ce_box *box = &boxes[i];
        for (int d = 0; d < box->dims; d++)
            box->offset[d] += piece->part.offset[d];
        int64_t items = ce_boxes_volume(box), run = ce_boxes_run(box, whole);
        ce_state_places places = { ce_boxes_place(box, whole, 0), run < items ? run : 0, whole[1] };
        if (entry->param.initial)
            compute_by_function(shard, values, &entry->param, places, whole[1], items);
        else
            ce_state_init(ce_part_stream(shard, CE_COMPUTE), values, entry->param.init,
                          ce_rng_key(seed, entry->full_name), places, items);
        values += items;
    }
}

/* Writes the values of a piece, which are one after another, to the masters. */
static void put(const ce_shard *shard, const ce_shard_piece *piece, float *values)
{
    int64_t items = ce_range_length(piece->range), run = piece->pitch ? piece->part.size[1] : items;
    for (int64_t row = 0; row * run < items; row++)
        cs_op_cast(ce_part_stream(shard, CE_COMPUTE),
                   cs_vector(ce_part_at(piece->master, piece->dtype, row * piece->pitch), piece->dtype, run),
                   cs_vector(values + row * run, CS_F32, run));
}

void ce_shard_init(ce_shard *shard, uint64_t seed)
{
    CE_FREED ce_shard_piece *pieces = ce_must_alloc(ce_shard_pieces_room(shard));
    int count = shard->unit->bytes ? 0 : ce_shard_held_pieces(shard, pieces); /* 4-bit weights are always read */
    for (int i = 0; i < count; i++) {
        const ce_shard_piece *piece = &pieces[i];
        bool direct = piece->dtype == CS_F32 && !piece->pitch;
        size_t bytes = (size_t)ce_range_length(piece->range) * sizeof(float);
        float *values = direct ? piece->master : ce_device_alloc(shard->zero->device, bytes);
        compute(shard, values, piece, seed);
        if (direct)
            continue;
        put(shard, piece, values);
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

/* Completes `row`, which has one element for each `each` master values of this rank. Several ranks hold the same masters, and
 * each of them has set only its own elements; an all-gather in place among these ranks gives all elements to each of
 * them. The all-gather runs after the compute stream's earlier operations and before its later operations. */
static void spread_row(ce_shard *shard, void *row, cs_dtype dtype, int64_t each)
{
    cs_comm *comm = shard->zero->across ? shard->zero->across : shard->zero->comm;
    ce_part_follow(shard, CE_COMM, CE_COMPUTE);
    cs_comm_all_gather(comm, row, ce_part_at(row, dtype, (shard->own.from - ce_part_from(shard)) / each),
                       ce_range_length(shard->own) / each, dtype);
    ce_part_follow(shard, CE_COMPUTE, CE_COMM);
}

/* Copies the slot of the elements `share` to their places in `row`, which has room for all elements in precision.slots; or
 * back, if `back` is true. */
static void copy_share(ce_shard *shard, int slot, char *row, ce_range share, bool back)
{
    int64_t width = (int64_t)cs_dtype_bytes(shard->zero->precision.slots);
    for (int i = 0; i < shard->unit->entry_count; i++) {
        const ce_unit_entry *entry = shard->unit->entries[i];
        ce_range range = ce_range_overlap(share, ce_part_updated(shard, entry));
        if (slot >= optimizer_of(shard, entry)->slots || ce_range_length(range) == 0)
            continue;
        size_t bytes = (size_t)ce_range_length(range) * cs_dtype_bytes(ce_slots_type(shard->zero, entry));
        char *local = ce_part_slot(shard, slot, range.from), *placed = row + (range.from - ce_part_from(shard)) * width;
        ce_stream_copy(ce_part_stream(shard, CE_COMPUTE), back ? local : placed, back ? placed : local, bytes);
    }
}

/* If the optimizers of some parameters do not have this slot, or have blocks, the ranks' shares of the slot have unequal
 * lengths. Then the elements are copied to a temporary row with room for all parameters; this row is gathered and copied
 * back. */
static void spread_slot(ce_shard *shard, int slot)
{
    cs_dtype dtype = shard->zero->precision.slots;
    int64_t from = ce_part_from(shard), count = ce_part_count(shard), each = ce_range_length(shard->own);
    size_t bytes = (size_t)count * cs_dtype_bytes(dtype);
    if ((size_t)ce_part_slot_bytes(shard, slot) == bytes) {
        spread_row(shard, shard->slots[slot], dtype, 1);
        return;
    }
    char *row = ce_device_alloc(shard->zero->device, bytes);
    copy_share(shard, slot, row, shard->own, false);
    spread_row(shard, row, dtype, 1);
    for (int64_t at = from; at < from + count; at += each)
        copy_share(shard, slot, row, (ce_range){ at, at + each }, true);
    if (shard->zero->align == CE_OPTIM_BLOCK)
        spread_row(shard, ce_part_scale(shard, slot, from), CS_F32, CE_OPTIM_BLOCK);
    ce_stream_sync(ce_part_stream(shard, CE_COMPUTE));
    ce_device_free(shard->zero->device, row);
}

void ce_shard_spread(ce_shard *shard)
{
    const ce_zero *zero = shard->zero;
    if (shard->padded == 0)
        return;
    if (zero->stage.optim == CE_REPLICATED || zero->across) {
        spread_row(shard, shard->master, ce_part_masters(shard), 1);
        for (int i = 0; i < zero->optimizer.slots && !shard->unit->frozen; i++)
            spread_slot(shard, i);
    }
    if (!ce_part_one_copy(shard) && ce_part_count(shard) > 0)
        cs_op_cast(ce_part_stream(shard, CE_COMPUTE),
                   cs_vector(ce_part_home(shard, ce_part_from(shard)), ce_stage_values(zero, shard->unit),
                             ce_part_count(shard)),
                   cs_vector(shard->master, zero->precision.masters, ce_part_count(shard)));
    ce_part_publish_now(shard);
}
