/* local.c - starts ranks as processes of this machine. */
#include "node/local.h"

#include "ground/codes.h"
#include "ground/descriptors.h"
#include "node/leftover.h"

#include "base/must.h"
#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The message that a child process writes to a pipe if it fails before exec or in exec. */
typedef struct {
    int rank, reason;
} report;

static void set_number(const char *name, int number)
{
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    setenv(name, text, 1);
}

/* Sets the rank's environment. The order's variables override those of the agent, and the rank's own variables override
 * all others. One exception: OMP_NUM_THREADS is set only if neither the agent nor the order sets it. */
static void set_environment(const cl_local_job *job, int local, int beat_fd, int key_fd)
{
    cl_variable variables[CL_RANKS_VARIABLES];
    for (char **variable = job->order->environment; *variable; variable++) {
        char *equals = strchr(*variable, '=');
        *equals = '\0'; /* changes the string in this child process only, not in its parent process */
        setenv(*variable, equals + 1, 1);
    }
    for (const char *const *name = cl_ranks_forgotten; *name; name++)
        unsetenv(*name);
    int count = cl_ranks_variables(job->order, job->binding, local, variables);
    for (int i = 0; i < count; i++)
        setenv(variables[i].name, variables[i].value, strcmp(variables[i].name, "OMP_NUM_THREADS") != 0);
    char mark[CL_LEFTOVER_MARK];
    if (cl_leftover_mark(getppid(), mark))
        setenv("CSPEED_AGENT", mark, 1);
    else
        unsetenv("CSPEED_AGENT");
    set_number("CSPEED_BEAT_FD", beat_fd);
    if (key_fd >= 0)
        set_number("CSPEED_KEY_FD", key_fd);
    if (job->master_fd >= 0 && job->order->first_rank + local == 0)
        set_number("CSPEED_MASTER_FD", job->master_fd);
}

static bool clear_cloexec(int fd)
{
    return fd < 0 || fcntl(fd, F_SETFD, 0) == 0;
}

/* Returns the program's arguments, malloc'ed. If the order names a flag for the local rank,
 * FLAG=N follows them, where N is the local rank. */
static char **arguments_of(const cl_order *order, int local)
{
    int count = 0;
    while (order->arguments[count])
        count++;
    char **list = ce_must_alloc(((size_t)count + 2) * sizeof *list);
    memcpy(list, order->arguments, (size_t)count * sizeof *list);
    if (*order->local_rank_flag)
        list[count] = ce_must_print("%s=%d", order->local_rank_flag, local);
    return list;
}

/* Returns a descriptor from which the rank reads the job's key (32 bytes); -1: there is no key. */
static int make_key(const unsigned char *key)
{
    int fd = key ? memfd_create("cspeed-key", MFD_CLOEXEC) : -1;
    if (fd >= 0 && (write(fd, key, CE_MAC_BYTES) != CE_MAC_BYTES || lseek(fd, 0, SEEK_SET) != 0))
        _exit(CL_CODE_SYSTEM);
    return fd;
}

/* Replaces this child process by the program of the rank. Returns only on failure. */
static void exec_rank(const cl_local_job *job, int local, pid_t parent, const int fds[3], int beat_fd)
{
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* the parent process had already ended when PR_SET_PDEATHSIG took effect */
        _exit(CL_CODE_SYSTEM);
    const cpu_set_t *cpus = &job->binding->list[local].cpus;
    if (job->binding->bound && sched_setaffinity(0, sizeof *cpus, cpus) < 0)
        return;
    for (int fd = 0; fd < 3; fd++)
        if (dup2(fds[fd], fd) < 0)
            return;
    int key_fd = make_key(job->key);
    char **arguments = arguments_of(job->order, local);
    if (!clear_cloexec(beat_fd) || !clear_cloexec(key_fd))
        return;
    if (job->order->first_rank + local == 0 && !clear_cloexec(job->master_fd))
        return;
    set_environment(job, local, beat_fd, key_fd);
    signal(SIGPIPE, SIG_DFL);
    cl_descriptors_restore();
    sigprocmask(SIG_SETMASK, job->mask, NULL);
    execv(job->program, arguments);
}

static int start_rank(const cl_local_job *job, int local, int report_fd, cl_process *process)
{
    int output[2], error[2], rank = job->order->first_rank + local;
    int empty = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int beat = memfd_create("cspeed-beat", MFD_CLOEXEC);
    if (empty < 0 || beat < 0 || ftruncate(beat, CE_BEAT_BYTES) < 0 || pipe2(output, O_CLOEXEC) < 0 ||
        pipe2(error, O_CLOEXEC) < 0)
        return cl_codes_fail(CL_CODE_SYSTEM, "rank %d: no pipes can be opened, or memory ran out: %s", rank,
                             ce_reason(errno));
    void *page = mmap(NULL, CE_BEAT_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, beat, 0);
    pid_t parent = getpid();
    process->beat = page == MAP_FAILED ? NULL : page;
    process->pid = process->beat ? fork() : -1;
    if (process->pid < 0)
        return cl_codes_fail(CL_CODE_SYSTEM, "rank %d: its process cannot be started: %s", rank, strerror(errno));
    if (process->pid == 0) {
        exec_rank(job, local, parent, (int[]){ empty, output[1], error[1] }, beat);
        report failure = { rank, errno };
        ssize_t written = write(report_fd, &failure, sizeof failure);
        _exit(written > 0 ? CL_CODE_NOT_EXECUTABLE : CL_CODE_SYSTEM);
    }
    process->alive = true;
    process->beat_fd = beat;
    int theirs[] = { empty, output[1], error[1] };
    for (int i = 0; i < 3; i++)
        close(theirs[i]);
    process->outputs[0] = output[0];
    process->outputs[1] = error[0];
    for (int i = 0; i < 2; i++)
        fcntl(process->outputs[i], F_SETFL, O_NONBLOCK);
    return 0;
}

static int start_all(const cl_local_job *job, int reports[2], cl_process *processes)
{
    for (int local = 0; local < job->order->rank_count; local++) {
        int code = start_rank(job, local, reports[1], &processes[local]);
        if (code)
            return code;
    }
    close(reports[1]);
    reports[1] = -1;
    report failure;
    if (read(reports[0], &failure, sizeof failure) != (ssize_t)sizeof failure)
        return 0; /* No process wrote an error, so execve succeeded in all of them. */
    return cl_codes_fail(CL_CODE_NOT_EXECUTABLE, "%s: cannot be executed: %s%s", job->program, strerror(failure.reason),
                         failure.reason == ENOEXEC ? "; a script needs a first line such as #!/bin/sh" : "");
}

int cl_local_start(const cl_local_job *job, cl_process *processes)
{
    int reports[2];
    if (pipe2(reports, O_CLOEXEC) < 0)
        return cl_codes_fail(CL_CODE_SYSTEM, "no pipe can be opened: %s", ce_reason(errno));
    int code = start_all(job, reports, processes);
    for (int local = 0; code && local < job->order->rank_count; local++) {
        if (processes[local].alive) {
            kill(processes[local].pid, SIGKILL);
            waitpid(processes[local].pid, NULL, 0);
            processes[local].alive = false;
        }
        cl_local_close(&processes[local]);
    }
    close(reports[0]);
    if (reports[1] >= 0)
        close(reports[1]);
    return code;
}

void cl_local_close(cl_process *process)
{
    for (int i = 0; i < 2; i++)
        if (process->outputs[i] >= 0)
            close(process->outputs[i]);
    if (process->beat)
        munmap(process->beat, CE_BEAT_BYTES);
    if (process->beat_fd >= 0)
        close(process->beat_fd);
    *process = (cl_process){ .outputs = { -1, -1 }, .beat_fd = -1 };
}
