/* stage.c - the four ZeRO stages, and the number of elements that a rank holds. */
#include "zero/zero.h"

const cs_stage cs_stages[4] = {
    /*        params         grads          optim       */
    [0] = { CS_REPLICATED, CS_REPLICATED, CS_REPLICATED },
    [1] = { CS_REPLICATED, CS_REPLICATED, CS_SHARDED },
    [2] = { CS_REPLICATED, CS_SHARDED, CS_SHARDED },
    [3] = { CS_SHARDED, CS_SHARDED, CS_SHARDED },
};

int64_t cs_stage_padded(const cs_zero *zero, int64_t length)
{
    return cs_round_up(length, (int64_t)zero->world * CS_ZERO_ALIGN);
}

cs_range cs_stage_part(const cs_zero *zero, int64_t padded)
{
    int64_t length = padded / zero->world;
    return (cs_range){ zero->rank * length, (zero->rank + 1) * length };
}

bool cs_stage_one_copy(const cs_zero *zero)
{
    return zero->precision.masters == zero->precision.values;
}

int64_t cs_stage_norms(const cs_zero *zero, const cs_unit *unit)
{
    int64_t count = 0;
    for (int i = 0; zero->precision.wide_norms && i < unit->entry_count; i++)
        count += unit->entries[i]->param.norm ? unit->entries[i]->count : 0;
    return count;
}

int64_t cs_stage_share(const cs_zero *zero, cs_place place, int64_t padded)
{
    return place == CS_SHARDED ? padded / zero->world : padded;
}

int64_t cs_stage_slot_share(const cs_zero *zero, const cs_unit *unit, cs_range range, int slot)
{
    int64_t count = cs_range_length(range);
    for (int i = 0; i < unit->entry_count; i++) {
        const cs_unit_entry *entry = unit->entries[i];
        cs_range own = { entry->offset, entry->offset + entry->count };
        if (slot >= zero->groups->group[entry->group].optimizer.slots)
            count -= cs_range_length(cs_range_overlap(range, own));
    }
    return count;
}
