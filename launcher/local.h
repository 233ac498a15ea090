/* local.h - ranks as processes of this machine.
 *
 * A rank is a session of its own, pinned to its cores, its stdin empty, its output pipes to the launcher.
 * The kernel kills it when the process that started it ends, however that happens (PR_SET_PDEATHSIG; the
 * kernel means the starting thread, so ranks are started by the main one). */
#ifndef CS_LAUNCHER_LOCAL_H
#define CS_LAUNCHER_LOCAL_H

#include "ranks.h"

#include "base/beat.h"

#include <stdint.h>
#include <sys/types.h>

typedef struct {
    pid_t    pid;
    bool     alive;
    bool     stopped;    /* had been signalled by the launcher when it ended */
    int      status;     /* of wait, once it has ended                       */
    int64_t  ended;      /* CLOCK_MONOTONIC nanoseconds                      */
    int      outputs[2]; /* our ends of its stdout and stderr, non-blocking  */
    cs_beat *beat;       /* the page it shares                               */
} cs_process;

/* Starts every rank of the job, all or none. On failure 0 processes are left; returns CS_CODE_SYSTEM or
 * CS_CODE_NOT_EXECUTABLE with a sentence. The signal mask of the ranks is `mask`. */
int cs_local_start(const cs_job *job, const sigset_t *mask, cs_process *processes);

#endif
