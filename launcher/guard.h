/* guard.h - two processes that watch over each other, so that no single kill leaves anything behind.
 *
 * The process the user sees is the guard: it passes signals on and waits. Below it, in a session of its own,
 * works the watcher, the parent of all ranks. If the guard is killed, the watcher kills the job and ends. If
 * the watcher is killed, the kernel kills the ranks (parent-death signal), and whatever they had started
 * comes back to the guard, which is a subreaper too and kills it. Only when both are killed at the same
 * moment does a rank's own child outlive the job, unless it notices by itself; the ranks never do. */
#ifndef CS_LAUNCHER_GUARD_H
#define CS_LAUNCHER_GUARD_H

#include <signal.h>

typedef struct {
    sigset_t signals; /* those that the launcher takes for itself; blocked */
    sigset_t before;  /* the mask that ranks get back                      */
    int      alive_fd; /* in the watcher: readable once the guard is gone   */
} cs_guard;

/* Runs work(argument, guard) in the watcher, and returns its exit code in the guard. */
int cs_guard_run(int (*work)(void *argument, const cs_guard *guard), void *argument);

#endif
