/* experts.c - how the tokens of a step were divided among the experts: the device adds up the counts of each
 * micro-batch, and at the end of the step the counts of all ranks. The host reads the sums with the verdict on the
 * step. */
#include "reporting/reporting.h"
#include "base/range.h"
#include "base/trace.h"

#include <string.h>

int64_t ce_experts_cells(const cs_engine *engine)
{
    return engine->model->load.layers * engine->model->load.experts;
}

static size_t counting_bytes(const cs_engine *engine)
{
    return (size_t)ce_experts_cells(engine) * sizeof(int64_t);
}

static cs_stream *compute(const cs_engine *engine)
{
    return ce_device_stream(engine->device, CE_COMPUTE);
}

/* Memory for the counts, for the sums of the last step, which the host reads there on a CPU, and for ce_load. */
size_t ce_experts_bytes(const cs_engine *engine)
{
    return (size_t)ce_round_up((int64_t)(2 * counting_bytes(engine) + ce_load_bytes(&engine->model->load)), 64);
}

cs_status ce_experts_check(const cs_engine *engine)
{
    if (ce_experts_cells(engine) == 0)
        return CS_OK;
    if (ce_preference_is_on(engine) && engine->model->load.coefficient > 0)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: cspeed.dpo with the model's \"output_router_logits\", because the "
                       "loss of a pair has no load-balancing loss; set it to false");
    return CS_OK;
}

void ce_experts_open(cs_engine *engine, void *memory)
{
    if (ce_experts_cells(engine) == 0)
        return;
    engine->experts.counting = memory;
    engine->experts.tokens = engine->experts.counting + ce_experts_cells(engine);
    ce_load_place(&engine->model->load, (char *)memory + 2 * counting_bytes(engine));
    if (ce_device_has_own_memory(engine->device))
        engine->experts.tokens = ce_device_alloc_pinned(engine->device, counting_bytes(engine));
    memset(engine->experts.tokens, 0, counting_bytes(engine));
}

void ce_experts_close(cs_engine *engine)
{
    if (engine->experts.tokens && ce_device_has_own_memory(engine->device))
        ce_device_free(engine->device, engine->experts.tokens);
}

/* ---- the points of a step ---- */

/* Clears the counts before the first micro-batch of a step. */
static void clear(cs_engine *engine, ce_phase phase)
{
    if (engine->experts.counting && phase == CE_FORWARD && engine->micro == 0)
        cs_op_fill(compute(engine), cs_vector(engine->experts.counting, CS_F32, 2 * ce_experts_cells(engine)), 0);
}

/* Adds the token counts of a micro-batch, on one rank of the lane whose micro-batch it is. */
static void count(cs_engine *engine, ce_phase phase)
{
    if (engine->experts.counting && phase == CE_FORWARD && ce_mesh_leads(&engine->mesh))
        ce_state_add_counts(compute(engine), engine->experts.counting, engine->model->load.tokens,
                            ce_experts_cells(engine));
}

static void add_up(void *argument)
{
    cs_engine *engine = argument;
    double traced = ce_trace_begin();
    cs_comm_all_reduce(engine->comm, engine->experts.counting, ce_experts_cells(engine), CS_I64, CS_SUM);
    ce_trace_end(CE_TRACE_COMMUNICATION, "all_reduce tokens of experts", "", traced);
}

/* Adds up the counts of all ranks, and starts the copy of the sums to the host. */
static void reduce(cs_engine *engine)
{
    cs_stream *comm = ce_device_stream(engine->device, CE_COMM);
    if (!engine->experts.counting)
        return;
    ce_stream_call(comm, add_up, engine);
    ce_stream_copy(comm, engine->experts.tokens, engine->experts.counting, counting_bytes(engine));
}

const ce_observer ce_experts_observer = { .phase_begin = clear, .phase_end = count, .reduce = reduce };
