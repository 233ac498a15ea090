/* failure_hint.c - hints for known causes of failure. */
#include "front/failure.h"

#include "ground/codes.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

bool cl_failure_hint_is_oom(const cl_link_end *end)
{
    return WIFSIGNALED(end->status) && WTERMSIG(end->status) == SIGKILL && end->oom_from >= 0 &&
           end->oom_to > end->oom_from;
}

static const char oom[] =
    "the host's memory ran out: fewer ranks a host, a smaller micro-batch, recomputation, or a higher "
    "ZeRO stage";

/* Hints that depend on the text at the end of the rank's stderr; the first entry that matches is used. */
static const struct {
    const char *word, *sentence;
} words[] = {
    { "CUDA out of memory", "the GPU's memory ran out: a smaller micro-batch, recomputation, or a higher ZeRO stage" },
    { "out of memory", "memory ran out: a smaller micro-batch, recomputation, or a higher ZeRO stage" },
    { "NCCL", "NCCL_DEBUG=INFO (--env NCCL_DEBUG=INFO) tells more; NCCL_SOCKET_IFNAME chooses the interface" },
    { "Address already in use", "another program has the port: leave out --master_port, or choose another" },
    { "No space left on device", "a disk or /dev/shm is full" },
    { "Too many open files", "raise the limit of open files: `ulimit -n`" },
    { "cannot open shared object", "a library is not there on that host: --env LD_LIBRARY_PATH sends yours" },
    { "Permission denied", "the user on that host may not read or write what is named above" },
};

/* Hints that depend on the exit code, as a shell reports it. */
static const struct {
    int code;
    const char *sentence;
} codes[] = {
    { 128 + SIGKILL, "something outside the job killed it: a memory limit of the container or scheduler, or a person; "
                     "`dmesg` on that host may tell" },
    { 128 + SIGSEGV, "a fault in native code: allow core dumps (`ulimit -c unlimited`) and open the core in gdb" },
    { 128 + SIGBUS, "a mapped file or /dev/shm ran out of space, or a file was cut while it was mapped" },
    { 128 + SIGILL,
      "the program or a library was built for another CPU: `cspeed report` on that host says what its CPU has" },
    { 128 + SIGABRT, "an assertion failed: its message is in the lines above" },
    { 128 + SIGFPE, "an integer was divided by zero" },
    { 128 + SIGXCPU, "a limit of CPU time: `ulimit -t`" },
    { CL_CODE_PEER, "ranks lost each other and none of them says why: look at the network, and at the hosts" },
    { CL_CODE_NOT_FOUND, "the program does not exist on that host, or one that it starts does not" },
    { CL_CODE_NOT_EXECUTABLE, "the program lacks the right to be executed, or is for another machine" },
};

const char *cl_failure_hint_text(const cl_front *front)
{
    if (!cl_failure_is_rank(front))
        return front->first_node >= 0 && front->code == CL_CODE_PEER
                   ? "see whether the host is up, and whether a scheduler took it away"
                   : "";
    const cl_worker *first = &front->workers[front->first];
    if (cl_failure_hint_is_oom(&first->end))
        return oom;
    for (size_t i = 0; first->tail && i < sizeof words / sizeof *words; i++)
        if (strstr(first->tail, words[i].word))
            return words[i].sentence;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].code == cl_codes_of_status(first->end.status))
            return codes[i].sentence;
    return "";
}
