/* agent.h - the agent of a node: starts its ranks, watches them, ends them, and tells the front.
 *
 * An agent serves one job, attempt after attempt: ORDER, READY, START, STARTED ..., ENDED ..., SWEPT. It decides one
 * thing alone: when the front is gone (its end of the link is closed, or it has been silent for too long), all is
 * killed.
 *
 *     idle        no order, or the last one is done with
 *     ready       the program is found, the cores are dealt
 *     running     ranks are alive
 *     stopping    every rank has the stop signal, and the grace
 *     killing     SIGKILL, to everything below us
 *     sweeping    the ranks have ended; what they had started and left is ended too */
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
    bool abandoned;   /* the front is gone */
    bool finished;    /* the front said so */
    uint64_t unshown; /* bytes of output sent and not credited */
    int64_t beats_at; /* when beats are told next */

    /* this attempt */
    cl_agent_phase phase;
    int64_t deadline; /* of the phase; INT64_MAX: none */
    cl_order order;
    cl_seats seats;
    char program[PATH_MAX];
    unsigned char key[CS_MAC_BYTES];
    bool keyed;
    int master_fd;         /* -1: none */
    char interface[64];    /* the address of order.master_if; "": none */
    cl_process *processes; /* [order.rank_count] */
    cl_log_file *logs;     /* [2 * order.rank_count] */
    cl_tail *tails;        /* [order.rank_count], of stderr */
    bool log_full;         /* a file took no more, and it was said */
    int alive;
    int64_t oom_kills; /* before */
} cl_agent;

/* Serves the front at the other end of these descriptors until it says FINISH or is gone; the exit code. `key`: of the
 * sealed link, or NULL. Opens with HELLO. */
int cl_agent_serve(int in_fd, int out_fd, const unsigned char *key, const cl_guard *guard);

/* ---- tell.c: what an agent says ---- */
void cl_tell_hello(cl_agent *agent);
void cl_tell_failed(cl_agent *agent, int code); /* with cs_error() */
void cl_tell_beats(cl_agent *agent, int64_t now);
void cl_tell_ended(cl_agent *agent, int local, int64_t now);
void cl_tell_stack(cl_agent *agent, int rank);

/* ---- prepare.c: from an order to READY ---- */
int cl_prepare(cl_agent *agent, const char *bytes, size_t length);
void cl_prepare_undo(cl_agent *agent);

#endif
