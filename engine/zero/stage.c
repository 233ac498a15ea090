/* stage.c - the four ZeRO stages, and the number of elements that a rank holds. */
#include "zero/zero.h"

const ce_stage ce_stages[4] = {
    /*        params         grads          optim       */
    [0] = { CE_REPLICATED, CE_REPLICATED, CE_REPLICATED },
    [1] = { CE_REPLICATED, CE_REPLICATED, CE_SHARDED },
    [2] = { CE_REPLICATED, CE_SHARDED, CE_SHARDED },
    [3] = { CE_SHARDED, CE_SHARDED, CE_SHARDED },
};

int64_t ce_stage_padded(const ce_zero *zero, int64_t length)
{
    return ce_round_up(length, (int64_t)zero->world * zero->replicas * zero->align);
}

void ce_stage_place(ce_zero *zero, const ce_mesh *mesh)
{
    zero->rank = mesh->own[CE_AXIS_SHARD];
    zero->world = mesh->size[CE_AXIS_SHARD];
    zero->replica = mesh->own[CE_AXIS_REPLICATE];
    zero->replicas = mesh->size[CE_AXIS_REPLICATE];
}

ce_range ce_stage_part(const ce_zero *zero, int64_t padded)
{
    int64_t length = padded / zero->world;
    return (ce_range){ zero->rank * length, (zero->rank + 1) * length };
}

ce_range ce_stage_own(const ce_zero *zero, int64_t padded)
{
    ce_range part = ce_stage_part(zero, padded);
    int64_t length = ce_range_length(part) / zero->replicas, from = part.from + zero->replica * length;
    return (ce_range){ from, from + length };
}

cs_dtype ce_stage_values(const ce_zero *zero, const cs_unit *unit)
{
    return unit->bytes ? CS_U8 : zero->precision.values;
}

bool ce_stage_one_copy(const ce_zero *zero)
{
    return zero->precision.masters == zero->precision.values;
}

int64_t ce_stage_norms(const ce_zero *zero, const cs_unit *unit)
{
    int64_t count = 0;
    for (int i = 0; zero->precision.wide_norms && i < unit->entry_count; i++)
        count += unit->entries[i]->param.norm ? unit->entries[i]->count : 0;
    return count;
}

int64_t ce_stage_share(const ce_zero *zero, ce_place place, int64_t padded)
{
    return place == CE_REPLICATED ? padded : padded / zero->world;
}
