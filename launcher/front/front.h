/* front.h - the front process of a job: it makes all decisions and holds one link to the agent of every node.
 *
 * The phases of one attempt are:
 *
 *     joining     The agents are being started, or the front waits for them to connect.
 *     ordering    Every agent has received its order and is preparing its node.
 *     running     The ranks run, until all of them have exited with code 0. The front ends them itself when nodes have
 *                 come to an elastic job (reform.c).
 *     settling    A rank has failed by exiting. The front waits up to 200 ms (2 s if the failure is already explained),
 *                 since other ranks may report a better explanation.
 *     stopping    Every agent ends its ranks: stop signal, grace period, SIGKILL, removal of remaining processes.
 *     over        Every agent has sent SWEPT or is lost. Another attempt or the end of the job follows.
 *
 * When several ranks fail, the report names the one that failed first, with two exceptions. A rank that lost a peer
 * (exit code 75) is never named if another kind of failure exists. A rank that ended without any message is not named
 * if another rank that ended within 200 ms of it explained its failure. */
#ifndef CL_FRONT_H
#define CL_FRONT_H

#include "node/guard.h"
#include "plan/hostplan.h"
#include "wire/link.h"
#include "wire/rendezvous.h"
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
    int64_t ended;     /* time of its end: CLOCK_MONOTONIC of this machine, in nanoseconds */
    cl_link_end end;   /* valid only in state CL_WORKER_ENDED */
    cl_link_beat beat; /* the last progress record received; beat.age refers to the time of its arrival */
    int64_t heard_at;  /* time when `beat` arrived, CLOCK_MONOTONIC nanoseconds; 0: none has arrived */
    int64_t beat_at;   /* the same for the last record that had progress in it */
    char *tail;        /* the end of its stderr, set in state CL_WORKER_ENDED; NULL: it wrote nothing */
    char *stack;       /* its C stack, if one was requested; else NULL */
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
    /* process id of the agent, if the agent is a child of this process (`here`); otherwise of the process that carries
     * the connection to the agent; 0: there is neither */
    pid_t pid;
    char host[256];
    bool here, ran; /* ran: this agent has started ranks of this job */
    /* Addresses of this node and of the front, as each reaches the other: the connection between them uses both. "":
     * not known. */
    char own_address[64], front_address[64];
    /* set for the first node only: the address of the interface --master_if; "": not given */
    char interface[64];
    char binding_text[256]; /* the core binding, as text: "rank 0 on core 0 ..." */
    int left_count;         /* number of processes that could not be ended */
    char left[256];         /* their process ids */
    /* bytes of output that were shown here and not yet credited to the agent */
    uint64_t shown;
} cl_node;

typedef struct {
    const cl_options *options;
    const cl_guard *guard; /* the signals that the front handles */
    cl_plan *plan;
    cl_output output;
    cl_registry registry;
    cl_rendezvous *rendezvous; /* NULL: every agent is started from this process */
    /* [node_total]; the first plan->node_count nodes take part in this attempt, in the order of plan->nodes */
    cl_node *nodes;
    int node_total;
    unsigned long long digest;
    unsigned char key[CS_MAC_BYTES]; /* the secret key of the ranks of this job */
    pid_t starter;                   /* process id of mpirun or srun; 0: not used */
    cl_world_sizes world_sizes;      /* the world sizes that an elastic job may have */
    /* CLOCK_MONOTONIC nanoseconds: when joining began, when the minimum number of nodes was present, and when the last
     * reminder was printed; 0: not yet */
    int64_t joining_since, enough_at, reminded_at;
    cl_worker *workers; /* [worker_count]: the ranks of this attempt; NULL while agents are joining */
    int worker_count;
    cl_phase phase;
    int attempt, restarts; /* restarts: how many of the attempts --max_restarts counts */
    /* These four times serve to form the job again with nodes that came while ranks ran. Each is in CLOCK_MONOTONIC
     * nanoseconds, or 0 if the event has not happened. ranks_began: the ranks of this attempt were started.
     * waiting_since: a node was first seen waiting. beats_asked_at: progress records were requested for the decision.
     * save_asked_at: the checkpoint was requested. */
    int64_t ranks_began, waiting_since, beats_asked_at, save_asked_at;
    int64_t kept_before_asking; /* cl_workers_kept at that time */
    bool reforming;             /* the ranks are ended, so that nodes that came can take part */
    bool called_already;        /* the next attempt does not wait for more nodes (--last_call) */
    int64_t heartbeat_at;
    int64_t steps_before; /* the highest step that earlier attempts reached */
    int64_t kept_before;  /* the `kept` value of ce_beat from earlier attempts: the newest checkpoint's step plus 1 */
    int short_failures;   /* number of consecutive attempts that ended soon and without completing a step */
    bool over;            /* true: no further attempt follows, and the result is final */
    char master_addr[256];
    int master_port;
    int64_t began, attempt_began, failed, stopped,
        deadline;   /* all in CLOCK_MONOTONIC nanoseconds; 0: not yet; `deadline` is INT64_MAX if there is none */
    int first;      /* the rank that failed first, or -1 */
    int first_node; /* the node that was lost first, or -1 */
    char why[1024]; /* reason of a failure that no rank caused: a lost node, a refused order */
    int code;       /* exit code of the failure that `why` describes */
    int signal;     /* the signal that asked cspeed to end, or 0 */
    bool last;      /* a signal asked cspeed to end: no other attempt follows, even if a rank had failed before */
    bool timed_out, stalled;
    char run_dir[PATH_MAX]; /* folder of the logs and of result.json; "": no files are written */
} cl_front;

/* ---- job_loop.c ---- */

/* Runs a job from start to end and returns its exit code. Called in the process that the user started. */
int cl_job_loop_run(cl_plan *plan, const cl_guard *guard);

/* ---- front.c: the phases ---- */

int cl_front_begin(cl_front *front, int64_t now); /* begins an attempt */
/* cl_front_take_signal handles a signal that arrived; cl_front_take_time checks the deadlines. Both may change the
 * phase. */
void cl_front_take_signal(cl_front *front, int number, int64_t now);
void cl_front_take_time(cl_front *front, int64_t now);

/* Returns the exit code of the job, from the failures recorded so far. */
int cl_front_code(const cl_front *front);

/* Stops the job because of a failure that no rank caused. Only the first such failure is recorded. */
void cl_front_fail(cl_front *front, int node, int code, const char *why);
void cl_front_stop(cl_front *front, int64_t now); /* asks every agent to end its ranks */

/* Changes the phase. `deadline` is CLOCK_MONOTONIC nanoseconds, INT64_MAX for none. */
void cl_front_enter(cl_front *front, cl_phase phase, int64_t deadline);

/* ---- nodes.c: messages of the agents ---- */

/* Reads and handles the messages of all agents, credits them for shown output, and sends heartbeats. */
void cl_nodes_listen(cl_front *front, int64_t now);
void cl_nodes_tell(cl_front *front, cl_link_kind kind, uint32_t rank); /* sends to the nodes of this attempt */
/* Records the loss of a node for the reason `why`: its link is broken, the node has been silent for too long, or it did
 * not end its ranks in time. */
void cl_nodes_lose(cl_front *front, int node, const char *why);

/* ---- workers.c: the ranks ---- */
int cl_workers_make(cl_front *front); /* creates the ranks of the plan */
void cl_workers_free(cl_front *front);

/* cl_workers_take handles a message about one rank; cl_workers_take_beats handles a message with the progress records
 * of several ranks. */
void cl_workers_take(cl_front *front, int rank, const cl_message *message, int64_t now);
void cl_workers_take_beats(cl_front *front, const cl_message *message, int64_t now);
void cl_workers_write_off(cl_front *front, int node, int64_t now); /* treats the ranks of a lost node as ended */
/* true: the rank would end in the same way in another attempt */
bool cl_workers_explained(const cl_front *front, int rank);
/* Returns the newest `kept` value of ce_beat that any rank has reported (the newest checkpoint's step plus 1; 0:
 * none). */
int64_t cl_workers_kept(const cl_front *front);
/* Returns true if the rank failed by itself, and not because of a signal that cspeed sent. */
bool cl_workers_failed(const cl_front *front, int rank);

/* ---- join_agents.c: the rendezvous of agents, and reducing the plan to the nodes that came ---- */
int cl_join_agents_open(cl_front *front);                /* creates the nodes of the plan, all of them absent */
int cl_join_agents_call(cl_front *front, int64_t now);   /* starts the agents of absent nodes for a new attempt */
void cl_join_agents_admit(cl_front *front, int64_t now); /* accepts the nodes that wait at the rendezvous port */
bool cl_join_agents_complete(cl_front *front, int64_t now);
/* Prints every 10 s which nodes are missing or not ready, and what they are doing. */
void cl_join_agents_remind(cl_front *front, int64_t now);
int cl_join_agents_there(const cl_front *front); /* returns the number of nodes that are present */
/* Returns the number of nodes that an attempt beginning now would have; 0: the elasticity allows none. */
int cl_join_agents_possible(const cl_front *front);
/* Returns true for a node that has come by itself to an elastic job after its first attempt, and has run no ranks
 * yet. */
bool cl_join_agents_is_new(const cl_front *front, int node);
/* Ends a node's part in the job: sends it the reason and an exit code, and closes its link. */
void cl_join_agents_dismiss(cl_link *link, int code, const char *why);
void cl_join_agents_list_missing(const cl_front *front, char text[512]);

/* ---- node_orders.c: the orders for the agents ---- */
int cl_node_orders_send(cl_front *front);   /* sends ORDER to every node of the attempt */
void cl_node_orders_start(cl_front *front); /* sends START to every node; all of them are READY */

/* ---- staging.c: files for the nodes, sent before their orders ---- */
int cl_staging_send(cl_front *front);

/* ---- reform.c: the end of an attempt for nodes that came while its ranks ran ---- */
void cl_reform_check(cl_front *front, int64_t now);

/* ---- retry.c: the decision between another attempt and the end ---- */
/* Returns true if another attempt follows, and counts it. */
bool cl_retry_wanted(cl_front *front, int64_t now);

#endif
