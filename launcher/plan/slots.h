/* slots.h - the hosts of a plan and their slots: where they come from, and how many slots are used. */
#ifndef CL_SLOTS_H
#define CL_SLOTS_H

#include "plan/hostplan.h"

/* Sets plan->hosts from --hosts, the hostfile, a Slurm allocation or this machine. Then applies --include and
 * --exclude. Returns 0, or an exit code with a message. */
int cl_slots_find(cl_plan *plan);

/* Changes the number of slots of each host to the requested number. Returns CL_CODE_SLOTS if a host has fewer slots and
 * --oversubscribe is not given. If no number was requested, changes nothing and returns 0. */
int cl_slots_choose(cl_plan *plan);

/* If the slots count as GPUs, the user named no hosts, and the user has set CUDA_VISIBLE_DEVICES: sets
 * plan->has_devices to false, and adds to plan->env the entries of the user's CUDA_VISIBLE_DEVICES that the slots
 * select. With --no_ssh, nothing is added to plan->env. */
void cl_slots_set_devices(cl_plan *plan);

#endif
