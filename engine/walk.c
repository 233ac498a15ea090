/* walk.c - entering and leaving unit i: gather it and its lenders, start the next. */
#include "engine.h"

void cs_walk_settle(cs_engine *engine)
{
    cs_stream_sync(cs_device_stream(engine->device, CS_COMPUTE));
    cs_stream_sync(cs_device_stream(engine->device, CS_COMM));
}

double cs_walk_clock(cs_engine *engine)
{
    if (engine->settings->wall_clock_breakdown && cs_device_has_own_memory(engine->device))
        cs_walk_settle(engine);
    return cs_clock_seconds();
}

static void gather(cs_engine *engine, int i)
{
    cs_unit *unit = engine->model->units[i];
    cs_shard_gather(engine->shards[i]);
    for (int lender = 0; lender < unit->lender_count; lender++)
        cs_shard_gather(engine->shards[unit->lenders[lender]->index]);
}

cs_unit *cs_walk_enter(cs_engine *engine, int i, cs_direction direction)
{
    cs_unit *unit = engine->model->units[i];
    int goal = i + (int)(direction * engine->settings->prefetch);
    for (int next = engine->ahead + direction; next >= 0 && next < engine->model->count; next += direction) {
        if ((goal - next) * direction < 0)
            break;
        gather(engine, next);
        engine->ahead = next;
    }
    cs_shard_await(engine->shards[i]);
    for (int lender = 0; lender < unit->lender_count; lender++)
        cs_shard_await(engine->shards[unit->lenders[lender]->index]);
    cs_unit_refresh_loans(unit);
    cs_pass_enter(engine->pass);
    cs_device_enter(engine->device, *unit->name ? unit->name : unit->kind->name);
    return unit;
}

void cs_walk_leave(cs_engine *engine, int i, bool release)
{
    cs_unit *unit = engine->model->units[i];
    cs_device_leave(engine->device);
    cs_pass_leave(engine->pass);
    if (!release)
        return;
    cs_shard_release(engine->shards[i]);
    for (int lender = 0; lender < unit->lender_count; lender++)
        cs_shard_release(engine->shards[unit->lenders[lender]->index]);
    cs_unit_refresh_loans(unit);
}
