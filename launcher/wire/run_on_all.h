/* run_on_all.h - one command line on every host at once. */
#ifndef CL_RUN_ON_ALL_H
#define CL_RUN_ON_ALL_H

#include "plan/hosts.h"
#include "wire/link.h"

/* What remote.h says comes of a command: CL_LINK_SAY, OUTPUT, ERROR, then FINISH or FAILED, the last for every host. */
typedef void (*cl_run_on_all_handler)(int index, const cl_message *message, void *argument);

/* Runs the command on all of the hosts, and returns when all have ended. 0 or CL_CODE_SYSTEM. */
int cl_run_on_all_run(const cl_host *const *hosts, int count, const cl_options *options, const char *command,
                      cl_run_on_all_handler take, void *argument);

#endif
