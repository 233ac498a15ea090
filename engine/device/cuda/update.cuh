/* update.cuh - the optimizer's walk over state of any float types. */
#ifndef CS_DEVICE_UPDATE_CUH
#define CS_DEVICE_UPDATE_CUH

#include "device/cuda/run.cuh"

/* slots that the optimizer lacks, and publish, may be absent. */
struct cs_walk {
    cs_view master, gradient, slots[CS_OPTIM_SLOTS], publish;
    cs_flat flat;
    cs_hyper hyper;
    const cs_gate *gate; /* NULL: open, times 1 */
};

void cs_update_walk(cs_stream *stream, const cs_optimizer *optimizer, const cs_walk &walk);

#endif
