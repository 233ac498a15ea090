/* mesh_groups.c - the groups of ranks of the device mesh: ZeRO's, hybrid sharding's and tensor parallelism's. */
#include "setup/setup.h"
#include "base/log.h"
#include "base/plural.h"

static void say_mesh(const cs_engine *engine)
{
    const int *size = engine->mesh.size;
    if (size[CE_AXIS_TP] > 1)
        ce_log(CE_LOG_INFO, "tensor parallelism: %d ranks divide the matrices of each layer; %d lane%s of such ranks",
               size[CE_AXIS_TP], ce_mesh_lanes(&engine->mesh), ce_plural(ce_mesh_lanes(&engine->mesh)));
    if (size[CE_AXIS_REPLICATE] > 1)
        ce_log(CE_LOG_INFO,
               "hybrid sharding: %d groups of %d rank%s; each group has all parameters, gradients and optimizer state",
               size[CE_AXIS_REPLICATE], size[CE_AXIS_SHARD], ce_plural(size[CE_AXIS_SHARD]));
}

/* Opens the comm of this rank's group along an axis. */
static cs_status split(cs_comm **group, cs_engine *engine, ce_axis axis)
{
    return cs_comm_split(group, engine->comm, ce_mesh_first(&engine->mesh, axis), engine->world.rank);
}

/* Returns the copy number of this rank's key heads, and sets *copies to the number of their copies. */
static int copy_of(const cs_model *model, int *copies)
{
    int copy = 0;
    *copies = 1;
    for (int i = 0; i < model->total; i++)
        for (int at = 0; at < model->units[i]->entry_count; at++) {
            const ce_cut *cut = &model->units[i]->entries[at]->cut;
            for (int part = 0; part < cut->count; part++)
                if (cut->partial && cut->part[part].copies > 1 && cut->part[part].copies < model->tp.size) {
                    *copies = cut->part[part].copies;
                    copy = cut->part[part].copy;
                }
        }
    return copy;
}

static void add_up(void *argument, void *data, int64_t count, cs_dtype dtype)
{
    cs_comm_all_reduce(argument, data, count, dtype, CS_SUM);
}

static void scatter(void *argument, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    cs_comm_reduce_scatter(argument, out, in, count, dtype, CS_SUM);
}

static void gather(void *argument, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    cs_comm_all_gather(argument, out, in, count, dtype);
}

/* Opens the groups of tensor parallelism. If a model has fewer key heads than ranks, some ranks have no copies: their
 * group is the rank alone. */
static cs_status open_tp(cs_engine *engine)
{
    int copies, copy = copy_of(engine->model, &copies);
    CE_TRY(split(&engine->tp, engine, CE_AXIS_TP));
    CE_TRY(cs_comm_split(&engine->copies, engine->tp, engine->mesh.own[CE_AXIS_TP] - copy, copy));
    engine->exchange = (ce_exchange){
        add_up, gather, scatter, engine->tp, engine->mesh.size[CE_AXIS_TP], engine->mesh.own[CE_AXIS_TP]
    };
    return CS_OK;
}

cs_status ce_mesh_groups_open(cs_engine *engine)
{
    const ce_mesh *mesh = &engine->mesh;
    say_mesh(engine);
    if (mesh->size[CE_AXIS_SHARD] < engine->world.size)
        CE_TRY(split(&engine->group, engine, CE_AXIS_SHARD));
    if (mesh->size[CE_AXIS_REPLICATE] > 1)
        CE_TRY(split(&engine->across, engine, CE_AXIS_REPLICATE));
    return mesh->size[CE_AXIS_TP] > 1 ? open_tp(engine) : CS_OK;
}

void ce_mesh_groups_close(cs_engine *engine)
{
    cs_comm_close(engine->copies);
    cs_comm_close(engine->tp);
    cs_comm_close(engine->across);
    cs_comm_close(engine->group);
}
