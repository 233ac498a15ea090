/* run_on_all.h - one command line on every host at once. */
#ifndef CS_LAUNCHER_CROWD_H
#define CS_LAUNCHER_CROWD_H

#include "plan/hosts.h"
#include "wire/link.h"

/* What remote.h says comes of a command: CS_LINK_SAY, OUTPUT, ERROR, then FINISH or FAILED, the last for every host. */
typedef void (*cs_crowd_take)(int index, const cs_message *message, void *argument);

/* Runs the command on all of the hosts, and returns when all have ended. 0 or CS_CODE_SYSTEM. */
int cs_crowd_run(const cs_host *const *hosts, int count, const cs_options *options, const char *command,
                 cs_crowd_take take, void *argument);

#endif
