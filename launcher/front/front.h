/* front.h - the front process of a job: it makes all decisions and holds one link to the agent of every node.
 *
 * The phases of one attempt are:
 *
 *     joining     The agents are being started, or the front process waits until they connect.
 *     ordering    Every agent has received its order (what to run) and prepares its node.
 *     running     The ranks run, until all of them have exited with code 0. The front process ends them itself if
 *                 new nodes have come to an elastic job (reform.c).
 *     settling    A rank has exited with a failure. The front process waits up to 200 ms, because other ranks may
 *                 explain the failure better (2 s if the rank has explained its failure itself).
 *     stopping    Every agent ends its ranks: stop signal, grace period, SIGKILL, removal of remaining processes.
 *     over        Every agent has sent SWEPT or is lost. Either another attempt or the end of the job follows.
 *
 * If several ranks fail, the report names the rank that failed first, with two exceptions. A rank that lost a peer
 * (exit code 75) is never named if another kind of failure exists. A rank that ended without any message is not named
 * if another rank, which ended within 200 ms of it, explained its failure. */
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

#include "base/names.h"
#include "base/clock.h"

typedef enum { CL_JOINING, CL_ORDERING, CL_RUNNING, CL_SETTLING, CL_STOPPING, CL_OVER } cl_phase;

typedef enum { CL_WORKER_WAITING, CL_WORKER_RUNNING, CL_WORKER_ENDED } cl_worker_state;

typedef struct {
    cl_worker_state state;
    int node; /* index of the rank's node in cl_front.nodes */
    pid_t pid;
    int64_t ended;     /* time when the rank ended, in CLOCK_MONOTONIC nanoseconds of this machine */
    cl_link_end end;   /* how the rank ended; valid only in the state CL_WORKER_ENDED */
    cl_link_beat beat; /* the last progress record received; beat.age is the age that this record reports */
    int64_t heard_at;  /* time when a record last arrived from the running rank, in CLOCK_MONOTONIC nanoseconds; 0: no
                        * record has arrived */
    /* time when a record that reports a position (its age is not negative) last arrived, in CLOCK_MONOTONIC
     * nanoseconds; the record in the message about the rank's end also counts; 0: no such record has arrived */
    int64_t beat_at;
    /* the last lines of the rank's stderr, set in the state CL_WORKER_ENDED; NULL: stderr was empty */
    char *tail;
    char *stack; /* the C stack of the rank, if it was requested; otherwise NULL */
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
    int place; /* index of the node's host in plan->hosts.list */
    cl_link link;
    /* process id of the agent if the agent is a child of this process (`here`); otherwise of the child that carries the
     * connection to the agent; 0: there is no such process */
    pid_t pid;
    char host[256];
    bool here, ran; /* ran: the agent has started ranks of this job */
    /* the signal that has asked the node to end, so that the next attempt waits for a new process on it, or goes on
     * without it; 0: there was no such signal */
    int leaves;
    /* The addresses of the two ends of the connection between the node and the front process. own_address: the node's
     * end; front_address: the front process's end. "": not known. */
    char own_address[64], front_address[64];
    /* set for the first node only: the address of the interface that --master_if names; "": --master_if was not given
     */
    char interface[64];
    char binding_text[256]; /* the assignment of cores to ranks, as text: "rank 0 on core 0 ..." */
    int left_count;         /* number of processes of the node that could not be ended */
    char left[256];         /* the ids of the node's processes that could not be ended, as text */
    /* bytes of the node's output that this process has shown since it last sent CREDIT to the agent */
    uint64_t shown;
} cl_node;

typedef struct {
    const cl_options *options;
    const cl_guard *guard; /* the signals that the front process handles */
    cl_plan *plan;
    cl_output output;
    cl_registry registry;
    cl_rendezvous *rendezvous; /* the port where nodes connect; NULL: every agent is started by this process */
    /* [node_total] nodes; the first plan->node_count of them take part in this attempt, in the order of plan->nodes */
    cl_node *nodes;
    int node_total;
    unsigned long long digest;
    unsigned char key[CE_MAC_BYTES]; /* the secret key that the ranks of this job share */
    pid_t starter;                   /* process id of mpirun or srun; 0: neither of them is used */
    cl_world_sizes world_sizes;      /* the world sizes that an elastic job may have */
    /* When these events happened, in CLOCK_MONOTONIC nanoseconds; 0: the event has not happened. joining_since: the
     * nodes began to join. enough_at: the minimum number of nodes was present. reminded_at: the last reminder was
     * printed. */
    int64_t joining_since, enough_at, reminded_at;
    cl_worker *workers; /* [worker_count] ranks of this attempt; NULL while agents are joining */
    int worker_count;
    cl_phase phase;
    int attempt, restarts; /* restarts: the number of restarts that count for --max_restarts */
    /* For reform.c: when these events happened, in CLOCK_MONOTONIC nanoseconds; 0: the event has not happened.
     * ranks_began: the ranks of this attempt were started. waiting_since: the first new node was seen. beats_asked_at:
     * progress records were requested. */
    int64_t ranks_began, waiting_since, beats_asked_at;
    bool reforming; /* true: the ranks are being ended, so that the new nodes can take part */
    /* true: the next attempt does not wait the time --last_call for more nodes, because the job has already waited
     * during this attempt */
    bool called_already;
    int64_t heartbeat_at;
    int64_t steps_before; /* the highest step that earlier attempts reached */
    /* the `kept` value of ce_beat in earlier attempts: the step of the newest checkpoint, plus 1 */
    int64_t kept_before;
    int short_failures; /* number of consecutive attempts that ended soon and without completing a step */
    bool over;          /* true: no further attempt follows, and the result is final */
    char master_addr[256];
    int master_port;
    /* Times in CLOCK_MONOTONIC nanoseconds. began, attempt_began, failed, stopped: when this event happened; 0: the
     * event has not happened. deadline: when the phase ends; INT64_MAX: the phase has no deadline. */
    int64_t began, attempt_began, failed, stopped, deadline;
    int first;      /* the rank that failed first; -1: no rank has failed */
    int first_node; /* the node that was lost first; -1: no node was lost */
    char why[1024]; /* reason of a failure that no rank caused: a lost node, a refused order */
    int code;       /* the exit code of the failure that `why` describes */
    int signal;     /* the signal that asked cspeed to end; 0: there was no such signal */
    /* when a signal first asked cspeed to end, in CLOCK_MONOTONIC nanoseconds; 0: this did not happen */
    int64_t signaled;
    /* true: a signal asked cspeed to end, so no other attempt follows, even if a rank had failed before */
    bool last;
    bool timed_out, stalled;
    char run_dir[PATH_MAX]; /* the folder of the log files and of result.json; "": no files are written */
} cl_front;

/* ---- job_loop.c ---- */

/* Runs a job from its start to its end and returns its exit code. Called in the process that the user started. */
int cl_job_loop_run(cl_plan *plan, const cl_guard *guard);

/* ---- front.c: the phases ---- */

int cl_front_begin(cl_front *front, int64_t now); /* begins an attempt */
/* cl_front_take_signal handles a signal that has arrived; cl_front_take_time checks the deadlines. Each of them may
 * change the phase. */
void cl_front_take_signal(cl_front *front, int number, int64_t now);
void cl_front_take_time(cl_front *front, int64_t now);

/* Returns the job's exit code, which follows from the failures recorded so far. */
int cl_front_code(const cl_front *front);

/* Stops the job because of a failure that no rank caused. Only the first such failure is recorded. */
void cl_front_fail(cl_front *front, int node, int code, const char *why);
/* Asks the agent of every node to end its ranks within the grace period; does nothing if this has been done. */
void cl_front_stop(cl_front *front, int64_t now);
/* Asks the agent of every node to end its ranks, and to kill those that have not ended after `grace` seconds. */
void cl_front_end_ranks(cl_front *front, double grace, int64_t now);

/* Changes the phase. `deadline` is in CLOCK_MONOTONIC nanoseconds; INT64_MAX: the phase has no deadline. */
void cl_front_enter(cl_front *front, cl_phase phase, int64_t deadline);

/* ---- nodes.c: messages of the agents ---- */

/* Reads and handles the messages of all agents, sends them CREDIT for the output that was shown, and sends
 * heartbeats. */
void cl_nodes_listen(cl_front *front, int64_t now);
/* sends a message to all nodes of this attempt */
void cl_nodes_tell(cl_front *front, cl_link_kind kind, uint32_t rank);
/* Records the loss of a node. `why` is the reason: the link to the node is broken, the node has been silent for too
 * long, or the node did not end its ranks in time. */
void cl_nodes_lose(cl_front *front, int node, const char *why);

/* ---- workers.c: the ranks ---- */
int cl_workers_make(cl_front *front); /* allocates front->workers, one entry for each rank of the plan */
void cl_workers_free(cl_front *front);

/* cl_workers_take handles a message about one rank; cl_workers_take_beats handles a message with the progress records
 * of several ranks. */
void cl_workers_take(cl_front *front, int rank, const cl_message *message, int64_t now);
void cl_workers_take_beats(cl_front *front, const cl_message *message, int64_t now);
void cl_workers_write_off(cl_front *front, int node, int64_t now); /* treats the ranks of a lost node as ended */
/* Returns true if the failed rank would fail in the same way in another attempt. */
bool cl_workers_explained(const cl_front *front, int rank);
/* Returns the highest `kept` value of ce_beat that any rank has reported: the newest checkpoint's step plus 1, or 0 if
 * there is no checkpoint. */
int64_t cl_workers_kept(const cl_front *front);
/* Returns true if the rank failed by itself, and not because of a signal that cspeed sent to it. */
bool cl_workers_failed(const cl_front *front, int rank);

/* ---- join_agents.c: the agents join, and the plan is reduced to the nodes that are present ---- */
/* Allocates front->nodes, one entry for each node of the plan, with the state CL_NODE_ABSENT. */
void cl_join_agents_open(cl_front *front);
int cl_join_agents_call(cl_front *front, int64_t now); /* starts the agents of absent nodes for a new attempt */
/* accepts the nodes whose connections wait at the rendezvous port */
void cl_join_agents_admit(cl_front *front, int64_t now);
bool cl_join_agents_complete(cl_front *front, int64_t now);
bool cl_join_agents_answered(const cl_front *front); /* returns true if every node has joined or was lost */
/* Returns the malloc'ed indices in plan->hosts.list of the first `count` nodes. */
int *cl_join_agents_places(const cl_front *front, int count);
/* Prints every 10 s which nodes are missing or not ready, and what these nodes are doing. */
void cl_join_agents_remind(cl_front *front, int64_t now);
int cl_join_agents_there(const cl_front *front);       /* returns the number of nodes that are present */
bool cl_join_agents_is_elastic(const cl_front *front); /* returns true if the number of nodes may change */
/* Returns the number of nodes that an attempt would have if it began now; 0: the configuration allows no attempt
 * with these nodes. */
int cl_join_agents_possible(const cl_front *front);
/* Returns true for a node that has connected by itself to an elastic job after the first attempt had begun, and that
 * has run no ranks yet. */
bool cl_join_agents_is_new(const cl_front *front, int node);
/* Ends a node's part in the job: sends the reason and an exit code to the node, and closes the link to it. */
void cl_join_agents_dismiss(cl_link *link, int code, const char *why);
/* Ends the part of a node that runs no ranks and that a signal has asked to end. */
void cl_join_agents_let_go(cl_node *node);
/* Writes "node 1 (b) was asked to end by SIGTERM" for a node that a signal has asked to end. */
void cl_join_agents_say_leaving(const cl_node *node, char why[512]);
/* Adds what the job waits for: the missing nodes, or, if no node is missing, a number of nodes that the configuration
 * allows. */
void cl_join_agents_list_missing(const cl_front *front, ce_names *missing);

/* ---- node_orders.c: the messages ORDER and START for the agents ---- */
int cl_node_orders_send(cl_front *front);   /* sends ORDER to every node of the attempt */
void cl_node_orders_start(cl_front *front); /* sends START to every node; call it when all nodes are ready */

/* ---- staging.c: files for the nodes, sent before ORDER ---- */
int cl_staging_send(cl_front *front);

/* ---- reform.c: the end of an attempt in favour of new nodes ---- */
void cl_reform_check(cl_front *front, int64_t now);

/* ---- on_end.c ---- */
/* Runs the command of --on_end, if there is one, after the job has ended with this exit code, and waits until the
 * command has ended. `signal_fd` receives the signals that the front process handles. */
void cl_on_end_run(const cl_front *front, int code, int signal_fd);

/* ---- retry.c: whether another attempt follows ---- */
/* Returns true if another attempt follows. If that attempt counts for --max_restarts, front->restarts has been
 * incremented. */
bool cl_retry_wanted(cl_front *front, int64_t now);

#endif
