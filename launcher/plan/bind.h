/* bind.h - CPU affinity: the cores of this node on which each rank runs. */
#ifndef CL_BIND_H
#define CL_BIND_H

#include "ground/cores.h"
#include "plan/order.h"

#include <sched.h>

/* The CPUs and the number of threads of one rank. */
typedef struct {
    cpu_set_t cpus; /* the CPUs, valid if the ranks are bound */
    int threads;
} cl_rank_cpus;

typedef struct {
    /* set_threads: OMP_NUM_THREADS is set to the rank's number of threads; false if the user has set this variable */
    bool bound, set_threads;
    int count;
    cl_rank_cpus *list; /* one entry for each rank of this node */
    /* describes the binding to the user, for example "rank 0 on core 0, rank 1 on core 1; 1 thread each" */
    char text[256];
} cl_binding;

/* Assigns cores to the ranks of the order, within the affinity mask and the cgroup of this process. It uses the order's
 * rank_count, first_rank, slots, bind and core_list. Returns 0, or CL_CODE_SLOTS, CL_CODE_SYSTEM or CL_CODE_USAGE with
 * the message in cs_error(). CL_CODE_USAGE: core_list is invalid, or KMP_AFFINITY is set and --bind
 * is neither auto nor none. */
int cl_bind_assign(cl_binding *binding, const cl_order *order);
/* Does the same as cl_bind_assign with the given cores, and reorders them. `homes`: the NUMA node of each rank's GPU,
 * or NULL. */
int cl_bind_share(cl_binding *binding, const cl_order *order, cl_cores *cores, const int *homes);
void cl_bind_free(cl_binding *binding);

#endif
