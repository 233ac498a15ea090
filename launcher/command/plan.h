/* plan.h - a job's plan on stdout: `cspeed plan` and --dry_run. */
#ifndef CL_COMMAND_PLAN_H
#define CL_COMMAND_PLAN_H

#include "command.h"

/* For a program with its arguments, which may be NULL alone. An exit code. */
int cl_plan_show(const cl_options *options, char **program, bool json);

#endif
