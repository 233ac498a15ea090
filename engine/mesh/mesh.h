/* mesh.h - the device mesh: the axes along which the ranks of a job divide its work, and the place of a rank on each
 * axis. This file is arithmetic only; the configuration, the engine and the launcher share it.
 *
 * A rank has one coordinate on each axis. Consecutive ranks differ in the innermost axis, tp, so a group of tensor
 * parallelism has consecutive ranks, which are on one host if the number of ranks of a host is a multiple of tp:
 *
 *     rank = (replicate * size[CE_AXIS_SHARD] + shard) * size[CE_AXIS_TP] + tp
 *
 * The ranks that differ only in tp read the same samples: together they are a lane of data parallelism. Batches,
 * samplers and metrics count lanes. */
#ifndef CE_MESH_MESH_H
#define CE_MESH_MESH_H

#include <stdbool.h>

/* The axes, from the outside to the inside. CE_AXIS_REPLICATE: groups of hybrid sharding, each of which has the whole
 * training state. CE_AXIS_SHARD: ZeRO divides the state over these ranks. CE_AXIS_TP: tensor parallelism divides the
 * matrices of a layer over these ranks. */
typedef enum { CE_AXIS_REPLICATE, CE_AXIS_SHARD, CE_AXIS_TP, CE_AXES } ce_axis;

typedef struct {
    int size[CE_AXES]; /* number of ranks along each axis; the product is the world size */
    int own[CE_AXES];  /* this rank's coordinate on each axis */
} ce_mesh;

/* Returns the mesh of a world of `world` ranks, as rank number `rank` sees it. `tp` must divide `world`, and `shard`
 * must divide world / tp. */
ce_mesh ce_mesh_of(int rank, int world, int tp, int shard);
int ce_mesh_lanes(const ce_mesh *mesh); /* Returns the number of lanes: the product of all axes except tp. */
int ce_mesh_lane(const ce_mesh *mesh);  /* Returns the number of this rank's lane. */
/* Returns true for one rank of each lane: the rank that adds the losses and counts of the lane to sums over all ranks. */
bool ce_mesh_leads(const ce_mesh *mesh);
int ce_mesh_rank(const ce_mesh *mesh); /* Returns this rank's number in the world. */
/* Returns the first rank of this rank's group along `axis`: the ranks that differ from this rank in `axis` only. The
 * ranks of the group are at a distance of ce_mesh_stride from each other. */
int ce_mesh_first(const ce_mesh *mesh, ce_axis axis);
int ce_mesh_stride(const ce_mesh *mesh, ce_axis axis);
/* Writes this rank's place on each axis, and the axis's size: "dp_replicate=0/2,dp_shard=1/2,tp=0/2". This is the value of
 * the environment variable CSPEED_MESH of a rank that the launcher starts. */
enum { CE_MESH_TEXT = 128 };
void ce_mesh_write(const ce_mesh *mesh, char text[CE_MESH_TEXT]);

#endif
