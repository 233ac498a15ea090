/* cgroup.h - CPU quota and out-of-memory kills of this process's control group (cgroup). */
#ifndef CL_CGROUP_H
#define CL_CGROUP_H

#include <stdint.h>

/* Returns the CPU quota in units of one CPU: the smallest of this cgroup and its ancestors; infinity without a
 * limit. */
double cl_cgroup_cpu_quota(void);

/* Returns how many processes the kernel's OOM killer has killed in this cgroup so far; on the whole machine if the
 * cgroup cannot be read; -1 if neither is known. */
int64_t cl_cgroup_oom_kills(void);

#endif
