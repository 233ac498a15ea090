/* mesh.c - the arithmetic of the device mesh. */
#include "mesh/mesh.h"

#include <stdio.h>

ce_mesh ce_mesh_of(int rank, int world, int tp, int shard)
{
    ce_mesh mesh = { .size = { world / tp / shard, shard, tp } };
    for (int axis = CE_AXES - 1; axis >= 0; axis--) {
        mesh.own[axis] = rank % mesh.size[axis];
        rank /= mesh.size[axis];
    }
    return mesh;
}

int ce_mesh_lanes(const ce_mesh *mesh)
{
    return mesh->size[CE_AXIS_REPLICATE] * mesh->size[CE_AXIS_SHARD];
}

int ce_mesh_lane(const ce_mesh *mesh)
{
    return mesh->own[CE_AXIS_REPLICATE] * mesh->size[CE_AXIS_SHARD] + mesh->own[CE_AXIS_SHARD];
}

bool ce_mesh_leads(const ce_mesh *mesh)
{
    return mesh->own[CE_AXIS_TP] == 0;
}

int ce_mesh_rank(const ce_mesh *mesh)
{
    return ce_mesh_lane(mesh) * mesh->size[CE_AXIS_TP] + mesh->own[CE_AXIS_TP];
}

int ce_mesh_stride(const ce_mesh *mesh, ce_axis axis)
{
    int stride = 1;
    for (int inner = (int)axis + 1; inner < CE_AXES; inner++)
        stride *= mesh->size[inner];
    return stride;
}

int ce_mesh_first(const ce_mesh *mesh, ce_axis axis)
{
    return ce_mesh_rank(mesh) - mesh->own[axis] * ce_mesh_stride(mesh, axis);
}

void ce_mesh_write(const ce_mesh *mesh, char text[CE_MESH_TEXT])
{
    snprintf(text, CE_MESH_TEXT, "dp_replicate=%d/%d,dp_shard=%d/%d,tp=%d/%d", mesh->own[CE_AXIS_REPLICATE],
             mesh->size[CE_AXIS_REPLICATE], mesh->own[CE_AXIS_SHARD], mesh->size[CE_AXIS_SHARD], mesh->own[CE_AXIS_TP],
             mesh->size[CE_AXIS_TP]);
}
