/* guard.h - two processes that watch over each other, so that no single kill leaves anything behind.
 *
 * On a remote node the agent works as the watcher, in a session of its own, the parent of all ranks; the guard above it
 * passes signals on and waits. If the guard is killed, the watcher kills the ranks and ends. If the watcher is killed,
 * the kernel kills the ranks (parent-death signal), and whatever they had started comes back to the guard, which is a
 * subreaper too and kills it. Only when both are killed at the same moment does a rank's own child outlive the job,
 * unless it notices by itself; the ranks never do. On the machine of the front, the front does the guard's part. */
#ifndef CL_GUARD_H
#define CL_GUARD_H

#include <signal.h>

typedef struct {
    sigset_t signals; /* those that the launcher takes for itself; blocked */
    sigset_t before;  /* the mask that ranks get back                      */
    int alive_fd;     /* in the watcher: readable once the guard is gone   */
} cl_guard;

/* Blocks the signals that the launcher takes for itself: those that ask it to end, SIGCHLD, and those to pass on to
 * ranks (names separated by commas). One that is ignored on entry (nohup, a shell's background job) stays so. 0 or
 * CL_CODE_USAGE for a name that is no signal. */
int cl_guard_take(cl_guard *guard, const char *forward);

/* Runs work(argument, guard) in the watcher, and returns its exit code in the guard. */
int cl_guard_run(int (*work)(void *argument, const cl_guard *guard), void *argument);

#endif
