/* noderank.h - finds which node of a job this machine is, if --node_rank is not given. */
#ifndef CL_NODERANK_H
#define CL_NODERANK_H

#include "plan/hostplan.h"

/* Sets plan->node_rank and its origin. A number given by --node_rank is used without further checks. Otherwise the
 * sources are PET_NODE_RANK, JOB_COMPLETION_INDEX, SLURM_NODEID, GROUP_RANK, and this machine's name among the hosts.
 * If none of these exists, the source is the -N at the end of a StatefulSet pod's name. If there is no source and the
 * job has no hostfile, the number is 0 on the machine that has the master address; on other machines it is -1, because
 * they get their numbers later. Returns 0, or CL_CODE_USAGE with a message if the sources contradict each other, the
 * number is too large, or a job with a hostfile has no source. */
int cl_noderank_find(cl_plan *plan);

#endif
