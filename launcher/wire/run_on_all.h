/* run_on_all.h - runs one command line on all hosts in parallel. */
#ifndef CL_RUN_ON_ALL_H
#define CL_RUN_ON_ALL_H

#include "plan/hosts.h"
#include "wire/link.h"

/* Receives the messages of the command on one host (remote.h): CL_LINK_SAY, CL_LINK_OUTPUT, CL_LINK_ERROR, and at the
 * end exactly one CL_LINK_FINISH or CL_LINK_FAILED. */
typedef void (*cl_run_on_all_handler)(int index, const cl_message *message, void *argument);

/* Runs the command on all hosts, and returns after all of these commands have ended. Returns 0 or CL_CODE_SYSTEM. */
int cl_run_on_all_run(const cl_host *const *hosts, int count, const cl_options *options, const char *command,
                      cl_run_on_all_handler take, void *argument);

#endif
