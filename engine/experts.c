/* experts.c - how the tokens of a step were divided among the experts: counted after each micro-batch, and added over
 * all ranks at the end of the step. */
#include "engine.h"
#include "base/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t cells_of(const cs_engine *engine)
{
    return engine->model->load.layers * engine->model->load.experts;
}

cs_status ce_experts_open(cs_engine *engine)
{
    size_t cells = (size_t)cells_of(engine);
    if (cells == 0)
        return CS_OK;
    if (ce_preference_is_on(engine) && engine->model->load.coefficient > 0)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: cspeed.dpo with the model's \"output_router_logits\", because the "
                       "loss of a pair has no load-balancing loss; set it to false");
    if (engine->settings->mode != CS_MODE_ZERO)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: cspeed.mode \"ps\" or \"dp\" with a model that has experts, because "
                       "their load is counted over the ranks of a training");
    engine->experts.counting = calloc(cells, sizeof(int64_t));
    engine->experts.tokens = calloc(cells, sizeof(int64_t));
    return engine->experts.counting && engine->experts.tokens
               ? CS_OK
               : ce_fail(CS_NO_MEMORY, "out of memory for the load of the experts");
}

void ce_experts_close(cs_engine *engine)
{
    free(engine->experts.counting);
    free(engine->experts.tokens);
}

/* The counts are complete here, because only CPUs compute experts, and the operations of a CPU are complete when they
 * return. */
void ce_experts_count(cs_engine *engine)
{
    for (int64_t i = 0; i < cells_of(engine); i++)
        engine->experts.counting[i] += engine->model->load.tokens[i];
}

size_t ce_experts_sent(const cs_engine *engine)
{
    size_t world = (size_t)engine->world.size;
    return 2 * (world - 1) * (size_t)cells_of(engine) * sizeof(int64_t) / world;
}

void ce_experts_sum(cs_engine *engine)
{
    int64_t cells = cells_of(engine), *counting = engine->experts.counting;
    double traced = ce_trace_begin();
    if (cells == 0)
        return;
    cs_comm_all_reduce(engine->comm, counting, cells, CS_I64, CS_SUM);
    ce_trace_end(CS_TRACE_COMMUNICATION, "all_reduce tokens of experts", "", traced);
    memcpy(engine->experts.tokens, counting, (size_t)cells * sizeof *counting);
    memset(counting, 0, (size_t)cells * sizeof *counting);
}

/* Returns the tokens of the layer's busiest expert divided by the mean over the layer's experts. Adds the number of
 * experts without tokens to *unused. */
static double imbalance_of(const int64_t *tokens, int64_t experts, int64_t *unused)
{
    int64_t max = 0, all = 0;
    for (int64_t e = 0; e < experts; e++) {
        max = tokens[e] > max ? tokens[e] : max;
        all += tokens[e];
        *unused += tokens[e] == 0;
    }
    return (double)max * (double)experts / (double)all;
}

cs_expert_load cs_expert_load_of(cs_engine *engine)
{
    const ce_load *load = &engine->model->load;
    cs_expert_load result = { .layers = load->layers, .experts = load->experts, .tokens = engine->experts.tokens };
    int64_t first = 0; /* tokens of the first layer; 0 if this process has not made a step */
    ce_step_settle(engine);
    for (int64_t e = 0; load->layers > 0 && e < load->experts; e++)
        first += result.tokens[e];
    result.imbalance = result.worst = first > 0 ? 0 : (double)NAN;
    for (int64_t layer = 0; layer < load->layers && first > 0; layer++) {
        double one = imbalance_of(result.tokens + layer * load->experts, load->experts, &result.unused);
        result.imbalance += one / (double)load->layers;
        result.worst = fmax(result.worst, one);
    }
    return result;
}
