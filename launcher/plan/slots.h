/* slots.h - the hosts of a plan and their slots: from where, and how many of them are used. */
#ifndef CS_LAUNCHER_SLOTS_H
#define CS_LAUNCHER_SLOTS_H

#include "plan/hostplan.h"

/* Fills plan->hosts from --hosts, the hostfile, a Slurm allocation or this machine, after include and exclude. */
int cs_slots_find(cs_plan *plan);

/* Keeps as many slots of each host as were asked for; more than there are only with --oversubscribe. */
int cs_slots_choose(cs_plan *plan);

/* CUDA_VISIBLE_DEVICES of the ranks, where the caller's is to be narrowed. */
void cs_slots_tell(cs_plan *plan);

#endif
