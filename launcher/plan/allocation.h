/* allocation.h - Hosts that Slurm allocated to this job, read from the environment only. */
#ifndef CL_ALLOCATION_H
#define CL_ALLOCATION_H

#include "plan/hosts.h"

/* Returns true if this process runs inside a Slurm allocation. */
bool cl_allocation_here(void);

/* Reads the hosts of SLURM_JOB_NODELIST. A host with GPUs has one slot for each GPU. A host without GPUs has one slot
 * for each task; or one for each CPU if `ranks` is a number larger than the number of tasks. `ranks` is NULL if the
 * user did not give it. Returns 0, or CL_CODE_FILE. */
int cl_allocation_hosts(cl_hosts *hosts, const char *ranks);

/* Calls each(name, argument) for the names of a list such as "a[1-3,05],b", in order. Returns false if the list is
 * invalid. */
bool cl_allocation_expand(const char *list, void (*each)(const char *name, void *argument), void *argument);

#endif
