/* sweep.h - sends signals to all descendants of this process, including those in other sessions.
 *
 * This process is a subreaper: a descendant whose parent has ended becomes a child of this process, even in another
 * session. The parent process ids in /proc therefore lead from every descendant to this process. */
#ifndef CL_SWEEP_H
#define CL_SWEEP_H

#include <stdbool.h>
#include <sys/types.h>

/* Processes that receive no signal. Their descendants receive none either. */
typedef struct {
    pid_t list[256];
    int count;
} cl_spared;

/* Sends a signal (0: none) to every descendant that is not spared, and returns the number of these descendants.
 * `spared` may be NULL. If `pids` is not NULL, `pids` receives the process ids of these descendants, at most `max` of
 * them. Zombies are not counted. */
int cl_sweep_signal(int number, const cl_spared *spared, pid_t *pids, int max);

/* Waits at most `seconds` for the end of a child process. Returns true if it has ended. `status` may be NULL. */
bool cl_sweep_await(pid_t pid, double seconds, int *status);

/* Kills and reaps every descendant that is not spared, for at most `seconds`. Returns how many of them have not ended.
 */
int cl_sweep_kill(double seconds, const cl_spared *spared);

#endif
