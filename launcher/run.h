/* run.h - Runs a program on its ranks: plan, start, supervision, exit code. */
#ifndef CL_RUN_H
#define CL_RUN_H

#include "options.h"

/* Returns the exit code of cspeed, with a message in cs_error() if the job could not be started. */
int cl_run(const cl_options *options);

#endif
