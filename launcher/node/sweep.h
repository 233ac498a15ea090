/* sweep.h - sends signals to all descendants of this process, including those in other sessions.
 *
 * This process is a subreaper: if the parent of a descendant ends, the descendant becomes a child of this process, even
 * if it is in another session. The parent process ids in /proc therefore lead from every descendant to this process. */
#ifndef CL_SWEEP_H
#define CL_SWEEP_H

#include <sys/types.h>

/* Processes that receive no signal. Their descendants receive none either. */
typedef struct {
    pid_t list[256];
    int count;
} cl_spared;

/* Sends a signal to every descendant that is not spared, and returns the number of these descendants. If `number` is 0,
 * no signal is sent. `spared` may be NULL. If `pids` is not NULL, it receives the first `max` of the process ids.
 * Zombies are not counted. */
int cl_sweep_signal(int number, const cl_spared *spared, pid_t *pids, int max);

/* Kills and reaps every descendant that is not spared, for at most `seconds`. Returns how many of them have not ended.
 */
int cl_sweep_kill(double seconds, const cl_spared *spared);

#endif
