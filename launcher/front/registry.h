/* registry.h - the jobs of this user on this machine: who runs, where its logs are, how it fares.
 *
 * A folder of ours alone (0700, owner checked before use), $XDG_RUNTIME_DIR/cspeed or /tmp/cspeed-UID, holds for each
 * running front JOB.json (pid, start time of the process, command, hosts, run folder) and the socket PID.sock. Whoever
 * connects to it gets the state of the job as one JSON object, and the connection is closed. Entries whose process is
 * gone are swept by whoever reads the folder (registry_read.h). */
#ifndef CL_REGISTRY_H
#define CL_REGISTRY_H

#include "plan/hostplan.h"

#include <stdint.h>
#include <sys/types.h>

typedef struct {
    int fd;              /* listens; -1: none */
    int64_t rests_until; /* of cs_clock_now: it is not to be polled before, since no descriptor was free for a caller */
    char job[64];
} cl_registry;

/* Enters the job. A running job of the same id on this machine is CL_CODE_USAGE, naming its pid. CL_CODE_SYSTEM when
 * the folder cannot be used: the job can run all the same, and no command will find it. */
int cl_registry_open(cl_registry *registry, const cl_plan *plan, const char *run_dir);
void cl_registry_close(cl_registry *registry); /* removes the entry */

void cl_registry_forget(cl_registry *registry); /* in a child: closes the socket, the entry stays */

/* Call when registry->fd is readable: answers one caller with `state` (JSON text) without blocking. */
void cl_registry_answer(cl_registry *registry, const char *state);

#endif
