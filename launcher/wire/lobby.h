/* lobby.h - how agents that were not started by the front come to it: --no_ssh, mpirun, srun.
 *
 * The front listens on the master address and port; a node calls and proves that it knows the job's secret
 * (base/join.h), and from then on its link is sealed. Strangers are refused and told of once each (cl_lobby_news). They
 * hold up nobody: a turn takes a bounded number of connections, and when all places are taken, callers that have not
 * said of which job they are go first. */
#ifndef CL_LOBBY_H
#define CL_LOBBY_H

#include "plan/hostplan.h"

#include <poll.h>
#include <stdint.h>

typedef struct cl_lobby cl_lobby;

typedef struct {
    int fd;
    unsigned char key[32]; /* of the sealed link */
    bool sealed;
    int node_rank; /* -1: it does not mind */
    char host[256];
    unsigned long long digest; /* of its plan: nodes must agree */
} cl_guest_node;

/* Listens. 0, CL_CODE_SLOTS (the port is taken, by whom), CL_CODE_USAGE (no secret and not a loopback address). */
int cl_lobby_open(cl_lobby **lobby, const cl_plan *plan);
void cl_lobby_close(cl_lobby *lobby); /* accepts NULL */
int cl_lobby_port(const cl_lobby *lobby);

int cl_lobby_poll(const cl_lobby *lobby, struct pollfd *polled, int max); /* how many entries it wants watched */
int64_t cl_lobby_due(const cl_lobby *lobby); /* when it is to be polled again, of cs_clock_now; INT64_MAX: any time */
/* Takes some of the connections that wait; once a turn. 0, or CL_CODE_SYSTEM: descriptors or memory have run out. */
int cl_lobby_accept(cl_lobby *lobby);
bool cl_lobby_serve(cl_lobby *lobby, cl_guest_node *guest); /* the handshakes; true: one has joined, call again */

/* Whether nodes may come now. If not, callers are refused by the kernel at no cost, and the port remains ours. */
void cl_lobby_listen(cl_lobby *lobby, bool wanted);

/* The ranks of the job may be bound to the port, and listen there, until cl_lobby_listen(lobby, true). The lobby's
 * socket stays bound meanwhile. For a port that the user has chosen. */
void cl_lobby_lend(cl_lobby *lobby);

/* The next line for the user about who was refused, or NULL; until the next call on the lobby. */
const char *cl_lobby_news(cl_lobby *lobby);

/* ---- lobby_call.c: of a node ---- */

/* Calls plan->master_addr:master_port until the front answers or --rdzv_timeout is over; says every 10 s whom it waits
 * for. Reads the options, id, node_rank and nodes of the plan, no more. 0, or CL_CODE_PEER, CL_CODE_DISAGREE, 128 + N
 * for a signal N that is pending. `guest->fd` is the link to the front. */
int cl_lobby_call(const cl_plan *plan, cl_guest_node *guest);

/* The same for an agent that has no plan, only what it is told: for mpirun and srun. */
typedef struct {
    const char *address, *job, *host;
    int port, node_rank;
    unsigned long long digest;
    double patience; /* seconds */
    bool lent;       /* the ranks of the job hold the port while they run (cl_lobby_lend), and nodes may come
                                between two attempts: an answer that is not a lobby's is no reason to give up */
} cl_lobby_guest;

int cl_lobby_join(const cl_lobby_guest *who, cl_guest_node *guest);

/* The job's name in the challenge: --job_id, or "none" where every node makes up an id of its own. */
const char *cl_lobby_job(const cl_plan *plan);

/* The address of an interface of this machine, IPv4 first, as text; CL_CODE_USAGE where there is none. */
int cl_lobby_interface(const char *name, char *text, size_t room);

#endif
