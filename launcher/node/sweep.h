/* sweep.h - every process below this one, however far it has gone.
 *
 * This process is a subreaper, so a grandchild whose parent has ended comes back to it, in another session
 * or not; the parents in /proc lead from any of them to here. */
#ifndef CL_SWEEP_H
#define CL_SWEEP_H

#include <sys/types.h>

/* Processes that are let live, and all below them. */
typedef struct {
    pid_t list[256];
    int count;
} cl_spared;

/* Sends a signal (0: none) to every descendant that is not spared (NULL: none is) and returns how many there are; the
 * first `most` of them go into `pids`, which may be NULL. Zombies do not count. */
int cl_sweep_signal(int number, const cl_spared *spared, pid_t *pids, int max);

/* Kills them and reaps until none is left, for at most `seconds`. Returns how many are left. */
int cl_sweep_kill(double seconds, const cl_spared *spared);

#endif
