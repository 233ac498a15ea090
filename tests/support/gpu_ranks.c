/* gpu_ranks.c - a rank with a CUDA device and a comm, for tests of NCCL. */
#include "gpu_ranks.h"

cs_status gpu_rank_open(gpu_rank *rank, const cs_world *world, const char *kind, double seconds)
{
    CE_TRY(ce_device_open(&rank->device, &(ce_device_settings){ .kind = "cuda", .local_rank = world->local_rank }));
    return cs_comm_open(&rank->comm, world,
                        &(cs_comm_settings){ .kind = kind, .timeout_seconds = seconds, .device = rank->device });
}

cs_status gpu_rank_open_here(gpu_rank *rank, const char *kind)
{
    cs_world world;
    CE_TRY(cs_world_read(&world));
    return gpu_rank_open(rank, &world, kind, GPU_RANKS_SECONDS);
}

void gpu_rank_close(gpu_rank *rank)
{
    cs_comm_close(rank->comm);
    ce_device_close(rank->device);
}
