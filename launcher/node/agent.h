/* agent.h - The agent of a node: starts its ranks, monitors them, ends them, and reports to the front.
 *
 * An agent serves one job for all of its attempts: ORDER, READY, START, STARTED ..., ENDED ..., SWEPT. It makes only
 * one decision by itself: if the front is lost (its end of the link is closed, or it has been silent for too long),
 * the agent kills all ranks.
 *
 *     idle      there is no order, or the last one is finished
 *     ready     the program is found and the cores are assigned
 *     running   ranks are running
 *     stopping  every rank got the stop signal and has the grace period to end
 *     killing   SIGKILL was sent to all descendants
 *     sweeping  the ranks have ended; processes that they left behind are being ended */
#ifndef CL_AGENT_H
#define CL_AGENT_H

#include "node/guard.h"
#include "wire/link.h"
#include "node/local.h"
#include "node/logs.h"
#include "node/tail.h"

typedef enum {
    CL_AGENT_IDLE,
    CL_AGENT_READY,
    CL_AGENT_RUNNING,
    CL_AGENT_STOPPING,
    CL_AGENT_KILLING,
    CL_AGENT_SWEEPING
} cl_agent_phase;

typedef struct {
    cl_link link;
    const cl_guard *guard;
    int signal_fd;
    bool abandoned;   /* the front is lost */
    bool finished;    /* the front sent FINISH */
    uint64_t unshown; /* bytes of output that were sent and not yet credited by the front */
    int64_t beats_at; /* time of the next BEATS message */

    /* state of this attempt */
    cl_agent_phase phase;
    int64_t deadline; /* end of the phase; INT64_MAX: none */
    cl_order order;
    cl_binding binding;
    char program[PATH_MAX];
    unsigned char key[CS_MAC_BYTES];
    bool keyed;
    int master_fd;         /* socket that reserves MASTER_PORT; -1: none */
    char interface[64];    /* address of the interface order.master_if; "": none */
    cl_process *processes; /* [order.rank_count] */
    cl_log_file *logs;     /* [2 * order.rank_count] */
    cl_tail *tails;        /* [order.rank_count], the last lines of stderr */
    bool log_full;         /* a log file could not be written, and the user was told */
    int alive;
    int64_t oom_kills; /* OOM kills on the node before the attempt */
} cl_agent;

/* Sends HELLO and serves the front at the other end of these descriptors until it sends FINISH or is lost. Returns
 * the exit code. `key` is the key of the sealed link, or NULL. */
int cl_agent_serve(int in_fd, int out_fd, const unsigned char *key, const cl_guard *guard);

/* ---- agent_messages.c: messages to the front ---- */
void cl_agent_send_hello(cl_agent *agent);
void cl_agent_send_failed(cl_agent *agent, int code); /* with the message of cs_error() */
/* Sends the heartbeat records of all ranks of the node. `now` is in CLOCK_MONOTONIC nanoseconds here and below. */
void cl_agent_send_beats(cl_agent *agent, int64_t now);
/* Sends the end of the rank with this index on the node, with the last lines of its stderr. */
void cl_agent_send_ended(cl_agent *agent, int local, int64_t now);
/* Asks a rank of this node, by its number in the job, for a checkpoint; it sends nothing. */
void cl_agent_ask_save(cl_agent *agent, int rank);
/* Sends the C stack of a rank. `rank` is its number in the job; if that rank runs on another node, nothing is sent. */
void cl_agent_send_stack(cl_agent *agent, int rank);

/* ---- prepare.c: from an order to READY ---- */
/* Decodes an order and prepares its attempt. Returns 0, or a code with a message; call cl_prepare_undo in either case.
 */
int cl_prepare(cl_agent *agent, const char *bytes, size_t length);
/* Releases everything of the attempt: log files, outputs, the master port, the order and the key. */
void cl_prepare_undo(cl_agent *agent);

#endif
