/* watch.h - supervision: the first death ends all; signals pass on; nothing is left behind.
 *
 *     running     until all ranks have ended with 0
 *     settling    a rank has failed by exiting: others may be about to say why, so up to 200 ms pass
 *     stopping    every rank has the stop signal, and the grace
 *     killing     SIGKILL, to everything below us
 *     sweeping    the ranks have ended; what they had started and left is ended too
 *
 * Of several failures the first is named, but one that says "I lost a peer" (exit 75) never before another. */
#ifndef CS_LAUNCHER_WATCH_H
#define CS_LAUNCHER_WATCH_H

#include "guard.h"
#include "local.h"
#include "output.h"

typedef enum {
    CS_WATCH_RUNNING,
    CS_WATCH_SETTLING,
    CS_WATCH_STOPPING,
    CS_WATCH_KILLING,
    CS_WATCH_SWEEPING,
    CS_WATCH_DONE
} cs_phase;

enum { CS_WATCH_LEFT = 16 };

typedef struct {
    const cs_job   *job;
    const cs_guard *guard;
    cs_process     *processes;
    cs_output      *output;
    struct pollfd  *polled;
    int             signal_fd;
    cs_phase        phase;
    int64_t         began, deadline; /* of the phase; CLOCK_MONOTONIC nanoseconds, INT64_MAX: none */
    int64_t         failed, stopped; /* when the first rank failed; when the stop signal went out. 0: not yet */
    int             alive;           /* ranks  */
    int             first;           /* the rank that failed first, or -1 */
    int             signal;          /* that asked cspeed to end, or 0    */
    bool            timed_out, abandoned; /* the guard is gone */
    int64_t         oom_kills; /* before */
    cs_beat        *progress;  /* of every rank when the first one failed */
    pid_t           left[CS_WATCH_LEFT];
    int             left_count; /* processes that would not end */
} cs_watch;

/* Takes the started job. 0, or CS_CODE_SYSTEM; then the job has not been touched. */
int  cs_watch_open(cs_watch *watch, const cs_job *job, const cs_guard *guard, cs_process *processes, cs_output *output);
void cs_watch_close(cs_watch *watch);

/* Returns when nothing of the job is left. The result is cs_watch_code. */
void cs_watch_run(cs_watch *watch);
int  cs_watch_code(const cs_watch *watch);

/* Whether a rank ended badly by itself, not by our signals. */
bool cs_watch_failed(const cs_watch *watch, int rank);

/* Reads what the ranks have left in their pipes and waits until the consoles have taken everything, or a signal
 * says not to. */
void cs_watch_drain(cs_watch *watch);

int64_t cs_watch_now(void);

#endif
