/* noderank.h - finds which node of a job this machine is, if no flag says it. */
#ifndef CL_NODERANK_H
#define CL_NODERANK_H

#include "plan/hostplan.h"

/* Sets plan->node_rank and its origin from: the flag, PET_NODE_RANK, JOB_COMPLETION_INDEX, SLURM_NODEID, GROUP_RANK,
 * this machine's name among the hosts, and the -N at the end of a StatefulSet pod's name. Returns CL_CODE_USAGE, with
 * all values in the message, if these contradict each other. The node rank is -1 if no source exists and the job has no
 * hostfile, because the node then gets its number later. */
int cl_noderank_find(cl_plan *plan);

#endif
