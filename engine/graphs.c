/* graphs.c - forward and backward of a micro-batch as two CUDA graphs, where cspeed.cuda_graphs asks for it.
 *
 * What forward launches follows from the batch's shape: before it every row of the pools is free, the pass is empty,
 * and what changes from batch to batch (tokens, keys of dropout) lies in device memory at a place that its shape
 * decides. What backward launches follows from that forward and from whether it is the first of the step, which begins
 * the sums; the loss scale lies in device memory too. Evaluations, whose batches come one at a time, run as ever. */
#include "engine.h"
#include "base/log.h"
#include "base/rng.h"

#include <string.h>

/* NULL: nothing stands in the way. */
static const char *obstacle(const cs_engine *engine)
{
    if (!cs_device_has_graphs(engine->device))
        return "this device has none";
    if (engine->world.size > 1 && strcmp(cs_comm_kind(engine->comm), "nccl") != 0)
        return "what ranks send each other goes through the host's memory; they need NCCL";
    if (engine->settings->tally.enabled)
        return "comms_logger waits for each collective";
    return NULL;
}

void cs_graphs_open(cs_engine *engine)
{
    const char *why = obstacle(engine);
    engine->graphs = engine->settings->cuda_graphs && !why;
    if (engine->settings->cuda_graphs && why)
        cs_log(CS_LOG_WARNING, "cspeed.cuda_graphs is left out, because %s", why);
}

/* The pass that is profiled waits for each unit, on the rank that profiles: it is a graph on none, as NCCL wants a call
 * captured on all ranks or on none. */
void cs_graphs_down(cs_engine *engine, const cs_descent *descent)
{
    uint64_t shape = cs_rng_mix((uint64_t)descent->inputs.shape[0], (uint64_t)cs_columns(descent->inputs));
    if (!engine->graphs || descent->mode != CS_PASS_TRAINING)
        return;
    engine->graph_key = cs_rng_mix(shape, descent->starts.data != NULL);
    if (!cs_profile_is_due(engine))
        cs_device_graph_begin(engine->device, engine->graph_key);
}

void cs_graphs_up(cs_engine *engine)
{
    if (engine->graphs)
        cs_device_graph_begin(engine->device, cs_rng_mix(engine->graph_key, 1 + (engine->micro == 0)));
}

void cs_graphs_end(cs_engine *engine)
{
    if (engine->graphs)
        cs_device_graph_end(engine->device);
}
