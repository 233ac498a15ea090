/* rendezvous.h - Rendezvous of agents that the front did not start itself: --no_ssh, mpirun, srun.
 *
 * The front listens on the master address and port. A node connects and proves that it knows the job's secret
 * (base/join.h); from then on its link is sealed. Other callers are refused and reported once for each address
 * (cl_rendezvous_report). They cannot block the nodes: one iteration accepts a bounded number of connections, and when
 * the table of callers is full, those that have not named a job are dropped first. */
#ifndef CL_RENDEZVOUS_H
#define CL_RENDEZVOUS_H

#include "plan/hostplan.h"

#include <poll.h>
#include <stdint.h>

typedef struct cl_rendezvous cl_rendezvous;

typedef struct {
    int fd;
    unsigned char key[32]; /* key of the sealed link */
    bool sealed;
    int node_rank; /* -1: the front may choose any rank */
    char host[256];
    unsigned long long digest; /* digest of the plan of the node: all nodes must have the same digest */
    int ranks;                 /* number of ranks of the node in its own plan; 0: the node has no plan */
} cl_joined_node;

/* Opens the rendezvous port. Returns 0, CL_CODE_SLOTS (another process has the port; the message names that process),
 * or CL_CODE_USAGE (no secret, and the address is not a loopback address). */
int cl_rendezvous_open(cl_rendezvous **rendezvous, const cl_plan *plan);
void cl_rendezvous_close(cl_rendezvous *rendezvous); /* accepts NULL */
int cl_rendezvous_port(const cl_rendezvous *rendezvous);

/* fills `polled` and returns the number of entries */
int cl_rendezvous_poll(const cl_rendezvous *rendezvous, struct pollfd *polled, int max);
int64_t cl_rendezvous_due(
    const cl_rendezvous *rendezvous); /* time of ce_clock_now at which to poll again; INT64_MAX: no deadline */
/* Accepts some of the pending connections; call it once in each iteration of the loop. Returns 0, or CL_CODE_SYSTEM
 * if descriptors or memory have run out. */
int cl_rendezvous_accept(cl_rendezvous *rendezvous);
/* advances the handshakes; true: one node has joined, call again */
bool cl_rendezvous_advance(cl_rendezvous *rendezvous, cl_joined_node *node);

/* Starts or stops listening. While the rendezvous does not listen, the kernel refuses callers. A port that the user
 * chose stays reserved during that time. */
void cl_rendezvous_listen(cl_rendezvous *rendezvous, bool wanted);

/* Lets the ranks of the job bind the port and listen on it until cl_rendezvous_listen(rendezvous, true). The
 * rendezvous' socket remains bound meanwhile. Only for a port that the user has chosen. */
void cl_rendezvous_share_port(cl_rendezvous *rendezvous);

/* Returns the next line for the user about refused callers, or NULL. It is valid until the next call
 * on the same rendezvous. */
const char *cl_rendezvous_report(cl_rendezvous *rendezvous);

/* ---- rendezvous_join.c: the node's side ---- */

/* Connects to plan->master_addr:master_port, retrying until the front answers or --rdzv_timeout is over; every 10 s
 * it prints what it waits for. Reads only the options, id, node_rank and nodes of the plan. Returns 0, or
 * CL_CODE_PEER, CL_CODE_DISAGREE, or 128 + N for a pending signal N. `node->fd` is the connection to the front. */
int cl_rendezvous_join_plan(const cl_plan *plan, cl_joined_node *node);

/* The parameters of cl_rendezvous_join. */
typedef struct {
    const char *address, *job, *host;
    int port, node_rank;
    int ranks; /* of this node; 0: this agent has no plan */
    unsigned long long digest;
    double timeout_seconds; /* time limit in seconds */
    /* the ranks of the job use the port while they run (cl_rendezvous_share_port), and nodes may connect between two
     * attempts; if another program than the front answers, the node then tries again */
    bool port_shared;
} cl_join_parameters;

/* Like cl_rendezvous_join_plan, for an agent without a plan: one that mpirun or srun started with these parameters. */
int cl_rendezvous_join(const cl_join_parameters *parameters, cl_joined_node *node);

/* Returns the name of the job in the handshake: --job_id, or "none" if every node chooses its own id. */
const char *cl_rendezvous_job(const cl_plan *plan);

/* Writes the address of an interface of this machine as text, IPv4 preferred. Returns CL_CODE_USAGE if there is
 * none. */
int cl_rendezvous_interface(const char *name, char *text, size_t room);

#endif
