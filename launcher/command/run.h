/* run.h - runs a program on its ranks: makes the plan, starts the ranks, and supervises them. */
#ifndef CL_RUN_H
#define CL_RUN_H

#include "ground/options.h"

/* Runs the job that the options describe. Returns the exit code of cspeed; cs_error() says why a job could not be
 * started. */
int cl_run(const cl_options *options);

#endif
