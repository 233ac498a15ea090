/* sweep.h - Signals all descendants of this process, including those in other sessions.
 *
 * This process is a subreaper: a grandchild whose parent has ended becomes a child of this process, even if it is in
 * another session. The parent pids in /proc therefore lead from every descendant to this process. */
#ifndef CL_SWEEP_H
#define CL_SWEEP_H

#include <sys/types.h>

/* Processes that are spared, with all their descendants. */
typedef struct {
    pid_t list[256];
    int count;
} cl_spared;

/* Sends a signal (0: none) to every descendant that is not spared (`spared` may be NULL) and returns how many there
 * are. The first `max` of them are stored in `pids`, which may be NULL. Zombies are not counted. */
int cl_sweep_signal(int number, const cl_spared *spared, pid_t *pids, int max);

/* Kills every descendant that is not spared and reaps it, for at most `seconds`. Returns how many are left. */
int cl_sweep_kill(double seconds, const cl_spared *spared);

#endif
