/* graphs.c - forward and backward of a micro-batch as two CUDA graphs, if cspeed.cuda_graphs is set.
 *
 * The kernel launches of forward depend only on the shape of the batch and on whether the batch is the first of the
 * step: the gradients of the first batch overwrite the sums, and the last unit computes its gradients within forward.
 * Nothing else that the launches depend on changes between batches: before forward all buffers of the pools are free
 * and the pass is empty, and data that changes (tokens, dropout keys) is in device memory at an address that depends on
 * the shape. The launches of backward depend only on those of forward; the loss scale is in device memory too.
 * Evaluation does not use graphs. */
#include "core/engine.h"
#include "base/log.h"
#include "base/rng.h"

#include <string.h>

/* Returns the reason why graphs cannot be used; NULL if they can. */
static const char *obstacle(const cs_engine *engine)
{
    if (!ce_device_has_graphs(engine->device))
        return "this device has no graphs";
    if (engine->world.size > 1 && strcmp(cs_comm_kind(engine->comm), "nccl") != 0)
        return "the messages of the ranks are copied through host memory; graphs need NCCL";
    if (engine->settings->comms_logger.enabled)
        return "comms_logger waits for each collective";
    return NULL;
}

void ce_graphs_open(cs_engine *engine)
{
    const char *why = obstacle(engine);
    engine->graphs = engine->settings->cuda_graphs && !why;
    if (engine->settings->cuda_graphs && why)
        ce_log(CE_LOG_WARNING, "cspeed.cuda_graphs has no effect, because %s", why);
}

/* Begins a capture or a replay. No rank captures the pass that is profiled, because profiling waits for each unit, and
 * NCCL requires that a call is captured on all ranks or on none. */
static void begin(cs_engine *engine, const ce_forward_input *input)
{
    if (!engine->graphs)
        return;
    if (!input) {
        ce_device_graph_begin(engine->device, ce_rng_mix(engine->graph_key, 1));
        return;
    }
    uint64_t shape = ce_rng_mix((uint64_t)input->inputs.shape[0], (uint64_t)cs_columns(input->inputs));
    if (input->mode != CE_PASS_TRAINING)
        return;
    engine->graph_key = ce_rng_mix(ce_rng_mix(shape, input->starts.data != NULL), engine->micro == 0);
    if (!engine->uncaptured)
        ce_device_graph_begin(engine->device, engine->graph_key);
}

static void end(cs_engine *engine)
{
    if (engine->graphs)
        ce_device_graph_end(engine->device);
}

const ce_observer ce_graphs_observer = { .units_begin = begin, .units_end = end };
