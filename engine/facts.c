/* facts.c - facts about an open engine: ranks, sizes; values on which ranks agree; the learning-rate
 * schedule. */
#include "engine.h"

int cs_rank(const cs_engine *engine)
{
    return engine->world.rank;
}

int cs_world_size(const cs_engine *engine)
{
    return engine->world.size;
}

int64_t cs_active_parameter_count(const cs_engine *engine)
{
    return engine->model->parameters - engine->model->load.idle;
}

int64_t cs_parameter_count(const cs_engine *engine)
{
    return engine->model->parameters;
}

int64_t cs_vocabulary(const cs_engine *engine)
{
    return engine->facts.vocabulary;
}

int64_t cs_positions(const cs_engine *engine)
{
    return engine->facts.positions;
}

void cs_set_total_steps(cs_engine *engine, int64_t steps)
{
    if (engine->config->settings.schedule.total_is_auto)
        ce_config_set_total(engine->config, steps);
}

void cs_set_schedule(cs_engine *engine, double (*rate)(int64_t step, void *argument), void *argument)
{
    engine->rate = rate;
    engine->rate_argument = argument;
}

int64_t cs_agree(cs_engine *engine, int64_t value)
{
    ce_walk_settle(engine);
    cs_comm_broadcast(engine->comm, &value, 1, CS_I64, 0);
    return value;
}

const char *cs_device_description(const cs_engine *engine)
{
    return ce_device_describe(engine->device);
}
