/* traffic.c - the collectives of a step, and their bytes inside and between hosts. Ranks that differ only in their places
 * on the axes of data parallelism have the same list; their bytes may differ, because their groups may be on other hosts. */
#include "zero/traffic.h"
#include "base/must.h"
#include "comm/traffic.h"

#include <stdlib.h>

void ce_traffic_add(ce_traffic *traffic, ce_traffic_call call)
{
    for (int i = 0; i < traffic->count; i++) {
        ce_traffic_call *old = &traffic->calls[i];
        if (old->axis == call.axis && old->what == call.what && old->count == call.count && old->dtype == call.dtype &&
            old->size == call.size && old->index == call.index) {
            old->times += call.times;
            return;
        }
    }
    traffic->calls = ce_must_resize(traffic->calls, (size_t)(traffic->count + 1) * sizeof call);
    traffic->calls[traffic->count++] = call;
}

/* Describes the ranks that take part in a call, among which this rank's host has consecutive ones. */
static ce_traffic_group group_of(const ce_traffic_call *call, const ce_mesh *mesh, const int *host)
{
    bool all = call->axis == CS_AXIS_ALL;
    ce_axis axis = all ? CE_AXIS_TP : (ce_axis)(call->axis - CS_AXIS_REPLICATE);
    int stride = all ? 1 : ce_mesh_stride(mesh, axis), own = ce_mesh_rank(mesh);
    ce_traffic_group group = { .size = all ? ce_mesh_lanes(mesh) * mesh->size[CE_AXIS_TP] : mesh->size[axis],
                               .index = all ? own : mesh->own[axis],
                               .even = true };
    if (call->size) {
        group.size = call->size;
        group.index = call->index;
    }
    int from = own - group.index * stride;
    for (int i = 0; i < group.size; i++)
        group.here += host[from + i * stride] == host[own];
    while (host[from + group.first * stride] != host[own])
        group.first++;
    for (int i = 0; i < group.size; i++) /* the members of each host begin at a multiple of `here` */
        group.even = group.even && group.size % group.here == 0 &&
                     host[from + i * stride] == host[from + i / group.here * group.here * stride] &&
                     (i % group.here > 0 || i == 0 || host[from + i * stride] != host[from + (i - 1) * stride]);
    return group;
}

void ce_traffic_plan(const ce_traffic *traffic, const ce_mesh *mesh, const int *host, cs_sent sent[CS_AXES])
{
    for (int axis = 0; axis < CS_AXES; axis++)
        sent[axis] = (cs_sent){ 0 };
    for (const ce_traffic_call *call = traffic->calls; call < traffic->calls + traffic->count; call++) {
        ce_traffic_group group = group_of(call, mesh, host);
        cs_comm_traffic each = ce_traffic_of(&group, call->what, call->count, call->dtype);
        sent[call->axis].all += (size_t)(each.bytes * (uint64_t)call->times);
        sent[call->axis].between_hosts += (size_t)(each.between_hosts * (uint64_t)call->times);
    }
}

void ce_traffic_free(ce_traffic *traffic)
{
    free(traffic->calls);
    *traffic = (ce_traffic){ 0 };
}
