/* run.h - a program on its ranks: plan, start, watch, exit code. */
#ifndef CL_RUN_H
#define CL_RUN_H

#include "options.h"

/* The exit code of cspeed; with a sentence in cs_error() when the job could not be started. */
int cl_run(const cl_options *options);

#endif
