/* guard.h - two processes that supervise each other, so that killing one of them leaves no process behind.
 *
 * On a remote node the agent runs in the watcher process, which has its own session and is the parent of all ranks. The
 * parent of the watcher, the guard, forwards signals and waits. If the guard is killed, the watcher kills the ranks and
 * ends. If the watcher is killed, the kernel kills the ranks (parent-death signal). The processes that the ranks
 * started then become children of the guard, which is also a subreaper and kills them. A child of a rank can outlive
 * the job only if guard and watcher are killed at the same moment; the ranks themselves always end. On the machine of
 * the front process, the front process is the guard. */
#ifndef CL_GUARD_H
#define CL_GUARD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    sigset_t signals; /* the signals that the launcher handles itself; they are blocked */
    sigset_t before;  /* the original signal mask of this process, which the ranks get */
    int alive_fd;     /* used in the watcher: this descriptor becomes readable when the guard has ended */
} cl_guard;

/* Blocks the signals that the launcher handles itself: the signals that ask it to end, SIGCHLD, and the signals of
 * `forward` (names separated by commas), which are passed on to the ranks. A signal that is already ignored (nohup, a
 * shell's background job) remains ignored. Returns 0, or CL_CODE_USAGE for an unknown signal name. */
int cl_guard_take(cl_guard *guard, const char *forward);

/* Returns true if the number is that of a signal that asks the launcher to end. */
bool cl_guard_asks_end(int number);

/* Returns true if a signal that asks for the end asks again, so that the ranks are ended at once. *asked is the time of
 * the first such signal, in CLOCK_MONOTONIC nanoseconds; it is set if it is 0. Except for SIGINT and SIGQUIT, which a
 * person sends from a keyboard, a signal within a second is the same request, because some programs (timeout, for
 * example) send a signal to a process and again to its group. */
bool cl_guard_asks_again(int64_t *asked, int number, int64_t now);

/* Runs work(argument, guard) in the watcher process. In the guard process, returns the watcher's exit code, or
 * CL_CODE_SYSTEM with a message if the watcher cannot be started. */
int cl_guard_run(int (*work)(void *argument, const cl_guard *guard), void *argument);

#endif
