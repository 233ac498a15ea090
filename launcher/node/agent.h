/* agent.h - the agent of a node: starts its ranks, monitors them, ends them, and reports to the front process.
 *
 * An agent serves one job in all of its attempts. The messages of an attempt are, in this order: ORDER, READY, START,
 * one STARTED and one ENDED for each rank, SWEPT. The agent makes only two decisions by itself. First, it kills all
 * ranks if the guard process has ended, or if the front process is lost: the link is closed, or nothing has arrived
 * over the link for too long. Second, it stops all ranks if a signal asks the agent itself to end.
 *
 *     idle      there is no order, or the attempt of the previous order is over
 *     ready     the program has been found, and the cores are assigned
 *     running   the ranks are running
 *     stopping  every rank got the stop signal, and has the grace period to end
 *     killing   SIGKILL was sent to all descendants
 *     sweeping  the ranks have ended; processes that they left behind are being ended */
#ifndef CL_AGENT_H
#define CL_AGENT_H

#include "node/guard.h"
#include "wire/link.h"
#include "node/local.h"
#include "node/logs.h"

typedef enum {
    CL_AGENT_IDLE,
    CL_AGENT_READY,
    CL_AGENT_RUNNING,
    CL_AGENT_STOPPING,
    CL_AGENT_KILLING,
    CL_AGENT_SWEEPING
} cl_agent_phase;

/* ---- tail.c: the last bytes of an output stream in a ring buffer, for the message about a failure ---- */

enum { CL_TAIL_BYTES = 16 << 10 };

typedef struct {
    char ring[CL_TAIL_BYTES];
    uint64_t count; /* number of bytes appended so far */
} cl_tail;

/* Appends bytes of the output stream. */
void cl_tail_feed(cl_tail *tail, const char *bytes, size_t count);

/* Copies the last lines of the stream, at most `lines`, and returns their length in bytes. */
size_t cl_tail_copy(const cl_tail *tail, int lines, char text[CL_TAIL_BYTES]);

/* ---- agent.c ---- */

typedef struct {
    cl_link link;
    const cl_guard *guard;
    int signal_fd;
    bool abandoned; /* true: the front process is lost, or the guard process has ended */
    bool finished;  /* true: the front process has sent FINISH */
    /* bytes of output that were sent, and that the front process has not yet reported as shown (CREDIT) */
    uint64_t unshown;
    int64_t signaled; /* time when a signal first asked the agent to end, in CLOCK_MONOTONIC nanoseconds; 0: none did */
    int64_t beats_at; /* time when the next BEATS message is sent, in CLOCK_MONOTONIC nanoseconds */

    /* ---- the state of the current attempt ---- */
    cl_agent_phase phase;
    int64_t deadline; /* time when the phase ends, in CLOCK_MONOTONIC nanoseconds; INT64_MAX: there is no limit */
    cl_order order;
    cl_binding binding;
    char program[PATH_MAX];
    unsigned char key[CE_MAC_BYTES];
    bool keyed;
    int master_fd;         /* the socket that reserves MASTER_PORT; -1: this node reserves no port */
    char interface[64];    /* address of the network interface that order.master_if names; "": no interface was named */
    cl_process *processes; /* [order.rank_count] processes of the ranks */
    cl_log_file *logs;     /* [2 * order.rank_count] log files, for stdout and stderr */
    cl_tail *tails;        /* [order.rank_count]: for each rank, the last lines of its stderr */
    bool log_full;         /* a log file could not be written, and the user was told this */
    int alive;
    int64_t oom_kills; /* number of OOM kills on the node when the attempt began */
} cl_agent;

/* Sends HELLO, and serves the front process at the other end of these descriptors until it sends FINISH or is lost.
 * Returns the exit code. `key` is the key of a sealed link, or NULL. */
int cl_agent_serve(int in_fd, int out_fd, const unsigned char *key, const cl_guard *guard);

/* Starts an agent as a child process that is connected by a socket pair, and opens the link to it. The child calls
 * release(owner), which closes the descriptors that the agent must not keep open. Returns 0 or CL_CODE_SYSTEM. */
int cl_agent_start(pid_t *pid, cl_link *link, const cl_guard *guard, void (*release)(void *owner), void *owner);

/* ---- agent_messages.c: messages to the front process ---- */
void cl_agent_send_hello(cl_agent *agent);
void cl_agent_send_failed(cl_agent *agent, int code); /* reports a failure with the message of cs_error() */
/* Sends the heartbeat records of all ranks of the node. In this function and in those below, `now` is in
 * CLOCK_MONOTONIC nanoseconds. */
void cl_agent_send_beats(cl_agent *agent, int64_t now);
/* Reports the end of a rank, with the last lines of its stderr. `local` is the index of the rank on this node. */
void cl_agent_send_ended(cl_agent *agent, int local, int64_t now);
/* Sends the C stack of a rank to the front process. `rank` is its number in the job. If that rank runs on another node,
 * nothing is sent. */
void cl_agent_send_stack(cl_agent *agent, int rank);

/* ---- stage.c: the files of --stage ---- */
/* Writes the file of a CL_LINK_STAGE message. Returns 0, or CL_CODE_LOG, CL_CODE_NO_FILE or CL_CODE_DISAGREE. */
int cl_stage_write(const cl_message *message);

/* ---- stack.c: the C stack of a rank that makes no progress ---- */
/* Returns malloc'ed text: the C stack that the rank itself writes (base/beat.h). The function waits at most 200 ms for
 * it. If the rank has not answered by then, for example because it is suspended, the text instead has one line for each
 * thread of the rank: its state, and the kernel function in which it waits (/proc/PID/task/THREAD/wchan). */
char *cl_stack_text(cl_process *process);

/* ---- venv.c: the environment that the script of --venv_script sets ---- */
/* Runs the order's script once in a shell (sh) of this node, and copies the variables that the script has set into the
 * environment of this process. The ranks inherit these variables; the order's own variables override them. Returns 0,
 * or CL_CODE_NO_FILE, CL_CODE_FILE or CL_CODE_SYSTEM with a message. */
int cl_venv_read(cl_order *order);

/* ---- prepare.c: prepares the node for an order ---- */
/* Decodes an order and prepares its attempt. Returns 0, or an exit code with a message. Call cl_prepare_undo in either
 * case. */
int cl_prepare(cl_agent *agent, const char *bytes, size_t length);
/* Releases everything that belongs to the attempt: log files, outputs, the master port, the order and the key. */
void cl_prepare_undo(cl_agent *agent);

#endif
