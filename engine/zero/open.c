/* open.c - a shard's memory: which buffers it has at each stage, and who allocates them. */
#include "zero/part.h"
#include "base/must.h"
#include "comm/common.h"

#include <stdlib.h>

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
    cs_dtype dtype = ce_stage_values(zero, shard->unit);
    size_t home = (size_t)ce_stage_share(zero, zero->stage.params, shard->padded) * cs_dtype_bytes(dtype);
    if (ce_part_is_common(zero)) {
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
        shard->slots[i] = alloc_state(zero, zero->offload_optimizer,
                                      (size_t)ce_part_slot_bytes(shard, i) +
                                          (size_t)ce_slots_scales(zero, ce_part_count(shard)) * sizeof(float));
}

ce_shard *ce_shard_open(const ce_zero *zero, cs_unit *unit, ce_pool *values, ce_pool *grads)
{
    ce_shard *shard = ce_must_alloc(sizeof *shard);
    shard->zero = zero;
    shard->unit = unit;
    shard->values_pool = values;
    shard->grads_pool = grads;
    shard->padded = ce_stage_padded(zero, unit->length);
    shard->part = ce_stage_part(zero, shard->padded);
    shard->own = ce_stage_own(zero, shard->padded);
    shard->owned = ce_must_alloc((size_t)(unit->entry_count * CE_CUT_PARTS + 1) * sizeof *shard->owned);
    shard->owned_count = ce_shard_own_ranges(shard, shard->owned);
    shard->reduction = ce_reduction_of(zero);
    take_memory(shard);
    return shard;
}

void ce_shard_close(ce_shard *shard)
{
    if (!shard)
        return;
    if (shard->zero->offload_params)
        ce_device_free(shard->zero->device, shard->home);
    if (shard->master && !ce_part_one_copy(shard))
        ce_device_free(shard->zero->device, shard->master);
    for (int i = 0; i < shard->zero->optimizer.slots && shard->slots[i]; i++)
        ce_device_free(shard->zero->device, shard->slots[i]);
    free(shard->owned);
    free(shard);
}

const cs_unit *ce_shard_unit(const ce_shard *shard)
{
    return shard->unit;
}
