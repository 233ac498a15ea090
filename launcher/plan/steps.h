/* steps.h - the steps of cl_hostplan_make that have their own files. */
#ifndef CL_STEPS_H
#define CL_STEPS_H

#include "plan/hostplan.h"

/* ---- slots.c: the hosts of a plan and their slots ---- */

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

/* ---- noderank.c: which node of the job this machine is ---- */

/* Sets plan->node_rank and its origin. A number given by --node_rank is used without further checks. Otherwise the
 * sources are PET_NODE_RANK, JOB_COMPLETION_INDEX, SLURM_NODEID, GROUP_RANK, and this machine's name among the hosts.
 * If none of these exists, the source is the -N at the end of a StatefulSet pod's name. If there is no source and the
 * job has no hostfile, the number is 0 on the machine that has the master address; on other machines it is -1, because
 * they get their numbers later. Returns 0, or CL_CODE_USAGE with a message if the sources contradict each other, the
 * number is too large, or a job with a hostfile has no source. */
int cl_noderank_find(cl_plan *plan);

#endif
