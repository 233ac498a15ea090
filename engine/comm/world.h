/* world.h - who am I: RANK and its cousins. */
#ifndef CS_COMM_WORLD_H
#define CS_COMM_WORLD_H

#include "base/status.h"

typedef struct {
    int rank, size;
    int local_rank, local_size;
    char address[256]; /* MASTER_ADDR */
    int port;          /* MASTER_PORT */
    char job[64];      /* CSPEED_JOB_ID; "" when not launched by cspeed */
    int attempt;       /* CSPEED_ATTEMPT; 0 when not given */
    bool bound;        /* CSPEED_BOUND: this process's cores are its own, not shared with the host's other ranks */
} cs_world;

/* From RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT (torchrun's names), or from what Open
 * MPI, MPICH, MVAPICH, PALS or srun tell the ranks they start; nothing set: a world of one. Half-set or contradictory:
 * CS_BAD_CONFIG with what was seen. */
cs_status cs_world_read(cs_world *world);

#endif
