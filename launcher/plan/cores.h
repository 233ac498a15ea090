/* cores.h - the CPU cores this process may use.
 *
 * What the affinity mask allows, in an order in which neighbours share most: by NUMA node, core, hardware
 * thread. A cgroup's CPU quota lowers what is worth using without saying which cores. */
#ifndef CL_CORES_H
#define CL_CORES_H

#include <sched.h>

typedef struct {
    int cpu;  /* the kernel's number                                */
    int core; /* the lowest CPU of the core it is a hardware thread of */
    int node; /* NUMA node                                          */
} cl_cpu;

typedef struct {
    cl_cpu cpus[CPU_SETSIZE];
    int cpu_count, core_count, node_count;
    int quota; /* whole CPUs' worth of time the cgroup allows, at least 1; cpu_count without a limit */
} cl_cores;

/* 0, or CL_CODE_SYSTEM. */
int cl_cores_read(cl_cores *cores);

/* "0-3,8" for a set. */
void cl_cores_print(const cpu_set_t *set, char *text, int size);

/* The same back, as DeepSpeed reads it: ascending, nothing twice. 0, or CL_CODE_USAGE with a sentence that begins with
 * `flag`. */
int cl_cores_parse(cpu_set_t *set, const char *flag, const char *text);

#endif
