/* served.c - a parameter server, cspeed.mode "ps". The last ranks are servers: each has a part of every unit's
 * parameters, and the optimizer state of this part. The other ranks, the workers, compute gradients with whole copies
 * of the parameters.
 *
 * A synchronous step differs from a step of ZeRO stage 0 only in the addition of gradients and the distribution of new
 * values (zero/served.c). There is no all-reduce: the workers send their gradients to the servers, and each server adds
 * the gradients in the order in which an all-reduce would add them. Each server updates its part of the parameters, and
 * the workers receive the new values. The sums from which the verdict on a step is computed go through the first
 * server, so that all ranks have the same verdict. */
#include "served.h"

static int servers_of(const cs_engine *engine)
{
    return (int)engine->settings->ps.servers;
}

void ce_served_place(cs_engine *engine, int rank)
{
    int workers = engine->settings->lanes;
    bool serves = rank >= workers;
    engine->served.workers = workers;
    engine->served.servers = servers_of(engine);
    engine->served.serves = serves;
    engine->served.async = engine->settings->ps.async;
    engine->lanes = (ce_lanes){ workers, serves ? -1 : rank };
    engine->zero.served = &engine->served;
    engine->zero.stateless = !serves;
    engine->zero.stage = serves ? ce_stage_server : ce_stage_worker;
    engine->zero.world = servers_of(engine);
    engine->zero.rank = serves ? rank - workers : 0;
}

/* Returns the bytes of this server's parts of the trained parameters. */
static size_t moving_values(const cs_engine *engine)
{
    int64_t elements = 0;
    for (int i = 0; i < engine->model->count; i++)
        elements += ce_stage_padded(&engine->zero, engine->model->units[i]->length) / engine->zero.world;
    return (size_t)elements * cs_dtype_bytes(engine->zero.precision.values);
}

/* Returns the bytes that this rank sends in one optimizer step. */
static size_t sent(const cs_engine *engine, const cs_memory *memory)
{
    bool async = engine->served.async;
    size_t sums = async ? 0 : ce_step_judge_summed(engine), others = (size_t)engine->world.size - 1;
    if (!ce_served_serves(engine))
        return memory->gradients + sums + (async ? ce_served_async_sent(engine) : 0);
    return moving_values(engine) * (size_t)engine->lanes.count + sums * (engine->zero.rank == 0 ? others : 1);
}

void ce_served_measure(const cs_engine *engine, cs_memory *memory)
{
    if (ce_served_serves(engine)) {
        memory->gradient_rows = ce_served_staging(&engine->zero, engine->model);
        memory->activations = ce_step_judge_bytes() + ce_ranges_bytes(engine->model);
        memory->prediction = 0;
    }
    memory->sent = sent(engine, memory);
}

cs_status ce_served_prepare(cs_engine *engine)
{
    ce_served_place(engine, engine->world.rank);
    ce_dry_run_persistent(engine, &engine->memory);
    ce_served_measure(engine, &engine->memory);
    return ce_served_open(&engine->zero, engine->model);
}

bool ce_served_serves(const cs_engine *engine)
{
    return engine->zero.served && engine->zero.served->serves;
}

void ce_served_add_up(cs_engine *engine, void *data, size_t count)
{
    if (engine->zero.served)
        ce_served_sum(&engine->zero, data, count);
    else
        cs_comm_all_reduce(engine->comm, data, (int64_t)count, CS_I64, CS_SUM);
}
