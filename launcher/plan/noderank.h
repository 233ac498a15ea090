/* noderank.h - finds which node of a job this machine is, if no flag says it. */
#ifndef CL_NODERANK_H
#define CL_NODERANK_H

#include "plan/hostplan.h"

/* Sets plan->node_rank and its origin. The sources are: the flag, PET_NODE_RANK, JOB_COMPLETION_INDEX, SLURM_NODEID,
 * GROUP_RANK, the name of this machine among the hosts, and the -N at the end of the name of a StatefulSet's pod. If
 * two sources contradict each other, returns CL_CODE_USAGE with all values in the message. The result is -1 if no
 * source exists and the job has no hostfile, because the node then gets its number later. */
int cl_noderank_find(cl_plan *plan);

#endif
