/* plan.h - prints the plan of a job to stdout, for `cspeed plan` and --dry_run. */
#ifndef CL_COMMAND_PLAN_H
#define CL_COMMAND_PLAN_H

#include "ground/command.h"

/* Prints the plan for a program and its arguments. `program` may be an empty list. Returns an exit code. */
int cl_plan_show(const cl_options *options, char **program, bool json);

#endif
