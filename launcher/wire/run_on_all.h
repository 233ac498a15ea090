/* run_on_all.h - Runs one command line on all hosts in parallel. */
#ifndef CL_CROWD_H
#define CL_CROWD_H

#include "plan/hosts.h"
#include "wire/link.h"

/* Receives the messages of one host's command (remote.h): CL_LINK_SAY, OUTPUT, ERROR, then exactly one FINISH or
 * FAILED. */
typedef void (*cl_crowd_take)(int index, const cl_message *message, void *argument);

/* Runs the command on all hosts and returns after all have ended. Returns 0 or CL_CODE_SYSTEM. */
int cl_crowd_run(const cl_host *const *hosts, int count, const cl_options *options, const char *command,
                 cl_crowd_take take, void *argument);

#endif
