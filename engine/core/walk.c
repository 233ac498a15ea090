/* walk.c - entering and leaving one unit: gathers the unit's parameters, prefetches those of the next units, and
 * releases the unit's parameters. */
#include "core/engine.h"
#include "base/trace.h"

void ce_walk_settle(cs_engine *engine)
{
    ce_stream_sync(ce_device_stream(engine->device, CE_COMPUTE));
    ce_stream_sync(ce_device_stream(engine->device, CE_COMM));
}

static void each_row(cs_engine *engine, const cs_unit *unit, void (*verb)(ce_shard *shard))
{
    for (; unit; unit = unit->store)
        verb(engine->shards[unit->index]);
}

void ce_walk_each(cs_engine *engine, int i, void (*verb)(ce_shard *shard))
{
    const cs_unit *unit = engine->model->units[i];
    each_row(engine, unit, verb);
    for (int owner = 0; owner < unit->owner_count; owner++)
        each_row(engine, unit->owners[owner], verb);
}

/* Starts to gather the parameters of all units up to `cspeed.prefetch` units ahead of unit i. Backward does not go
 * below the first unit with a trained parameter. */
static void gather_ahead(cs_engine *engine, int i, ce_direction direction)
{
    int goal = i + (int)(direction * engine->settings->prefetch);
    int first = direction == CE_UP ? engine->model->first_trained : 0;
    for (int next = engine->ahead + direction; next >= first && next < engine->model->count; next += direction) {
        if ((goal - next) * direction < 0)
            break;
        ce_walk_each(engine, next, ce_shard_gather);
        engine->ahead = next;
    }
}

cs_unit *ce_walk_enter(cs_engine *engine, cs_pass *pass, int i, ce_direction direction)
{
    cs_unit *unit = engine->model->units[i];
    CE_OBSERVE(engine, unit_begin, (engine, i));
    gather_ahead(engine, i, direction);
    double waited = ce_trace_begin();
    ce_walk_each(engine, i, ce_shard_await);
    ce_trace_end(CE_TRACE_COMPUTE, "await", ce_unit_label(unit), waited);
    ce_unit_refresh_shared(unit);
    ce_pass_enter(pass, unit, direction == CE_DOWN ? CE_PASS_FORWARD : CE_PASS_BACKWARD);
    ce_device_enter(engine->device, ce_unit_label(unit));
    engine->unit_traced = ce_trace_begin();
    CE_OBSERVE(engine, unit_enter, (engine));
    return unit;
}

void ce_walk_leave(cs_engine *engine, cs_pass *pass, int i, ce_direction direction, bool release)
{
    CE_OBSERVE(engine, unit_leave, (engine, i));
    ce_trace_end(CE_TRACE_COMPUTE, direction == CE_DOWN ? "forward" : "backward",
                 ce_unit_label(engine->model->units[i]), engine->unit_traced);
    ce_device_leave(engine->device);
    ce_pass_leave(pass);
    if (!release)
        return;
    ce_walk_each(engine, i, ce_shard_release);
    ce_unit_refresh_shared(engine->model->units[i]);
}
