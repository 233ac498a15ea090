/* mode_costs.c - cs_mode_costs_of: traffic and staleness of a parameter server, and the work of the master of
 * replicas. */
#include "engine.h"
#include "served.h"
#include "replicas.h"
#include "checkpoint/collective_status.h"

#include <stdlib.h>

static void add_traffic(cs_engine *engine, cs_mode_costs *costs)
{
    size_t ranks = (size_t)engine->world.size;
    costs->ranks = engine->world.size;
    costs->sent = ce_collective_memory(ranks * ranks * sizeof *costs->sent);
    cs_comm_all_gather(engine->comm, costs->sent, engine->zero.served->sent, engine->world.size, CS_I64);
}

static void add_staleness(cs_engine *engine, cs_mode_costs *costs)
{
    int first = engine->lanes.count; /* the rank of the first server */
    costs->levels = engine->settings->ps.staleness + 1;
    costs->ahead = ce_collective_memory((size_t)costs->levels * sizeof *costs->ahead);
    for (int64_t i = 0; i < costs->levels; i++)
        costs->ahead[i] = ce_served_async_ahead(engine, i);
    cs_comm_broadcast(engine->comm, costs->ahead, costs->levels, CS_I64, first);
}

cs_mode_costs cs_mode_costs_of(cs_engine *engine)
{
    ce_replica_costs master = ce_replicas_costs(engine);
    cs_mode_costs costs = { .handed_out = master.handed_out,
                            .gathered = master.gathered,
                            .master_seconds = master.busy,
                            .seconds = master.seconds };
    ce_walk_settle(engine);
    if (engine->zero.served)
        add_traffic(engine, &costs);
    if (ce_served_is_async(engine))
        add_staleness(engine, &costs);
    return costs;
}

void cs_mode_costs_free(cs_mode_costs *costs)
{
    free(costs->sent);
    free(costs->ahead);
    *costs = (cs_mode_costs){ 0 };
}
