/* bind.h - which cores of this node each of its ranks gets. */
#ifndef CL_BIND_H
#define CL_BIND_H

#include "plan/cores.h"
#include "plan/order.h"

#include <sched.h>

/* Where a rank sits. */
typedef struct {
    cpu_set_t cpus; /* meaningful when ranks are bound */
    int threads;
} cl_seat;

typedef struct {
    bool bound, tell_threads; /* tell_threads: OMP_NUM_THREADS is set to seat.threads, unless given */
    int count;
    cl_seat *list;  /* one a rank of this node */
    char text[256]; /* "rank 0 on core 0, rank 1 on core 1; 1 thread each", for banner and plan */
} cl_seats;

/* For the order's rank_count, first_rank, slots, bind and core_list on this machine, as its affinity mask and its
 * cgroup allow. 0, or CL_CODE_SLOTS, CL_CODE_USAGE (core_list), CL_CODE_SYSTEM with a sentence. */
int cl_bind_deal(cl_seats *seats, const cl_order *order);
/* The same for the cores given, whose row is changed. `homes`: the NUMA node of each rank's GPU; NULL: none. */
int cl_bind_share(cl_seats *seats, const cl_order *order, cl_cores *cores, const int *homes);
void cl_bind_free(cl_seats *seats);

#endif
