/* cgroup.h - the CPU quota, the memory limit, the free memory and the number of out-of-memory kills of this process's
 * control group (cgroup). */
#ifndef CE_BASE_CGROUP_H
#define CE_BASE_CGROUP_H

#include <stdint.h>

/* Returns the CPU quota in units of one CPU: the smallest quota of this cgroup and of the cgroups above it; infinity if
 * there is no quota. */
double ce_cgroup_cpu_quota(void);

/* Returns the memory limit in bytes: the smallest of this cgroup and the cgroups above it; infinity if there is no
 * limit; NaN if no limit can be read. `root` is a prefix for the paths of /proc and /sys; it is "" except in tests. */
double ce_cgroup_memory_limit(const char *root);

/* Returns how many bytes this cgroup and the cgroups above it leave to their processes: the smallest difference between
 * a limit and the memory in use without cached file pages, at least 0; infinity if there is no limit. A cgroup whose
 * limit cannot be read is ignored; NaN if this holds for all of them. If only the memory in use cannot be read, the
 * limit counts. `root` is as above. */
double ce_cgroup_free_bytes(const char *root);

/* Returns how many processes of this cgroup the kernel's out-of-memory killer has killed so far. If the cgroup cannot
 * be read, returns the number for the whole machine. Returns -1 if neither number is known. */
int64_t ce_cgroup_oom_kills(void);

#endif
