/* cgroup.h - what the control group of this process says: CPU time, and kills for memory. */
#ifndef CL_CGROUP_H
#define CL_CGROUP_H

#include <stdint.h>

/* CPUs' worth of time allowed, the least of this group and those above it; infinity without a limit. */
double cl_cgroup_cpu_quota(void);

/* How many processes the kernel has killed for want of memory so far: in this group, else (where groups
 * cannot be read) on this machine. -1 when nothing tells. */
int64_t cl_cgroup_oom_kills(void);

#endif
