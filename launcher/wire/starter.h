/* starter.h - mpirun and srun as what starts the agents: one on each node that is not this machine, each of which then
 * calls the lobby. */
#ifndef CL_STARTER_H
#define CL_STARTER_H

#include "plan/hostplan.h"

#include <sys/types.h>

/* Makes a secret for this job (CSPEED_SECRET in this process's environment): before the lobby opens. 0, or
 * CL_CODE_SYSTEM. */
int cl_starter_secret(void);

/* Starts `mpirun ... cspeed __agent --join` or srun, as options->launcher says, for every node of the plan that is not
 * here; the lobby listens on `port`. *pid is the starter, a child; 0 when every node is here. 0, CL_CODE_USAGE, or
 * CL_CODE_NOT_FOUND with what to install. */
int cl_starter_open(pid_t *pid, const cl_plan *plan, int port);

/* In such an agent (`cspeed __agent --join`): calls the lobby that its environment names, as the node that mpirun or
 * srun says it is, and serves the front. The exit code. */
int cl_starter_join(const cl_options *options, char **arguments);

#endif
