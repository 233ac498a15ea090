/* spawn.c - cs_spawn: runs a world of ranks as child processes of this process, and waits for all of them.
 *
 * A rank that fails writes its message to memory that it shares with the parent. All children are killed when the
 * parent ends, and when one child fails. */
#include "cspeed/cspeed.h"
#include "base/log.h"
#include "base/status.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SENTENCE_BYTES = 2048 };

typedef struct {
    pid_t pid;                     /* process id; 0 if the child does not run */
    int status;                    /* status of the ended child, as waitpid returns it */
    char sentence[SENTENCE_BYTES]; /* the error message, which the child writes */
} child;

/* Listens on a free port. Rank 0 inherits the listening socket, so no other process can take the port before the
 * rendezvous. */
static cs_status listen_somewhere(int *listener, int *port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t length = sizeof address;
    *listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*listener < 0 || bind(*listener, (struct sockaddr *)&address, length) < 0 || listen(*listener, SOMAXCONN) < 0 ||
        getsockname(*listener, (struct sockaddr *)&address, &length) < 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "no free port for the rendezvous of the ranks");
    *port = ntohs(address.sin_port);
    return CS_OK;
}

static void set_number(const char *name, long long value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", value);
    setenv(name, text, 1);
}

static void set_world(int rank, int ranks, int listener, int port, const char *job)
{
    set_number("RANK", rank);
    set_number("WORLD_SIZE", ranks);
    set_number("LOCAL_RANK", rank);
    set_number("LOCAL_WORLD_SIZE", ranks);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    set_number("MASTER_PORT", port);
    setenv("CSPEED_JOB_ID", job, 1);
    unsetenv("CSPEED_MASTER_FD");
    if (rank == 0)
        set_number("CSPEED_MASTER_FD", listener);
    else
        close(listener);
    unsetenv("CSPEED_BEAT_FD"); /* the descriptor of CSPEED_BEAT_FD belongs to the parent */
    unsetenv("CSPEED_MESH");
    unsetenv("CSPEED_BOUND"); /* the ranks share this process's cores */
}

static _Noreturn void be_rank(child *self, int (*run)(void *), void *argument)
{
    int code = run(argument);
    if (code)
        snprintf(self->sentence, sizeof self->sentence, "%s", cs_error());
    fflush(NULL);
    _exit(code == 0 ? 0 : code & 0xff ? code & 0xff : 1);
}

static cs_status start(child *children, int ranks, int listener, int port, int (*run)(void *), void *argument)
{
    struct timespec now;
    char job[64];
    pid_t parent = getpid();
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(job, sizeof job, "spawn-%d-%lld", (int)parent, (long long)now.tv_sec * 1000000000 + now.tv_nsec);
    fflush(NULL); /* without fflush each child would write the buffered output again */
    for (int i = 0; i < ranks; i++) {
        pid_t pid = fork();
        if (pid < 0)
            return ce_fail_errno(CS_IO_ERROR, errno, "rank %d of %d could not be started", i, ranks);
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                _exit(1); /* the parent died before prctl */
            ce_clear_error();
            ce_log_open(CE_LOG_INFO, i);
            set_world(i, ranks, listener, port, job);
            be_rank(&children[i], run, argument);
        }
        children[i].pid = pid;
    }
    return CS_OK;
}

static void end_all(child *children, int ranks)
{
    for (int i = 0; i < ranks; i++)
        if (children[i].pid)
            kill(children[i].pid, SIGKILL);
    for (int i = 0; i < ranks; i++) {
        while (children[i].pid && waitpid(children[i].pid, &children[i].status, 0) < 0 && errno == EINTR)
            ;
        children[i].pid = 0;
    }
}

/* Collects children that have ended. Returns the index of a child that failed, or -1. CS_NO_PEER is a consequence of
 * another failure: if several children failed, the result is a child with another status. */
static int reap(child *children, int ranks, int *running)
{
    int first = -1;
    bool first_lost = false;
    for (int i = 0; i < ranks; i++) {
        pid_t ended = children[i].pid ? waitpid(children[i].pid, &children[i].status, WNOHANG) : 0;
        if (ended == 0)
            continue;
        if (ended < 0) /* other code has reaped the child; its exit status is unknown and counts as a failure */
            children[i].status = 1 << 8;
        children[i].pid = 0;
        (*running)--;
        bool lost = WIFEXITED(children[i].status) && WEXITSTATUS(children[i].status) == cs_exit_code(CS_NO_PEER);
        if (children[i].status != 0 && (first < 0 || (first_lost && !lost))) {
            first = i;
            first_lost = lost;
        }
    }
    return first;
}

static cs_status blame(const child *guilty, int rank)
{
    static const cs_status known[] = { CS_BAD_CONFIG, CS_BAD_FILE, CS_NOT_FOUND, CS_NO_DEVICE,
                                       CS_NO_PEER,    CS_DISAGREE, CS_MISUSE };
    if (WIFSIGNALED(guilty->status))
        return ce_fail(CS_NO_PEER, "rank %d was ended by signal %d (%s)", rank, WTERMSIG(guilty->status),
                       strsignal(WTERMSIG(guilty->status)));
    int code = WEXITSTATUS(guilty->status);
    cs_status status = CS_NO_PEER;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (cs_exit_code(known[i]) == code)
            status = known[i];
    return ce_fail(status, "rank %d ended with code %d%s%s", rank, code, guilty->sentence[0] ? ": " : "",
                   guilty->sentence);
}

static cs_status wait_for_all(child *children, int ranks)
{
    for (int running = ranks; running > 0;) {
        int guilty = reap(children, ranks, &running);
        if (guilty >= 0)
            return blame(&children[guilty], guilty);
        if (running > 0)
            nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    return CS_OK;
}

cs_status cs_spawn(int ranks, int (*run)(void *argument), void *argument)
{
    if (ranks < 1)
        return ce_fail(CS_BAD_CONFIG, "spawn: the number of ranks must be at least 1, not %d", ranks);
    size_t bytes = (size_t)ranks * sizeof(child);
    child *children = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (children == MAP_FAILED)
        return ce_fail_errno(CS_NO_MEMORY, errno, "no memory for %d ranks", ranks);
    int listener, port = 0;
    cs_status status = listen_somewhere(&listener, &port);
    if (status == CS_OK)
        status = start(children, ranks, listener, port, run, argument);
    if (listener >= 0)
        close(listener);
    if (status == CS_OK)
        status = wait_for_all(children, ranks);
    end_all(children, ranks);
    munmap(children, bytes);
    return status;
}
