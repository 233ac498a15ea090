/* local.c - ranks as processes of this machine. */
#include "local.h"

#include "codes.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a child that could not become the program leaves in the report pipe. */
typedef struct {
    int rank, reason;
} report;

enum { BEAT_BYTES = 4096 };

static void set_environment(const cs_job *job, int rank, int beat_fd)
{
    cs_variable variables[CS_RANKS_VARIABLES];
    char        number[16];
    unsetenv("CSPEED_TERMINAL"); /* of a cspeed around this one */
    int count = cs_ranks_variables(job, rank, variables);
    for (int i = 0; i < count; i++)
        setenv(variables[i].name, variables[i].value, 1);
    snprintf(number, sizeof number, "%d", beat_fd);
    setenv("CSPEED_BEAT_FD", number, 1);
}

/* Makes this child the rank: returns only when it cannot. */
static void become(const cs_job *job, int rank, pid_t parent, const int fds[3], int beat_fd, const sigset_t *mask)
{
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it ended before the line above */
        _exit(CS_CODE_SYSTEM);
    if (job->bound && sched_setaffinity(0, sizeof job->seats[rank].cpus, &job->seats[rank].cpus) < 0)
        return;
    for (int fd = 0; fd < 3; fd++)
        if (dup2(fds[fd], fd) < 0)
            return;
    if (fcntl(beat_fd, F_SETFD, 0) < 0)
        return;
    set_environment(job, rank, beat_fd);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execv(job->program, job->arguments);
}

static int start_rank(const cs_job *job, int rank, const sigset_t *mask, int report_fd, cs_process *process)
{
    int output[2], error[2];
    int empty = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int beat  = memfd_create("cspeed-beat", MFD_CLOEXEC);
    if (empty < 0 || beat < 0 || ftruncate(beat, BEAT_BYTES) < 0 || pipe2(output, O_CLOEXEC) < 0 ||
        pipe2(error, O_CLOEXEC) < 0)
        return cs_codes_fail(CS_CODE_SYSTEM, "rank %d: no pipes or memory for it: %s", rank, strerror(errno));
    void *page    = mmap(NULL, BEAT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, beat, 0);
    pid_t parent  = getpid();
    process->beat = page == MAP_FAILED ? NULL : page;
    process->pid  = process->beat ? fork() : -1;
    if (process->pid < 0)
        return cs_codes_fail(CS_CODE_SYSTEM, "rank %d: no process for it: %s", rank, strerror(errno));
    if (process->pid == 0) {
        become(job, rank, parent, (int[]){ empty, output[1], error[1] }, beat, mask);
        report  failure = { rank, errno };
        ssize_t written = write(report_fd, &failure, sizeof failure);
        _exit(written > 0 ? CS_CODE_NOT_EXECUTABLE : CS_CODE_SYSTEM);
    }
    process->alive = true;
    int theirs[]   = { empty, beat, output[1], error[1] };
    for (int i = 0; i < 4; i++)
        close(theirs[i]);
    process->outputs[0] = output[0];
    process->outputs[1] = error[0];
    for (int i = 0; i < 2; i++)
        fcntl(process->outputs[i], F_SETFL, O_NONBLOCK);
    return 0;
}

static int start_all(const cs_job *job, const sigset_t *mask, int reports[2], cs_process *processes)
{
    for (int rank = 0; rank < job->rank_count; rank++) {
        int code = start_rank(job, rank, mask, reports[1], &processes[rank]);
        if (code)
            return code;
    }
    close(reports[1]);
    reports[1] = -1;
    report failure;
    if (read(reports[0], &failure, sizeof failure) != (ssize_t)sizeof failure)
        return 0; /* the end of the pipe: every child has become the program */
    return cs_codes_fail(CS_CODE_NOT_EXECUTABLE, "%s: cannot be executed: %s%s", job->program, strerror(failure.reason),
                         failure.reason == ENOEXEC ? "; a script needs a first line such as #!/bin/sh" : "");
}

int cs_local_start(const cs_job *job, const sigset_t *mask, cs_process *processes)
{
    int reports[2];
    if (pipe2(reports, O_CLOEXEC) < 0)
        return cs_codes_fail(CS_CODE_SYSTEM, "no pipe: %s", strerror(errno));
    int code = start_all(job, mask, reports, processes);
    for (int rank = 0; code && rank < job->rank_count; rank++)
        if (processes[rank].alive) {
            kill(processes[rank].pid, SIGKILL);
            waitpid(processes[rank].pid, NULL, 0);
            processes[rank].alive = false;
        }
    close(reports[0]);
    if (reports[1] >= 0)
        close(reports[1]);
    return code;
}
