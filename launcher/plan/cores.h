/* cores.h - the CPU cores this process may use.
 *
 * What the affinity mask allows, in an order in which neighbours share most: by NUMA node, core, hardware
 * thread. A cgroup's CPU quota lowers what is worth using without saying which cores. */
#ifndef CS_LAUNCHER_CORES_H
#define CS_LAUNCHER_CORES_H

#include <sched.h>

typedef struct {
    int cpu;  /* the kernel's number                                */
    int core; /* the lowest CPU of the core it is a hardware thread of */
    int node; /* NUMA node                                          */
} cs_cpu;

typedef struct {
    cs_cpu cpus[CPU_SETSIZE];
    int    cpu_count, core_count, node_count;
    int    quota; /* whole CPUs' worth of time the cgroup allows, at least 1; cpu_count without a limit */
} cs_cores;

/* 0, or CS_CODE_SYSTEM. */
int cs_cores_read(cs_cores *cores);

/* "0-3,8" for a set. */
void cs_cores_print(const cpu_set_t *set, char *text, int size);

/* The same back, as DeepSpeed reads it: ascending, nothing twice. 0, or CS_CODE_USAGE with a sentence that begins with
 * `flag`. */
int cs_cores_parse(cpu_set_t *set, const char *flag, const char *text);

#endif
