/* rendezvous.h - the rendezvous of agents that the front process did not start itself: --no_ssh, mpirun, srun.
 *
 * The front process listens on the master address and port. A node connects and proves that it knows the job's secret
 * (security/join.h); from then on the node's link is sealed. Other callers are refused, and reported once for each address
 * (cl_rendezvous_report). These callers cannot keep nodes from joining: one iteration of the event loop accepts a
 * limited number of connections, and when the table of connections is full, connections whose callers have not named a
 * job are dropped first. */
#ifndef CL_RENDEZVOUS_H
#define CL_RENDEZVOUS_H

#include "plan/hostplan.h"

#include <poll.h>
#include <stdint.h>

typedef struct cl_rendezvous cl_rendezvous;

typedef struct {
    int fd;
    unsigned char key[32]; /* the key of the sealed link */
    bool sealed;
    int node_rank; /* number of the node; -1: the front process may choose it */
    char host[256];
    /* on the front process's side: the addresses of the two ends of the connection; "": not known */
    char own_address[64], front_address[64];
    unsigned long long digest; /* digest of the plan that the node has made; all nodes must have the same digest */
    int ranks;                 /* number of ranks on this node by the node's own plan; 0: the node has no plan */
} cl_joined_node;

/* Opens the port where nodes connect. Returns 0; CL_CODE_SLOTS with a message that names the process that uses the
 * port; or CL_CODE_USAGE if there is no secret and the address is no loopback address. */
int cl_rendezvous_open(cl_rendezvous **rendezvous, const cl_plan *plan);
void cl_rendezvous_close(cl_rendezvous *rendezvous); /* stops listening and frees the rendezvous; accepts NULL */
int cl_rendezvous_port(const cl_rendezvous *rendezvous);

/* fills at most `max` entries of `polled` and returns their number */
int cl_rendezvous_poll(const cl_rendezvous *rendezvous, struct pollfd *polled, int max);
int64_t cl_rendezvous_due(
    /* returns the time of ce_clock_now when poll must return; INT64_MAX: there is no such time */
    const cl_rendezvous *rendezvous);
/* Accepts some of the pending connections. Call this function once in each iteration of the loop. Returns 0, or
 * CL_CODE_SYSTEM if descriptors or memory have run out. */
int cl_rendezvous_accept(cl_rendezvous *rendezvous);
/* Continues the handshakes. Returns true if a node has joined; call the function again in that case. */
bool cl_rendezvous_advance(cl_rendezvous *rendezvous, cl_joined_node *node);

/* Starts or stops listening. While the rendezvous does not listen, the kernel refuses connections. The port stays
 * reserved during that time, unless the kernel chose the port. */
void cl_rendezvous_listen(cl_rendezvous *rendezvous, bool wanted);

/* Lets the ranks of the job bind to the port and listen on it until cl_rendezvous_listen(rendezvous, true). The socket
 * of the rendezvous stays bound to the port during that time. Call this function only if the kernel did not choose the
 * port. */
void cl_rendezvous_share_port(cl_rendezvous *rendezvous);

/* Returns the next line for the user about refused callers; NULL: there is none. The line is valid until the next call
 * on this rendezvous. */
const char *cl_rendezvous_report(cl_rendezvous *rendezvous);

/* ---- owner.c: the process that listens on a port of this machine ---- */

/* Writes the name of the process that listens on the port, such as "python3 (pid 4711)". Writes "another user's
 * process" if /proc shows no process that has the socket open, and "" if no process listens on the port. */
void cl_owner_of_port(int port, char *text, size_t capacity);

/* ---- rendezvous_join.c: the side of the node ---- */

/* Connects to plan->master_addr:master_port, and tries again until the front process answers or --rdzv_timeout is over.
 * Every 10 s it prints what it waits for. Returns 0, or CL_CODE_PEER, CL_CODE_DISAGREE, or 128 + N if signal N is
 * pending. node->fd is the connection to the front process. */
int cl_rendezvous_join_plan(const cl_plan *plan, cl_joined_node *node);

/* The parameters of cl_rendezvous_join. */
typedef struct {
    const char *address, *job, *host;
    int port, node_rank;
    int ranks; /* number of ranks on this node; 0: this agent has no plan */
    unsigned long long digest;
    double timeout_seconds; /* time limit for joining, in seconds */
    /* True: the ranks of the job use the same port while they run (cl_rendezvous_share_port), and nodes may connect
     * between two attempts. In this case, the node tries again if a program other than the front process answers. */
    bool port_shared;
} cl_join_parameters;

/* Does the same as cl_rendezvous_join_plan for an agent without a plan, which mpirun or srun started with these
 * parameters. */
int cl_rendezvous_join(const cl_join_parameters *parameters, cl_joined_node *node);

/* Returns the name of the job for the handshake: --job_id; or "none" if every node chooses its own job id. */
const char *cl_rendezvous_job(const cl_plan *plan);

/* Writes the address of an interface of this machine as text; an IPv4 address is preferred. Returns CL_CODE_USAGE if
 * there is no such interface. */
int cl_rendezvous_interface(const char *name, char *text, size_t capacity);

#endif
