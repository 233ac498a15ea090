/* guard.h - Two processes that supervise each other, so that no single kill leaves processes behind.
 *
 * On a remote node the agent runs as the watcher, in its own session, as the parent of all ranks; its parent, the
 * guard, forwards signals and waits. If the guard is killed, the watcher kills the ranks and ends. If the watcher is
 * killed, the kernel kills the ranks (parent-death signal), and the processes that the ranks started are reparented to
 * the guard, which is also a subreaper and kills these processes. A child of a rank can outlive the job only if guard
 * and watcher are killed at the same moment; the ranks themselves always end. On the machine of the front, the front is
 * the guard. */
#ifndef CL_GUARD_H
#define CL_GUARD_H

#include <signal.h>

typedef struct {
    sigset_t signals; /* signals that the launcher handles itself; blocked */
    sigset_t before;  /* the original signal mask, which the ranks get */
    int alive_fd;     /* in the watcher: becomes readable when the guard has ended */
} cl_guard;

/* Blocks the signals that the launcher handles itself: those that ask it to end, SIGCHLD, and those in `forward`
 * (names separated by commas), which are passed on to the ranks. A signal that is ignored on entry (nohup, a shell's
 * background job) remains ignored. Returns 0, or CL_CODE_USAGE for an unknown signal name. */
int cl_guard_take(cl_guard *guard, const char *forward);

/* Runs work(argument, guard) in the watcher; returns its exit code in the guard. */
int cl_guard_run(int (*work)(void *argument, const cl_guard *guard), void *argument);

#endif
