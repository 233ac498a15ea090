/* local.h - ranks as processes of this machine.
 *
 * A rank is a session of its own, pinned to its cores, its stdin empty, its output pipes to the agent. The kernel kills
 * it when the process that started it ends, however that happens (PR_SET_PDEATHSIG; the kernel means the starting
 * thread, so ranks are started by the main one). */
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
    bool stopped;   /* had been signalled by the agent when it ended    */
    bool told;      /* its end has been told to the front               */
    int status;     /* of wait, once it has ended                       */
    int64_t ended;  /* CLOCK_MONOTONIC nanoseconds                      */
    int outputs[2]; /* our ends of its stdout and stderr, non-blocking; -1: closed */
    int beat_fd;
    cs_beat *beat; /* the page it shares                               */
} cl_process;

typedef struct {
    const cl_order *order;
    const cl_seats *seats;
    const char *program;      /* a path */
    const unsigned char *key; /* of the job, for CSPEED_KEY_FD; NULL: none          */
    int master_fd;            /* bound to MASTER_PORT, for the rank 0; -1: elsewhere */
    const sigset_t *mask;     /* the signal mask of ranks */
} cl_local_job;

/* Starts every rank of the node, all or none. On failure no process is left; returns CL_CODE_SYSTEM,
 * CL_CODE_NOT_EXECUTABLE or CL_CODE_NOT_FOUND with a sentence. */
int cl_local_start(const cl_local_job *job, cl_process *processes);
void cl_local_close(cl_process *process); /* lets go of pipes and page */

#endif
