/* noderank.h - which node of a job this machine is, when nobody has said so. */
#ifndef CL_NODERANK_H
#define CL_NODERANK_H

#include "plan/hostplan.h"

/* Fills plan->node_rank and its origin: the flag, PET_NODE_RANK, JOB_COMPLETION_INDEX, SLURM_NODEID, GROUP_RANK, this
 * machine's name among the hosts, the -N that a StatefulSet gives its name. Sources that contradict each other are
 * CL_CODE_USAGE, with all that was seen. -1: nothing tells, and a job without a hostfile need not know. */
int cl_noderank_find(cl_plan *plan);

#endif
