/* walk.c - entering and leaving one unit: gathers its parameters, prefetches those of the next units, releases them. */
#include "engine.h"

void cs_walk_settle(cs_engine *engine)
{
    cs_stream_sync(cs_device_stream(engine->device, CS_COMPUTE));
    cs_stream_sync(cs_device_stream(engine->device, CS_COMM));
}

void cs_walk_each(cs_engine *engine, int i, void (*verb)(cs_shard *shard))
{
    cs_unit *unit = engine->model->units[i];
    verb(engine->shards[i]);
    for (int lender = 0; lender < unit->lender_count; lender++)
        verb(engine->shards[unit->lenders[lender]->index]);
}

/* Starts the gathering of all units up to `cspeed.prefetch` units ahead of unit i. */
static void gather_ahead(cs_engine *engine, int i, cs_direction direction)
{
    int goal = i + (int)(direction * engine->settings->prefetch);
    for (int next = engine->ahead + direction; next >= 0 && next < engine->model->count; next += direction) {
        if ((goal - next) * direction < 0)
            break;
        cs_walk_each(engine, next, cs_shard_gather);
        engine->ahead = next;
    }
}

cs_unit *cs_walk_enter(cs_engine *engine, int i, cs_direction direction)
{
    cs_unit *unit = engine->model->units[i];
    gather_ahead(engine, i, direction);
    cs_walk_each(engine, i, cs_shard_await);
    cs_unit_refresh_loans(unit);
    cs_pass_enter(engine->pass);
    cs_device_enter(engine->device, *unit->name ? unit->name : unit->kind->name);
    cs_profile_enter(engine);
    return unit;
}

void cs_walk_leave(cs_engine *engine, int i, bool release)
{
    cs_profile_leave(engine, i);
    cs_device_leave(engine->device);
    cs_pass_leave(engine->pass);
    if (!release)
        return;
    cs_walk_each(engine, i, cs_shard_release);
    cs_unit_refresh_loans(engine->model->units[i]);
}
