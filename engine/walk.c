/* walk.c - entering and leaving one unit: gathers its parameters, prefetches those of the next units, releases them. */
#include "engine.h"
#include "base/trace.h"

void ce_walk_settle(cs_engine *engine)
{
    ce_stream_sync(ce_device_stream(engine->device, CS_COMPUTE));
    ce_stream_sync(ce_device_stream(engine->device, CS_COMM));
}

void ce_walk_each(cs_engine *engine, int i, void (*verb)(ce_shard *shard))
{
    cs_unit *unit = engine->model->units[i];
    verb(engine->shards[i]);
    for (int lender = 0; lender < unit->lender_count; lender++)
        verb(engine->shards[unit->lenders[lender]->index]);
}

/* Starts the gathering of all units up to `cspeed.prefetch` units ahead of unit i. */
static void gather_ahead(cs_engine *engine, int i, ce_direction direction)
{
    int goal = i + (int)(direction * engine->settings->prefetch);
    for (int next = engine->ahead + direction; next >= 0 && next < engine->model->count; next += direction) {
        if ((goal - next) * direction < 0)
            break;
        ce_walk_each(engine, next, ce_shard_gather);
        engine->ahead = next;
    }
}

const char *ce_walk_name(const cs_unit *unit)
{
    return *unit->name ? unit->name : unit->kind->name;
}

cs_unit *ce_walk_enter(cs_engine *engine, int i, ce_direction direction)
{
    cs_unit *unit = engine->model->units[i];
    gather_ahead(engine, i, direction);
    double waited = ce_trace_begin();
    ce_walk_each(engine, i, ce_shard_await);
    ce_trace_end(CS_TRACE_COMPUTE, "await", ce_walk_name(unit), waited);
    ce_unit_refresh_loans(unit);
    ce_pass_enter(engine->pass);
    ce_device_enter(engine->device, ce_walk_name(unit));
    engine->unit_traced = ce_trace_begin();
    ce_profile_enter(engine);
    return unit;
}

void ce_walk_leave(cs_engine *engine, int i, ce_direction direction, bool release)
{
    ce_profile_leave(engine, i);
    ce_trace_end(CS_TRACE_COMPUTE, direction == CS_DOWN ? "forward" : "backward", ce_walk_name(engine->model->units[i]),
                 engine->unit_traced);
    ce_device_leave(engine->device);
    ce_pass_leave(engine->pass);
    if (!release)
        return;
    ce_walk_each(engine, i, ce_shard_release);
    ce_unit_refresh_loans(engine->model->units[i]);
}
