/* local.h - Starts ranks as processes of this machine.
 *
 * Each rank has its own session, is pinned to its cores, reads an empty stdin, and writes its output to pipes of the
 * agent. The kernel kills it when the process that started it ends for any reason (PR_SET_PDEATHSIG; this refers to
 * the starting thread, so the main thread starts the ranks). */
#ifndef CL_LOCAL_H
#define CL_LOCAL_H

#include "node/ranks.h"

#include "base/beat.h"
#include "base/mac.h"

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
    pid_t pid;
    bool alive;
    bool stopped;   /* the agent had signalled it before it ended */
    bool reported;  /* its end has been reported to the front */
    int status;     /* wait status, after it has ended */
    int64_t ended;  /* time of its end in CLOCK_MONOTONIC nanoseconds */
    int outputs[2]; /* read ends of its stdout and stderr, non-blocking; -1: closed */
    int beat_fd;
    ce_beat *beat; /* the shared page with its heartbeat */
} cl_process;

typedef struct {
    const cl_order *order;
    const cl_binding *binding;
    const char *program;      /* path of the file */
    const unsigned char *key; /* the job's key, passed through CSPEED_KEY_FD; NULL: none */
    int master_fd;            /* socket bound to MASTER_PORT, for rank 0; -1: on other nodes */
    const sigset_t *mask;     /* signal mask of the ranks */
} cl_local_job;

/* Starts all ranks of the node or none; after a failure no process is left. Returns 0, or CL_CODE_SYSTEM,
 * CL_CODE_NOT_EXECUTABLE, CL_CODE_NOT_FOUND with a message. */
int cl_local_start(const cl_local_job *job, cl_process *processes);
void cl_local_close(cl_process *process); /* closes the pipes and unmaps the page */

#endif
