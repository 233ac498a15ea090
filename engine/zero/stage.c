/* stage.c - the four rows, and what a place means for a length. */
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

int64_t cs_stage_share(const cs_zero *zero, cs_place place, int64_t padded)
{
    return place == CS_SHARDED ? padded / zero->world : padded;
}
