/* allocation.h - Hosts that Slurm allocated to this job, read from the environment only. */
#ifndef CL_ALLOCATION_H
#define CL_ALLOCATION_H

#include "plan/hosts.h"

/* Returns true if this process runs inside a Slurm allocation. */
bool cl_allocation_here(void);

/* Reads the hosts of SLURM_JOB_NODELIST. A host has one slot for each GPU. A host without GPUs has one slot for each
 * task; or, if `ranks` is a number larger than the number of tasks, one for each CPU. `ranks` may be NULL (not given).
 * Returns 0, or CL_CODE_FILE. */
int cl_allocation_hosts(cl_hosts *hosts, const char *ranks);

/* Calls each(name, argument) for the names of "a[1-3,05],b" in order. Returns false if the list is malformed. */
bool cl_allocation_expand(const char *list, void (*each)(const char *name, void *argument), void *argument);

#endif
