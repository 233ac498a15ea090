/* slots.h - The hosts of a plan and their slots: where they come from, and how many slots are used. */
#ifndef CL_SLOTS_H
#define CL_SLOTS_H

#include "plan/hostplan.h"

/* Sets plan->hosts from --hosts, the hostfile, a Slurm allocation or this machine, and applies include and exclude. */
int cl_slots_find(cl_plan *plan);

/* Keeps the requested number of slots of each host. A number larger than that of the existing slots is allowed only
 * with --oversubscribe. */
int cl_slots_choose(cl_plan *plan);

/* If the job runs on unnamed hosts and the caller set CUDA_VISIBLE_DEVICES, reduces that list to the chosen slots and
 * adds it to plan->env. */
void cl_slots_set_devices(cl_plan *plan);

#endif
