/* on_end.c - runs the command of --on_end when a job has ended. */
#include "front/front.h"

#include "front/failure.h"
#include "ground/codes.h"
#include "ground/descriptors.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define MILLISECOND INT64_C(1000000)

enum { MOST_SECONDS = 60 };

/* Becomes the command, in a process group of its own, so that all of its processes can be killed. CSPEED_ON_END is
 * removed, so that a job that the command starts does not run the command too. */
_Noreturn static void become(const cl_front *front, int code)
{
    char text[PATH_MAX + 16];
    snprintf(text, sizeof text, "%d", code);
    setenv("CSPEED_JOB", front->plan->id, 1);
    setenv("CSPEED_EXIT_CODE", text, 1);
    setenv("CSPEED_WHY", cl_failure_why(front), 1);
    snprintf(text, sizeof text, "%s/result.json", front->run_dir);
    setenv("CSPEED_RESULT", *front->run_dir ? text : "", 1);
    unsetenv("CSPEED_ON_END");
    int empty = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(empty, STDIN_FILENO);
    setpgid(0, 0);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &front->guard->before, NULL);
    cl_descriptors_restore();
    execl("/bin/sh", "sh", "-c", front->options->on_end, (char *)NULL);
    _exit(CL_CODE_NOT_EXECUTABLE);
}

/* Waits until the command ends. Returns false if its time is over, or if a signal asks the launcher to end. */
static bool await_end(pid_t command, int signal_fd)
{
    int64_t deadline = ce_clock_now() + MOST_SECONDS * 1000 * MILLISECOND;
    int command_fd = pidfd_open(command, 0);
    struct pollfd polled[] = { { .fd = command_fd, .events = POLLIN }, { .fd = signal_fd, .events = POLLIN } };
    bool ended = false, asked = false;
    for (int64_t left; !ended && !asked && (left = deadline - ce_clock_now()) > 0;) {
        struct signalfd_siginfo received;
        poll(polled, 2, (int)(left / MILLISECOND) + 1);
        ended = polled[0].revents != 0;
        while (read(signal_fd, &received, sizeof received) == (ssize_t)sizeof received)
            asked |= cl_guard_asks_end((int)received.ssi_signo);
    }
    close(command_fd);
    return ended;
}

void cl_on_end_run(const cl_front *front, int code, int signal_fd)
{
    int status = 0;
    if (!front->options->on_end)
        return;
    pid_t command = fork();
    if (command == 0)
        become(front, code);
    if (command > 0)
        setpgid(command, command); /* both processes call setpgid, because either may run first */
    bool ended = command > 0 && await_end(command, signal_fd);
    if (command > 0 && !ended)
        kill(-command, SIGKILL);
    if (command > 0)
        waitpid(command, &status, 0);
    if (!ended)
        fprintf(stderr, "cspeed: warning: the command of --on_end %s; the exit code of the job stays %d\n",
                command < 0 ? "could not be started" : "was killed: it has 60 s, and a signal ends it", code);
    else if (status)
        fprintf(stderr, "cspeed: warning: the command of --on_end ended with exit code %d; that of the job stays %d\n",
                cl_codes_of_status(status), code);
}
