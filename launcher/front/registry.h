/* registry.h - the registry of this user's running jobs on this machine. The front process adds its job and answers
 * queries about it.
 *
 * The registry is a private folder (mode 0700; its owner is checked before use): $XDG_RUNTIME_DIR/cspeed or
 * /tmp/cspeed-UID. For each running front process the folder contains the file JOB.json (process id, start time of the
 * process, command, hosts, log folder) and the socket PID.sock. A client that connects to the socket receives the state
 * of the job as one JSON object; then the connection is closed. Every process that lists the registry removes the
 * entries of processes that no longer exist (registry_read.h). */
#ifndef CL_REGISTRY_H
#define CL_REGISTRY_H

#include "plan/hostplan.h"

#include <stdint.h>
#include <sys/types.h>

typedef struct {
    int fd; /* the listening socket; -1: it is not open */
    /* The socket is not polled before this time of ce_clock_now. It is set when no file descriptor is free for a
     * client. */
    int64_t rests_until;
    char job[64];
} cl_registry;

/* Adds the job to the registry. Returns CL_CODE_USAGE, with a sentence that names the process id, if a job with the
 * same id already runs on this machine. Returns CL_CODE_SYSTEM if the folder cannot be used: the job can still run, but
 * no command will find it. */
int cl_registry_open(cl_registry *registry, const cl_plan *plan, const char *run_dir);
void cl_registry_close(cl_registry *registry); /* removes the entry of the job */

/* for a child process: closes the socket, but keeps the entry of the job */
void cl_registry_forget(cl_registry *registry);

/* Sends `state` (JSON text) to one client, without blocking. Call it when registry->fd is readable. */
void cl_registry_answer(cl_registry *registry, const char *state);

#endif
