/* starter.h - starts agents with mpirun or srun, one on each node that is not this machine. Each agent then connects to
 * the front process (rendezvous.h). */
#ifndef CL_STARTER_H
#define CL_STARTER_H

#include "plan/hostplan.h"

#include <sys/types.h>

/* Creates a secret for this job (CSPEED_SECRET in this process's environment). Call it before cl_rendezvous_open.
 */
void cl_starter_secret(void);

/* Starts mpirun or srun, as plan->launcher says, with the command `cspeed __agent --join` for every node of the plan
 * that is not this machine. The rendezvous listens on `port`. *pid becomes the id of the child process, or 0 if every
 * node is this machine. Returns 0, CL_CODE_USAGE, or CL_CODE_NOT_FOUND with a message that names what to install. */
int cl_starter_open(pid_t *pid, const cl_plan *plan, int port);

/* Finds the program of CL_BY_OPENMPI, CL_BY_MPICH or CL_BY_SLURM in PATH. Returns 0, or CL_CODE_NOT_FOUND with a
 * message that names what to install. */
int cl_starter_find(const char **program, int launcher);
/* If the user is root, sets the environment variables without which Open MPI's mpirun refuses to run. */
void cl_starter_allow_root(void);

/* The main function of an agent that mpirun or srun has started (`cspeed __agent --join`). It finds out which node this
 * is, connects to the rendezvous that its environment names, and serves the front process. Returns the exit code. */
int cl_starter_join(const cl_options *options, char **arguments);

/* ---- mpi_ranks.c: ranks that mpirun starts, without agents; each must be a process of MPI ---- */

/* Replaces this process by the mpirun of --launcher openmpi or mpich, which starts the file `program` on every slot of
 * the plan. mpirun then handles output, signals and failures, and gives the exit code. Launch flags that need an agent
 * are refused. Returns only after a failure: CL_CODE_USAGE, CL_CODE_NOT_FOUND or CL_CODE_SYSTEM, with a message. */
int cl_mpi_ranks_run(const cl_plan *plan, const char *program);

#endif
