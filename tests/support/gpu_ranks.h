/* gpu_ranks.h - a rank with a CUDA device and a comm, for tests of NCCL. */
#ifndef CS_TESTS_GPU_RANKS_H
#define CS_TESTS_GPU_RANKS_H

#include "cspeed/comm.h"
#include "device/device.h"

enum { GPU_RANKS_SECONDS = 60 }; /* time limit of every wait, in seconds */

typedef struct {
    cs_device *device;
    cs_comm *comm;
} gpu_rank;

cs_status gpu_rank_open(gpu_rank *rank, const cs_world *world, const char *kind, double seconds);
cs_status gpu_rank_open_here(gpu_rank *rank, const char *kind); /* reads rank and world size from the environment */
void gpu_rank_close(gpu_rank *rank);

#endif
