/* slots.c - the memory of optimizer slots: types, sizes and addresses; which parameters can have slots in blocks.
 *
 * A block is CE_OPTIM_BLOCK consecutive elements of the whole parameter, and one rank holds all of it, at every ZeRO stage
 * and world size. Therefore a parameter with blocks begins at a multiple of CE_OPTIM_BLOCK in the row of its unit, and no
 * other parameter is in the row until the next multiple. Parameters that one product uses as one matrix must be adjacent,
 * so a gap can be only behind the last of them. Tensor parallelism must not cut through a block either. */
#include "zero/part.h"

/* Returns whether each rank of the tensor-parallel group holds whole blocks, and holds them in the order of their elements
 * in the whole parameter. The answer is the same on all ranks. */
static bool is_cut_between(const ce_cut *cut, int64_t ranks)
{
    int64_t columns = cut->whole[1];
    bool whole = columns % (CE_OPTIM_BLOCK * ranks) == 0 && (ranks & (ranks - 1)) == 0;
    if (ranks == 1 || (cut->dim == 0 && cut->part[0].copies == ranks))
        return true;
    if (cut->dim == 0)
        return columns % CE_OPTIM_BLOCK == 0;
    for (int i = 0; i < cut->count; i++)
        whole &= cut->part[i].from % CE_OPTIM_BLOCK == 0 && cut->part[i].count % CE_OPTIM_BLOCK == 0;
    return whole;
}

bool ce_slots_fit(const cs_unit *unit, int number)
{
    const ce_unit_entry *entry = unit->entries[number];
    int first = number;
    while (first > 0 && ce_unit_are_adjacent(unit->entries[first - 1], entry))
        first--;
    for (int i = first; i < number; i++)
        if (unit->entries[i]->count % CE_OPTIM_BLOCK != 0)
            return false;
    bool last = number + 1 == unit->entry_count || !ce_unit_are_adjacent(unit->entries[number + 1], entry);
    return (last || entry->count % CE_OPTIM_BLOCK == 0) && ce_cut_count(&entry->cut) >= CE_OPTIM_LEAST &&
           is_cut_between(&entry->cut, unit->model->tp.size);
}

cs_dtype ce_slots_type(const ce_zero *zero, const ce_unit_entry *entry)
{
    return zero->groups->group[entry->group].optimizer.blocks ? CS_U8 : zero->precision.slots;
}

/* The last block of a parameter may reach into the gap behind the parameter. */
int64_t ce_slots_bytes(const ce_zero *zero, const cs_unit *unit, ce_range range, int slot)
{
    int64_t width = (int64_t)cs_dtype_bytes(zero->precision.slots), bytes = ce_range_length(range) * width;
    for (int i = 0; i < unit->entry_count; i++) {
        const ce_unit_entry *entry = unit->entries[i];
        ce_range extent = { entry->offset, entry->offset + entry->count };
        bool has = slot < zero->groups->group[entry->group].optimizer.slots;
        cs_dtype dtype = ce_slots_type(zero, entry);
        if (dtype == CS_U8)
            extent.to = ce_round_up(extent.to, CE_OPTIM_BLOCK);
        bytes -= ce_range_length(ce_range_overlap(range, extent)) * (width - has * (int64_t)cs_dtype_bytes(dtype));
    }
    return bytes;
}

int64_t ce_slots_scales(const ce_zero *zero, int64_t elements)
{
    return zero->align == CE_OPTIM_BLOCK ? ce_divide_up(elements, CE_OPTIM_BLOCK) : 0;
}

int64_t ce_part_slot_bytes(const ce_shard *shard, int slot)
{
    return ce_slots_bytes(shard->zero, shard->unit, ce_part_updated_range(shard), slot);
}

void *ce_part_slot(const ce_shard *shard, int slot, int64_t element)
{
    ce_range before = { ce_part_from(shard), element };
    return (char *)shard->slots[slot] + ce_slots_bytes(shard->zero, shard->unit, before, slot);
}

float *ce_part_scale(const ce_shard *shard, int slot, int64_t element)
{
    void *scales = (char *)shard->slots[slot] + ce_part_slot_bytes(shard, slot);
    return ce_part_at(scales, CS_F32, (element - ce_part_from(shard)) / CE_OPTIM_BLOCK);
}
