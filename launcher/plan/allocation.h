/* allocation.h - the hosts that Slurm has given to this job, from its environment alone. */
#ifndef CS_LAUNCHER_ALLOCATION_H
#define CS_LAUNCHER_ALLOCATION_H

#include "plan/hosts.h"

/* Whether this process stands in an allocation. */
bool cs_allocation_here(void);

/* Hosts of SLURM_JOB_NODELIST; slots: GPUs of a node, else its tasks, or its CPUs where `ranks` (a number, NULL: not
 * said) asks for more than tasks. 0 or CS_CODE_FILE. */
int cs_allocation_hosts(cs_hosts *hosts, const char *ranks);

/* Calls each(name, argument) for the names of "a[1-3,05],b" in order. False when it is no such list. */
bool cs_allocation_expand(const char *list, void (*each)(const char *name, void *argument), void *argument);

#endif
