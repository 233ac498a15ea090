/* guard.c - two processes that supervise each other, so that no ranks remain when one of the two is killed. */
#include "node/guard.h"

#include "ground/codes.h"
#include "node/sweep.h"

#include "base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void take(cl_guard *guard, int number)
{
    struct sigaction now;
    if (sigaction(number, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
        sigaddset(&guard->signals, number);
}

int cl_guard_take(cl_guard *guard, const char *forward)
{
    static const int wanted[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD };
    char names[256];
    *guard = (cl_guard){ .alive_fd = -1 };
    sigemptyset(&guard->signals);
    signal(SIGCHLD, SIG_DFL);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        take(guard, wanted[i]);
    snprintf(names, sizeof names, "%s", forward);
    for (char *next, *name = strtok_r(names, ", ", &next); name; name = strtok_r(NULL, ", ", &next)) {
        int number = cl_codes_signal_number(name);
        if (number == 0)
            return cl_codes_fail(CL_CODE_USAGE, "--forward: \"%s\" is not a signal", name);
        take(guard, number);
    }
    sigprocmask(SIG_BLOCK, &guard->signals, &guard->before);
    return 0;
}

bool cl_guard_asks_end(int number)
{
    return number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;
}

bool cl_guard_asks_again(int64_t *asked, int number, int64_t now)
{
    bool again = *asked && (number == SIGINT || number == SIGQUIT || now - *asked >= CE_SECOND);
    *asked = *asked ? *asked : now;
    return again;
}

static int watch(int (*work)(void *, const cl_guard *), void *argument, cl_guard *guard, int guard_fd)
{
    setsid();
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    guard->alive_fd = guard_fd;
    return work(argument, guard);
}

/* Kills the remaining processes of the job. Called after the watcher process was killed. */
static int kill_remaining(int wait_status)
{
    enum { SECONDS = 10 };
    int left = cl_sweep_kill(SECONDS, NULL);
    fprintf(stderr, "cspeed: the agent of this node was killed by %s; its ranks have been ended",
            cl_codes_signal_name(WTERMSIG(wait_status)));
    if (left)
        fprintf(stderr, ", and %d of their processes could not be ended", left);
    fputc('\n', stderr);
    return cl_codes_of_status(wait_status);
}

/* Forwards signals to the watcher process and waits until it ends. */
static int supervise(const cl_guard *guard, pid_t watcher)
{
    for (;;) {
        int number = sigwaitinfo(&guard->signals, NULL);
        if (number > 0 && number != SIGCHLD)
            kill(watcher, number);
        int status;
        pid_t ended;
        while ((ended = waitpid(-1, &status, WNOHANG)) > 0)
            if (ended == watcher)
                return WIFSIGNALED(status) ? kill_remaining(status) : WEXITSTATUS(status);
    }
}

int cl_guard_run(int (*work)(void *argument, const cl_guard *guard), void *argument)
{
    cl_guard guard;
    int guard_fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (guard_fd < 0)
        return cl_codes_fail(CL_CODE_SYSTEM, "no pidfd (Linux 5.3 or later is needed): %s", strerror(errno));
    cl_guard_take(&guard, "USR1,USR2");
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    fflush(NULL);
    pid_t watcher = fork();
    if (watcher < 0)
        return cl_codes_fail(CL_CODE_SYSTEM, "the process that watches the agent cannot be started: %s",
                             strerror(errno));
    if (watcher == 0)
        _exit(watch(work, argument, &guard, guard_fd));
    close(guard_fd);
    return supervise(&guard, watcher);
}
