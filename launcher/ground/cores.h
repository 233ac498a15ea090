/* cores.h - the CPU cores that this process may use.
 *
 * The list contains the CPUs of the affinity mask, ordered by NUMA node, core and hardware thread, so that adjacent
 * CPUs share most hardware. A cgroup's CPU quota limits how many of these CPUs are useful; it does not select CPUs. */
#ifndef CL_CORES_H
#define CL_CORES_H

#include <sched.h>

typedef struct {
    int cpu;  /* number of the CPU (the hardware thread) in the kernel */
    int core; /* lowest CPU number among the hardware threads of the core to which this CPU belongs */
    int node; /* NUMA node                                          */
} cl_cpu;

typedef struct {
    cl_cpu cpus[CPU_SETSIZE];
    int cpu_count, core_count, node_count;
    /* the CPU time that the cgroup allows, in whole CPUs, at least 1; equal to cpu_count if there is no quota */
    int quota;
} cl_cores;

/* Reads on which CPU cores this process may run. Returns 0, or CL_CODE_SYSTEM. */
int cl_cores_read(cl_cores *cores);

/* Writes a set of CPUs as text, such as "0-3,8". */
void cl_cores_print(const cpu_set_t *set, char *text, int size);

/* Parses a list such as "0-3,8" by DeepSpeed's rules: ascending, no number twice. Returns 0, or CL_CODE_USAGE with a
 * message that begins with `flag`. */
int cl_cores_parse(cpu_set_t *set, const char *flag, const char *text);

#endif
