/* plan.h - a job's plan on stdout: `cspeed plan` and --dry_run. */
#ifndef CS_LAUNCHER_PLANNER_H
#define CS_LAUNCHER_PLANNER_H

#include "command.h"

/* For a program with its arguments, which may be NULL alone. An exit code. */
int cs_planner_show(const cs_options *options, char **program, bool json);

#endif
