/* mpi_ranks.h - Starts the ranks of a job by mpirun, without agents, because every rank must be a process of MPI. */
#ifndef CL_MPI_RANKS_H
#define CL_MPI_RANKS_H

#include "plan/hostplan.h"

/* Replaces this process by the mpirun of --launcher openmpi or mpich, which starts the file `program` on every slot of
 * the plan. Output, signals, failures and the exit code are then mpirun's. Launch flags that need an agent are refused.
 * Returns only after a failure: CL_CODE_USAGE, CL_CODE_NOT_FOUND or CL_CODE_SYSTEM with a message. */
int cl_mpi_ranks_run(const cl_plan *plan, const char *program);

#endif
