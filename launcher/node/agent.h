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
#ifndef CS_LAUNCHER_AGENT_H
#define CS_LAUNCHER_AGENT_H

#include "node/guard.h"
#include "wire/link.h"
#include "node/local.h"
#include "node/logs.h"
#include "node/tail.h"

typedef enum {
    CS_AGENT_IDLE,
    CS_AGENT_READY,
    CS_AGENT_RUNNING,
    CS_AGENT_STOPPING,
    CS_AGENT_KILLING,
    CS_AGENT_SWEEPING
} cs_agent_phase;

typedef struct {
    cs_link         link;
    const cs_guard *guard;
    int             signal_fd;
    bool            abandoned; /* the front is gone */
    bool            finished;  /* the front said so */
    uint64_t        unshown;   /* bytes of output sent and not credited */
    int64_t         beats_at;  /* when beats are told next */

    /* this attempt */
    cs_agent_phase phase;
    int64_t        deadline; /* of the phase; INT64_MAX: none */
    cs_order       order;
    cs_seats       seats;
    char           program[PATH_MAX];
    unsigned char  key[CS_MAC_BYTES];
    bool           keyed;
    int            master_fd;     /* -1: none */
    char           interface[64]; /* the address of order.master_if; "": none */
    cs_process    *processes;     /* [order.rank_count] */
    cs_log_file   *logs;          /* [2 * order.rank_count] */
    cs_tail       *tails;         /* [order.rank_count], of stderr */
    bool           log_full;      /* a file took no more, and it was said */
    int            alive;
    int64_t        oom_kills; /* before */
} cs_agent;

/* Serves the front at the other end of these descriptors until it says FINISH or is gone; the exit code. `key`: of the
 * sealed link, or NULL. Opens with HELLO. */
int cs_agent_serve(int in_fd, int out_fd, const unsigned char *key, const cs_guard *guard);

/* ---- tell.c: what an agent says ---- */
void cs_tell_hello(cs_agent *agent);
void cs_tell_failed(cs_agent *agent, int code); /* with cs_error() */
void cs_tell_beats(cs_agent *agent, int64_t now);
void cs_tell_ended(cs_agent *agent, int local, int64_t now);
void cs_tell_stack(cs_agent *agent, int rank);

/* ---- prepare.c: from an order to READY ---- */
int  cs_prepare(cs_agent *agent, const char *bytes, size_t length);
void cs_prepare_undo(cs_agent *agent);

#endif
