/* slots.h - the hosts of a plan and their slots: from where, and how many of them are used. */
#ifndef CL_SLOTS_H
#define CL_SLOTS_H

#include "plan/hostplan.h"

/* Fills plan->hosts from --hosts, the hostfile, a Slurm allocation or this machine, after include and exclude. */
int cl_slots_find(cl_plan *plan);

/* Keeps as many slots of each host as were asked for; more than there are only with --oversubscribe. */
int cl_slots_choose(cl_plan *plan);

/* CUDA_VISIBLE_DEVICES of the ranks, where the caller's is to be narrowed. */
void cl_slots_tell(cl_plan *plan);

#endif
