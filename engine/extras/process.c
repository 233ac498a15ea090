/* process.c - helper processes, and cs_pool_map, which divides calls among a pool of processes. */
#include "cspeed/process.h"
#include "base/misuse.h"

#include "base/clock.h"
#include "base/status.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct cs_process {
    pid_t pid;
    bool ended;
    int code; /* exit code, valid if `ended` is true */
};

/* ---- one process ------------------------------------------------------------------------------ */

cs_status cs_process_start(cs_process **process, int (*run)(void *argument), void *argument)
{
    CE_GIVEN(process);
    pid_t parent = getpid();
    *process = calloc(1, sizeof **process);
    if (!*process)
        return ce_fail(CS_NO_MEMORY, "no memory for a process");
    fflush(NULL); /* without fflush the child would write the buffered output again */
    pid_t pid = fork();
    if (pid < 0) {
        free(*process);
        *process = NULL;
        return ce_fail_errno(CS_IO_ERROR, errno, "a process could not be started");
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1); /* the parent died before prctl */
        int code = run(argument);
        fflush(NULL);
        _exit(code);
    }
    (*process)->pid = pid;
    return CS_OK;
}

int64_t cs_process_id(const cs_process *process)
{
    CE_GIVEN(process);
    return process->pid;
}

/* Returns true if the process has ended. With the flag WNOHANG the function does not wait. */
static bool reap(cs_process *process, int flags)
{
    int status = 0;
    pid_t found = 0;
    while (!process->ended && (found = waitpid(process->pid, &status, flags)) < 0 && errno == EINTR)
        ;
    if (process->ended || found == 0)
        return process->ended;
    if (found < 0)
        status = 1 << 8; /* other code has reaped the process, so its exit code is unknown */
    process->ended = true;
    process->code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    return true;
}

bool cs_process_join(cs_process *process, double seconds, int *code)
{
    CE_GIVEN(process);
    double until = ce_clock_seconds() + seconds;
    bool ended = reap(process, seconds < 0 ? 0 : WNOHANG);
    while (!ended && ce_clock_seconds() < until) {
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        ended = reap(process, WNOHANG);
    }
    if (ended && code)
        *code = process->code;
    return ended;
}

void cs_process_close(cs_process *process)
{
    if (!process)
        return;
    if (!reap(process, WNOHANG)) {
        kill(process->pid, SIGKILL);
        reap(process, 0);
    }
    free(process);
}

/* ---- a pool ----------------------------------------------------------------------------------- */

typedef struct {
    /* index of the next call that a worker will take; number of calls that have returned */
    _Atomic int64_t next, done;
    int64_t count;
    size_t result_bytes;
    void (*run)(void *argument, int64_t index, void *result);
    void *argument;
    _Alignas(64) char results[];
} pool;

static int work(void *argument)
{
    pool *shared = argument;
    for (int64_t i; (i = atomic_fetch_add(&shared->next, 1)) < shared->count;) {
        shared->run(shared->argument, i, shared->results + (size_t)i * shared->result_bytes);
        atomic_fetch_add(&shared->done, 1);
    }
    return 0;
}

/* Waits for the workers in any order, so that a worker that fails ends the others soon. */
static cs_status await_workers(cs_process **workers, int count)
{
    for (int running = count; running > 0;) {
        running = 0;
        for (int i = 0; i < count; i++) {
            int code = 0;
            running += !cs_process_join(workers[i], 0, &code);
            if (code)
                return ce_fail(CS_NO_PEER, "worker %d of a pool of %d ended with %s %d", i, count,
                               code < 0 ? "signal" : "exit code", abs(code));
        }
        nanosleep(&(struct timespec){ .tv_nsec = running ? 1000000 : 0 }, NULL);
    }
    return CS_OK;
}

cs_status cs_pool_map(int workers, int64_t count, void (*run)(void *argument, int64_t index, void *result),
                      void *argument, void *results, size_t result_bytes)
{
    if (workers < 1 || count < 0)
        return ce_fail(
            CS_MISUSE,
            "a pool of %d processes for %lld calls: at least 1 process is needed, and the number of calls must "
            "not be negative",
            workers, (long long)count);
    size_t bytes;
    bool huge = __builtin_mul_overflow((size_t)count, result_bytes, &bytes) || bytes > SIZE_MAX - sizeof(pool);
    bytes += sizeof(pool);
    errno = ENOMEM;
    pool *shared = huge ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return ce_fail_errno(CS_NO_MEMORY, errno, "no memory for %lld results of %zu bytes", (long long)count,
                             result_bytes);
    shared->count = count;
    shared->result_bytes = result_bytes;
    shared->run = run;
    shared->argument = argument;
    cs_process **list = calloc((size_t)workers, sizeof(cs_process *));
    cs_status status = list ? CS_OK : ce_fail(CS_NO_MEMORY, "no memory for %d processes", workers);
    int started = 0;
    for (; status == CS_OK && started < workers; started += status == CS_OK)
        status = cs_process_start(&list[started], work, shared);
    if (status == CS_OK)
        status = await_workers(list, workers);
    for (int i = 0; i < started; i++)
        cs_process_close(list[i]);
    if (status == CS_OK && atomic_load(&shared->done) != count)
        status = ce_fail(CS_NO_PEER, "a worker of a pool of %d ended before its work was done", workers);
    if (status == CS_OK && count > 0 && result_bytes > 0)
        memcpy(results, shared->results, (size_t)count * result_bytes);
    free(list);
    munmap(shared, bytes);
    return status;
}
