/* gpu_ranks.h - a rank with a CUDA device and a comm on the emulated module, for tests of NCCL. */
#ifndef CS_TESTS_GPU_RANKS_H
#define CS_TESTS_GPU_RANKS_H

#include "cspeed/comm.h"
#include "device/device.h"

enum { GPU_RANKS_SECONDS = 60 }; /* limit for every wait */

typedef struct {
    cs_device *device;
    cs_comm *comm;
} gpu_rank;

/* From this call on, the emulated module has this number of devices, which the ranks share if there are fewer than
 * ranks. Returns false, and reports a skipped test, if the module was not built. */
bool gpu_ranks_emulated(const char *devices);

cs_status gpu_rank_open(gpu_rank *rank, const cs_world *world, const char *kind, double seconds);
cs_status gpu_rank_open_here(gpu_rank *rank, const char *kind); /* the world is that of the environment */
void gpu_rank_close(gpu_rank *rank);

#endif
