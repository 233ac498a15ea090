/* slots.h - the hosts of a plan and their slots: where they come from, and how many slots are used. */
#ifndef CL_SLOTS_H
#define CL_SLOTS_H

#include "plan/hostplan.h"

/* Sets plan->hosts from --hosts, the hostfile, a Slurm allocation or this machine. Then applies --include and
 * --exclude. Returns 0, or an exit code with a message. */
int cl_slots_find(cl_plan *plan);

/* Reduces each host to the number of slots that was requested. A number that is larger than that of the host's slots is
 * allowed only with --oversubscribe; otherwise CL_CODE_SLOTS is returned. Returns 0 if no number was requested. */
int cl_slots_choose(cl_plan *plan);

/* If the user named no hosts and set CUDA_VISIBLE_DEVICES, reduces this list to the chosen slots and adds it to
 * plan->env. */
void cl_slots_set_devices(cl_plan *plan);

#endif
