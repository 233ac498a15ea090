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
#ifndef CL_FRONT_H
#define CL_FRONT_H

#include "node/guard.h"
#include "plan/hostplan.h"
#include "wire/link.h"
#include "wire/lobby.h"
#include "show/output.h"
#include "front/registry.h"
#include "wire/remote.h"
#include "plan/world_sizes.h"

#include "base/clock.h"

typedef enum { CL_JOINING, CL_ORDERING, CL_RUNNING, CL_SETTLING, CL_STOPPING, CL_OVER } cl_phase;

typedef enum { CL_WORKER_WAITING, CL_WORKER_RUNNING, CL_WORKER_ENDED } cl_worker_state;

typedef struct {
    cl_worker_state state;
    int node; /* index into cl_front.nodes */
    pid_t pid;
    int64_t ended;     /* when, on this machine's CLOCK_MONOTONIC, in nanoseconds */
    cl_link_end end;   /* meaningful once ENDED */
    cl_link_beat beat; /* the last one told; beat.age is of when it was told */
    int64_t told;      /* when that was, here; 0: never */
    char *tail;        /* the last of its stderr, once ENDED; NULL: nothing */
    char *stack;       /* its C stack, if it was asked for */
} cl_worker;

typedef enum {
    CL_NODE_ABSENT,
    CL_NODE_CALLED,
    CL_NODE_JOINED,
    CL_NODE_READY,
    CL_NODE_RUNNING,
    CL_NODE_SWEPT,
    CL_NODE_LOST
} cl_node_state;

typedef struct {
    cl_node_state state;
    int place; /* index into plan->hosts.list */
    cl_link link;
    pid_t pid; /* of its agent, when it is our child (here), or of what carries its bytes; 0: neither */
    char host[256];
    bool here;
    char own_address[64], front_address[64]; /* as its connection has proved them; "": not known */
    char interface[64];                      /* of the first node: the address of --master_if; "": none */
    char seats[256];                         /* "rank 0 on core 0 ..." */
    int left_count;                          /* processes that would not end */
    char left[256];                          /* their pids */
    uint64_t shown;                          /* bytes of output shown and not yet credited */
} cl_node;

typedef struct {
    const cl_options *options;
    const cl_guard *guard; /* the signals */
    cl_plan *plan;
    cl_output output;
    cl_registry registry;
    cl_lobby *lobby; /* NULL: every agent is started from here */
    cl_node *nodes;  /* [node_total]; the first plan->node_count take part in this attempt, ordered as plan->nodes */
    int node_total;
    unsigned long long digest;
    unsigned char key[CS_MAC_BYTES];               /* for the ranks of this job */
    pid_t starter;                                 /* mpirun or srun; 0: none   */
    cl_world_sizes world_sizes;                    /* that an elastic job may have */
    int64_t joining_since, enough_at, reminded_at; /* of this muster: began; the least number was there; a reminder */
    cl_worker *workers; /* [worker_count], the ranks of this attempt; none (NULL) while agents are joining */
    int worker_count;
    cl_phase phase;
    int attempt;
    int64_t heartbeat_at;
    int64_t steps_before; /* the furthest step of earlier attempts */
    int64_t kept_before;  /* as cs_beat's kept, of earlier attempts */
    int short_failures;   /* attempts in a row that ended soon without a step */
    bool over;            /* no further attempt: the result stands            */
    char master_addr[256];
    int master_port;
    int64_t began, attempt_began, failed, stopped,
        deadline;   /* CLOCK_MONOTONIC nanoseconds; 0: not yet; deadline INT64_MAX: none */
    int first;      /* the rank that failed first, or -1                        */
    int first_node; /* the node that was lost first, or -1                      */
    char why[1024]; /* of a failure that is no rank's: node lost, order refused */
    int code;       /* of that failure                                          */
    int signal;     /* that asked cspeed to end, or 0                           */
    bool timed_out, stalled;
    char run_dir[PATH_MAX]; /* logs, result.json; "" : none */
} cl_front;

/* ---- job_loop.c ---- */

/* The whole life of a job; the exit code. In the process that the user sees. */
int cl_job_loop_run(cl_plan *plan, const cl_guard *guard);

/* ---- front.c: the phases ---- */

int cl_front_begin(cl_front *front, int64_t now); /* an attempt */
void cl_front_take_signal(cl_front *front, int number, int64_t now);
void cl_front_take_time(cl_front *front, int64_t now);
int cl_front_code(const cl_front *front);

/* Records what is no rank's failure, if it is the first, and lets the job end. */
void cl_front_fail(cl_front *front, int node, int code, const char *why);
void cl_front_stop(cl_front *front, int64_t now); /* every agent is to end its ranks */
void cl_front_enter(cl_front *front, cl_phase phase, int64_t deadline);

/* ---- nodes.c: what comes from the agents ---- */
void cl_nodes_listen(cl_front *front, int64_t now);
void cl_nodes_tell(cl_front *front, cl_link_kind kind, uint32_t rank); /* those of the attempt */
void cl_nodes_lose(cl_front *front, int node, const char *why);        /* its link is broken, or it is silent */

/* ---- workers.c: the ranks ---- */
int cl_workers_make(cl_front *front); /* those of the plan */
void cl_workers_free(cl_front *front);
void cl_workers_take(cl_front *front, int rank, const cl_message *message, int64_t now);
void cl_workers_take_beats(cl_front *front, const cl_message *message, int64_t now);
void cl_workers_write_off(cl_front *front, int node, int64_t now); /* it does not answer: they are as good as ended */
bool cl_workers_explained(const cl_front *front, int rank);        /* its end would be the same in another attempt */
int64_t cl_workers_kept(const cl_front *front);          /* as cs_beat's kept: the newest that any of them has told */
bool cl_workers_failed(const cl_front *front, int rank); /* whether it ended badly by itself, not by our signals */

/* ---- join_agents.c: agents come, and the plan is cut to those that are there ---- */
int cl_join_agents_open(cl_front *front);                /* the nodes of the plan, none of them there */
int cl_join_agents_call(cl_front *front, int64_t now);   /* calls those that are absent: a new attempt */
void cl_join_agents_admit(cl_front *front, int64_t now); /* who stands in the lobby */
bool cl_join_agents_complete(cl_front *front, int64_t now);
void cl_join_agents_remind(cl_front *front,
                           int64_t now); /* every 10 s: who is missing or not ready, and what it does */
void cl_join_agents_list_missing(const cl_front *front, char text[512]);

/* ---- node_orders.c: what each node is told ---- */
int cl_node_orders_send(cl_front *front);   /* ORDER to every node of the attempt */
void cl_node_orders_start(cl_front *front); /* all are READY: START */

/* ---- staging.c: files that nodes need, sent before their orders ---- */
int cl_staging_send(cl_front *front);

/* ---- retry.c: another attempt, or the end ---- */
bool cl_retry_wanted(cl_front *front, int64_t now);

#endif
