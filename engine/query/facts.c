/* facts.c - facts about an open engine: ranks, sizes; values on which ranks agree; the learning-rate
 * schedule; the load of experts. */
#include "core/engine.h"
#include "base/asked.h"
#include "base/beat.h"
#include "base/misuse.h"

#include <math.h>

int cs_rank(const cs_engine *engine)
{
    CE_GIVEN(engine);
    return engine->world.rank;
}

int cs_world_size(const cs_engine *engine)
{
    CE_GIVEN(engine);
    return engine->world.size;
}

int cs_lane(const cs_engine *engine)
{
    CE_GIVEN(engine);
    return ce_mesh_lane(&engine->mesh);
}

int cs_lanes(const cs_engine *engine)
{
    CE_GIVEN(engine);
    return ce_mesh_lanes(&engine->mesh);
}

bool cs_leads_lane(const cs_engine *engine)
{
    CE_GIVEN(engine);
    return ce_mesh_leads(&engine->mesh);
}

int64_t cs_active_parameter_count(const cs_engine *engine)
{
    CE_GIVEN(engine);
    return engine->model->parameters - engine->model->load.idle;
}

int64_t cs_parameter_count(const cs_engine *engine)
{
    CE_GIVEN(engine);
    return engine->model->parameters;
}

int64_t cs_vocabulary(const cs_engine *engine)
{
    CE_GIVEN(engine);
    return engine->facts.vocabulary;
}

int64_t cs_positions(const cs_engine *engine)
{
    CE_GIVEN(engine);
    return engine->facts.positions;
}

void cs_set_total_steps(cs_engine *engine, int64_t steps)
{
    CE_GIVEN(engine);
    if (engine->config->settings.schedule.total_is_auto)
        ce_config_set_total(engine->config, steps);
}

void cs_set_schedule(cs_engine *engine, double (*rate)(int64_t step, void *argument), void *argument)
{
    CE_GIVEN(engine);
    engine->rate = rate;
    engine->rate_argument = argument;
}

int64_t cs_agree(cs_engine *engine, int64_t value)
{
    CE_GIVEN(engine);
    ce_walk_settle(engine);
    cs_comm_broadcast(engine->comm, &value, 1, CS_I64, 0);
    return value;
}

const char *cs_device_description(const cs_engine *engine)
{
    CE_GIVEN(engine);
    return ce_device_describe(engine->device);
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
    CE_GIVEN(engine);
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

float cs_loss(cs_engine *engine)
{
    CE_GIVEN(engine);
    ce_step_settle(engine);
    return (float)engine->metrics.loss;
}

cs_metrics cs_last_step(cs_engine *engine)
{
    CE_GIVEN(engine);
    ce_step_settle(engine);
    return engine->metrics;
}

bool cs_save_asked(cs_engine *engine)
{
    CE_GIVEN(engine);
    ce_beat_offer_saves();
    ce_asked_listen();
    ce_step_settle(engine);
    bool asked = engine->save_asked;
    engine->save_asked = false;
    return asked;
}
