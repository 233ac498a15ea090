/* run_on_all.h - one command line on every host at once. */
#ifndef CL_CROWD_H
#define CL_CROWD_H

#include "plan/hosts.h"
#include "wire/link.h"

/* What remote.h says comes of a command: CL_LINK_SAY, OUTPUT, ERROR, then FINISH or FAILED, the last for every host. */
typedef void (*cl_crowd_take)(int index, const cl_message *message, void *argument);

/* Runs the command on all of the hosts, and returns when all have ended. 0 or CL_CODE_SYSTEM. */
int cl_crowd_run(const cl_host *const *hosts, int count, const cl_options *options, const char *command,
                 cl_crowd_take take, void *argument);

#endif
