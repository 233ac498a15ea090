/* front.h - the front of a job: the one process that decides. It holds a link to the agent of every node.
 *
 *     joining     agents are being started, or called for
 *     ordering    every agent has its order and is making ready
 *     running     until all ranks have ended with 0
 *     settling    a rank has failed by exiting: others may be about to say why, so up to 200 ms pass
 *     stopping    every agent ends its ranks: stop signal, grace, SIGKILL, sweep
 *     over        every agent has said SWEPT, or is lost; then another attempt, or the end
 *
 * Of several failures the first is named, but one that says "I lost a peer" (exit 75) never before another, and a rank
 * that ended without a word not before one that told why within 200 ms. */
#ifndef CS_LAUNCHER_FRONT_H
#define CS_LAUNCHER_FRONT_H

#include "node/guard.h"
#include "plan/hostplan.h"
#include "wire/link.h"
#include "wire/lobby.h"
#include "show/output.h"
#include "front/registry.h"
#include "wire/remote.h"
#include "plan/world_sizes.h"

#include "base/clock.h"

typedef enum { CS_JOINING, CS_ORDERING, CS_RUNNING, CS_SETTLING, CS_STOPPING, CS_OVER } cs_phase;

typedef enum { CS_WORKER_WAITING, CS_WORKER_RUNNING, CS_WORKER_ENDED } cs_worker_state;

typedef struct {
    cs_worker_state state;
    int             node; /* index into cs_front.nodes */
    pid_t           pid;
    int64_t         ended; /* when, on this machine's CLOCK_MONOTONIC, in nanoseconds */
    cs_link_end     end;   /* meaningful once ENDED */
    cs_link_beat    beat;  /* the last one told; beat.age is of when it was told */
    int64_t         told;  /* when that was, here; 0: never */
    char           *tail;  /* the last of its stderr, once ENDED; NULL: nothing */
    char           *stack; /* its C stack, if it was asked for */
} cs_worker;

typedef enum {
    CS_NODE_ABSENT,
    CS_NODE_CALLED,
    CS_NODE_JOINED,
    CS_NODE_READY,
    CS_NODE_RUNNING,
    CS_NODE_SWEPT,
    CS_NODE_LOST
} cs_node_state;

typedef struct {
    cs_node_state state;
    int           place; /* index into plan->hosts.list */
    cs_link       link;
    pid_t         pid; /* of its agent, when it is our child (here), or of what carries its bytes; 0: neither */
    char          host[256];
    bool          here;
    char          own_address[64], front_address[64]; /* as its connection has proved them; "": not known */
    char          interface[64];                      /* of the first node: the address of --master_if; "": none */
    char          seats[256];                         /* "rank 0 on core 0 ..." */
    int           left_count;                         /* processes that would not end */
    char          left[256];                          /* their pids */
    uint64_t      shown;                              /* bytes of output shown and not yet credited */
} cs_node;

typedef struct {
    const cs_options *options;
    const cs_guard   *guard; /* the signals */
    cs_plan          *plan;
    cs_output         output;
    cs_registry       registry;
    cs_lobby         *lobby; /* NULL: every agent is started from here */
    cs_node *nodes; /* [node_total]; the first plan->node_count take part in this attempt, ordered as plan->nodes */
    int      node_total;
    unsigned long long digest;
    unsigned char      key[CS_MAC_BYTES];           /* for the ranks of this job */
    pid_t              starter;                     /* mpirun or srun; 0: none   */
    cs_world_sizes     world_sizes;                 /* that an elastic job may have */
    int64_t    mustered_at, enough_at, reminded_at; /* of this muster: began; the least number was there; a reminder */
    cs_worker *workers; /* [worker_count], the ranks of this attempt; none (NULL) while agents are joining */
    int        worker_count;
    cs_phase   phase;
    int        attempt;
    int64_t    heartbeat_at;
    int64_t    steps_before;   /* the furthest step of earlier attempts */
    int64_t    kept_before;    /* as cs_beat's kept, of earlier attempts */
    int        short_failures; /* attempts in a row that ended soon without a step */
    bool       over;           /* no further attempt: the result stands            */
    char       master_addr[256];
    int        master_port;
    int64_t    began, attempt_began, failed, stopped,
        deadline;    /* CLOCK_MONOTONIC nanoseconds; 0: not yet; deadline INT64_MAX: none */
    int  first;      /* the rank that failed first, or -1                        */
    int  first_node; /* the node that was lost first, or -1                      */
    char why[1024];  /* of a failure that is no rank's: node lost, order refused */
    int  code;       /* of that failure                                          */
    int  signal;     /* that asked cspeed to end, or 0                           */
    bool timed_out, stalled;
    char run_dir[PATH_MAX]; /* logs, result.json; "" : none */
} cs_front;

/* ---- life.c ---- */

/* The whole life of a job; the exit code. In the process that the user sees. */
int cs_life_run(cs_plan *plan, const cs_guard *guard);

/* ---- front.c: the phases ---- */

int  cs_front_begin(cs_front *front, int64_t now); /* an attempt */
void cs_front_take_signal(cs_front *front, int number, int64_t now);
void cs_front_take_time(cs_front *front, int64_t now);
int  cs_front_code(const cs_front *front);

/* Records what is no rank's failure, if it is the first, and lets the job end. */
void cs_front_fail(cs_front *front, int node, int code, const char *why);
void cs_front_stop(cs_front *front, int64_t now); /* every agent is to end its ranks */
void cs_front_enter(cs_front *front, cs_phase phase, int64_t deadline);

/* ---- nodes.c: what comes from the agents ---- */
void cs_nodes_listen(cs_front *front, int64_t now);
void cs_nodes_tell(cs_front *front, cs_link_kind kind, uint32_t rank); /* those of the attempt */
void cs_nodes_lose(cs_front *front, int node, const char *why);        /* its link is broken, or it is silent */

/* ---- workers.c: the ranks ---- */
int  cs_workers_make(cs_front *front); /* those of the plan */
void cs_workers_free(cs_front *front);
void cs_workers_take(cs_front *front, int rank, const cs_message *message, int64_t now);
void cs_workers_take_beats(cs_front *front, const cs_message *message, int64_t now);
void cs_workers_write_off(cs_front *front, int node, int64_t now); /* it does not answer: they are as good as ended */
bool cs_workers_explained(const cs_front *front, int rank); /* its end would be the same in another attempt */
int64_t cs_workers_kept(const cs_front *front); /* as cs_beat's kept: the newest that any of them has told */
bool cs_workers_failed(const cs_front *front, int rank); /* whether it ended badly by itself, not by our signals */

/* ---- muster.c: agents come, and the plan is cut to those that are there ---- */
int  cs_muster_open(cs_front *front);               /* the nodes of the plan, none of them there */
int  cs_muster_call(cs_front *front, int64_t now);  /* calls those that are absent: a new attempt */
void cs_muster_admit(cs_front *front, int64_t now); /* who stands in the lobby */
bool cs_muster_complete(cs_front *front, int64_t now);
void cs_muster_remind(cs_front *front, int64_t now); /* every 10 s: who is missing or not ready, and what it does */
void cs_muster_list_missing(const cs_front *front, char text[512]);

/* ---- orders.c: what each node is told ---- */
int  cs_orders_send(cs_front *front);  /* ORDER to every node of the attempt */
void cs_orders_start(cs_front *front); /* all are READY: START */

/* ---- staging.c: files that nodes need, sent before their orders ---- */
int cs_staging_send(cs_front *front);

/* ---- retry.c: another attempt, or the end ---- */
bool cs_retry_wanted(cs_front *front, int64_t now);

#endif
