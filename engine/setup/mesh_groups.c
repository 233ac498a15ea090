/* mesh_groups.c - the groups of ranks of the device mesh: ZeRO's, hybrid sharding's and tensor parallelism's. */
#include "setup/setup.h"
#include "base/beat.h"
#include "base/log.h"
#include "base/must.h"
#include "base/plural.h"
#include "base/trace.h"
#include "comm/common.h"

#include <stdlib.h>
#include <string.h>

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

_Static_assert(CE_BEAT_DP_REPLICATE == 1 + CE_AXIS_REPLICATE && CE_BEAT_TP == 1 + CE_AXIS_TP,
               "the heartbeat's axes follow those of the mesh");

cs_status ce_mesh_groups_check(const cs_engine *engine)
{
    const ce_settings *s = engine->settings;
    const char *given = getenv("CSPEED_MESH");
    ce_mesh mesh = ce_mesh_of(engine->world.rank, engine->world.size, s->tp, (int)s->mesh.shard);
    char own[CE_MESH_TEXT];
    ce_mesh_write(&mesh, own);
    if (!given || strcmp(given, own) == 0)
        return CS_OK;
    return ce_fail(
        CS_BAD_CONFIG,
        "the environment variable CSPEED_MESH says that rank %d is at %s, and the configuration (cspeed.mesh.tp "
        "%d, dp_shard %lld) of %d ranks gives %s: give the launcher the same mesh (--tp, --set, --config), or "
        "unset CSPEED_MESH",
        engine->world.rank, given, s->tp, (long long)s->mesh.shard, engine->world.size, own);
}

/* Opens the comm of this rank's group along an axis. */
static cs_status split(cs_comm **group, cs_engine *engine, ce_axis axis)
{
    CE_TRY(cs_comm_split(group, engine->comm, ce_mesh_first(&engine->mesh, axis), engine->world.rank));
    ce_comm_set_axis(*group, 1 + (int)axis);
    return CS_OK;
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
                    CE_ASSERT(*copies == 1 || *copies == cut->part[part].copies);
                    *copies = cut->part[part].copies;
                    copy = cut->part[part].copy;
                }
        }
    return copy;
}

/* ---- exchanges in the compute stream ----
 * On a CPU the calling thread carries them out, or the thread of the nonblocking calls if they run beside operations. On a
 * GPU they are queued on the communication stream, like all collectives, and the two streams wait for each other. */

static void follow(const ce_exchange_group *group, ce_stream_role later, ce_stream_role earlier)
{
    if (ce_device_has_own_memory(group->device))
        ce_stream_follow(ce_device_stream(group->device, later), ce_device_stream(group->device, earlier));
}

static void exchange(void *argument, int what, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    ce_exchange_group *group = argument;
    cs_comm *comm = group->comm;
    CE_ASSERT(!group->running);
    group->running = group->overlaps;
    bool on_thread = group->running && !ce_device_has_own_memory(group->device);
    follow(group, CE_COMM, CE_COMPUTE);
    double traced = ce_trace_begin();
    if (what == CE_BEAT_ALL_REDUCE && on_thread)
        group->work = cs_comm_iall_reduce(comm, out, count, dtype, CS_SUM);
    else if (what == CE_BEAT_ALL_REDUCE)
        cs_comm_all_reduce(comm, out, count, dtype, CS_SUM);
    else if (what == CE_BEAT_ALL_GATHER && on_thread)
        group->work = cs_comm_iall_gather(comm, out, in, count, dtype);
    else if (what == CE_BEAT_ALL_GATHER)
        cs_comm_all_gather(comm, out, in, count, dtype);
    else if (on_thread)
        group->work = cs_comm_ireduce_scatter(comm, out, in, count, dtype, CS_SUM);
    else
        cs_comm_reduce_scatter(comm, out, in, count, dtype, CS_SUM);
    ce_trace_end(CE_TRACE_COMPUTE, ce_beat_names[what], "(tp)", traced);
    if (!group->running)
        follow(group, CE_COMPUTE, CE_COMM);
}

static void overlap(void *argument, bool begins)
{
    ce_exchange_group *group = argument;
    group->overlaps = begins;
    if (begins || !group->running)
        return;
    double traced = ce_trace_begin();
    if (group->work)
        cs_work_wait(group->work);
    ce_trace_end(CE_TRACE_COMPUTE, "await", "(tp)", traced);
    group->work = NULL;
    group->running = false;
    follow(group, CE_COMPUTE, CE_COMM);
}

static ce_exchange exchange_of(ce_exchange_group *group)
{
    int size = cs_comm_size(group->comm), rank = cs_comm_rank(group->comm);
    return (ce_exchange){ .run = exchange, .argument = group, .size = size, .rank = rank };
}

/* Lets exchanges run beside operations if the configuration asks for it. */
static cs_status open_overlap(cs_engine *engine)
{
    if (!engine->settings->autotp.overlap)
        return CS_OK;
    ce_log(CE_LOG_INFO, "tensor parallelism: in backward, sums over the ranks run beside matrix products");
    engine->exchange.overlap = overlap;
    return ce_device_has_own_memory(engine->device) ? CS_OK : ce_comm_open_nonblocking(engine->tp.comm);
}

/* Opens the groups of tensor parallelism. If a model has fewer key heads than ranks, some ranks have no copies: their
 * group is the rank alone. */
static cs_status open_tp(cs_engine *engine)
{
    int copies, copy = copy_of(engine->model, &copies);
    engine->tp.device = engine->copies.device = engine->device;
    CE_TRY(split(&engine->tp.comm, engine, CE_AXIS_TP));
    CE_TRY(cs_comm_split(&engine->copies.comm, engine->tp.comm, engine->mesh.own[CE_AXIS_TP] - copy, copy));
    ce_comm_set_axis(engine->copies.comm, CE_BEAT_TP);
    if (engine->model->tp.size == 1) /* the ranks have copies of the program's own model */
        return CS_OK;
    engine->exchange = exchange_of(&engine->tp);
    engine->copies_exchange = exchange_of(&engine->copies);
    return open_overlap(engine);
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
    cs_comm_close(engine->copies.comm);
    cs_comm_close(engine->tp.comm);
    cs_comm_close(engine->across);
    cs_comm_close(engine->group);
}
