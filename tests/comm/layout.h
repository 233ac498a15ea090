/* layout.h - a world of ranks on simulated hosts, for tests. */
#ifndef CS_TESTS_LAYOUT_H
#define CS_TESTS_LAYOUT_H

#include "base/status.h"
#include "cspeed/comm.h"
#include "sums.h"

/* `hosts`: the number of ranks on each simulated host; all 0: all ranks are on one host. */
typedef struct {
    const char *kind;
    int ranks, hosts[SUMS_RANKS];
} layout;

/* Opens a communicator of this layout in a process that cs_spawn started. */
static inline cs_status layout_open(cs_comm **comm, const layout *on, bool nonblocking, size_t heap_bytes)
{
    cs_world world;
    CE_TRY(cs_world_read(&world));
    const int *hosts = on->hosts;
    int first = 0;
    while (*hosts && world.rank >= first + *hosts)
        first += *hosts++;
    if (*hosts) {
        world.local_rank = world.rank - first;
        world.local_size = *hosts;
    }
    return cs_comm_open(comm, &world,
                        &(cs_comm_settings){ .kind = on->kind,
                                             .heap_bytes = heap_bytes,
                                             .timeout_seconds = 60,
                                             .nonblocking = nonblocking });
}

#endif
