/* bind.h - CPU affinity: which cores of this node each rank runs on. */
#ifndef CL_BIND_H
#define CL_BIND_H

#include "plan/cores.h"
#include "plan/order.h"

#include <sched.h>

/* The CPUs and the thread count of one rank. */
typedef struct {
    cpu_set_t cpus; /* valid if the ranks are bound */
    int threads;
} cl_rank_cpus;

typedef struct {
    bool bound, set_threads; /* set_threads: set OMP_NUM_THREADS to the rank's threads; false if the user has set it */
    int count;
    cl_rank_cpus *list; /* one for each rank of this node */
    char text[256];     /* "rank 0 on core 0, rank 1 on core 1; 1 thread each", for the start message and the plan */
} cl_binding;

/* Assigns cores from the order's rank_count, first_rank, slots, bind and core_list, within the affinity mask and the
 * cgroup of this process. Returns 0, or CL_CODE_SLOTS, CL_CODE_USAGE (core_list), CL_CODE_SYSTEM with the message in
 * cs_error(). */
int cl_bind_assign(cl_binding *binding, const cl_order *order);
/* Does the same for the given `cores`, and reorders them. `homes` is the NUMA node of each rank's GPU, or NULL. */
int cl_bind_share(cl_binding *binding, const cl_order *order, cl_cores *cores, const int *homes);
void cl_bind_free(cl_binding *binding);

#endif
