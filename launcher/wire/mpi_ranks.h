/* mpi_ranks.h - starts the ranks of a job by mpirun, without agents. Every rank must then be a process of MPI. */
#ifndef CL_MPI_RANKS_H
#define CL_MPI_RANKS_H

#include "plan/hostplan.h"

/* Replaces this process by the mpirun of --launcher openmpi or mpich, which starts the file `program` on every slot of
 * the plan. mpirun then handles output, signals and failures, and gives the exit code. Launch flags that need an agent
 * are refused. Returns only after a failure: CL_CODE_USAGE, CL_CODE_NOT_FOUND or CL_CODE_SYSTEM, with a message. */
int cl_mpi_ranks_run(const cl_plan *plan, const char *program);

#endif
