/* allocation.h - the hosts that Slurm has given to this job, from its environment alone. */
#ifndef CL_ALLOCATION_H
#define CL_ALLOCATION_H

#include "plan/hosts.h"

/* Whether this process stands in an allocation. */
bool cl_allocation_here(void);

/* Hosts of SLURM_JOB_NODELIST; slots: GPUs of a node, else its tasks, or its CPUs where `ranks` (a number, NULL: not
 * said) asks for more than tasks. 0 or CL_CODE_FILE. */
int cl_allocation_hosts(cl_hosts *hosts, const char *ranks);

/* Calls each(name, argument) for the names of "a[1-3,05],b" in order. False when it is no such list. */
bool cl_allocation_expand(const char *list, void (*each)(const char *name, void *argument), void *argument);

#endif
