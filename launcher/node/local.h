/* local.h - starts ranks as processes of this machine.
 *
 * Each rank has its own session, is bound to its cores, reads an empty stdin, and writes its output to pipes of the
 * agent. If the process that started the rank ends for any reason, the kernel kills the rank (PR_SET_PDEATHSIG). The
 * kernel already does so when the thread that started the rank ends, so the main thread starts all ranks. */
#ifndef CL_LOCAL_H
#define CL_LOCAL_H

#include "node/ranks.h"

#include "base/beat.h"
#include "security/mac.h"

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
    pid_t pid;
    bool alive;
    bool stopped;   /* true: the agent had sent the rank a signal before the rank ended */
    bool reported;  /* true: the end of the rank has been reported to the front process */
    int status;     /* wait status of the rank, valid after the rank has ended */
    int64_t ended;  /* time when the rank ended, in CLOCK_MONOTONIC nanoseconds */
    int outputs[2]; /* read ends of the pipes for the rank's stdout and stderr, non-blocking; -1: closed */
    int beat_fd;
    ce_beat *beat; /* the page of shared memory with the rank's heartbeat record */
} cl_process;

typedef struct {
    const cl_order *order;
    const cl_binding *binding;
    const char *program;      /* path of the program's executable file */
    const unsigned char *key; /* the job's key, passed through CSPEED_KEY_FD; NULL: there is none */
    int master_fd;            /* the socket bound to MASTER_PORT, for rank 0; -1: rank 0 is on another node */
    const sigset_t *mask;     /* the signal mask that the ranks get */
} cl_local_job;

/* Starts all ranks of the node. If one rank cannot be started, none is left running. Returns 0, or CL_CODE_SYSTEM or
 * CL_CODE_NOT_EXECUTABLE with a message. */
int cl_local_start(const cl_local_job *job, cl_process *processes);
void cl_local_close(cl_process *process); /* closes the pipes of the rank and unmaps its shared page */

#endif
