/* hostplan.h - a job planned whole, before anything is started: nodes, ranks, where they meet, what they are told. */
#ifndef CL_HOSTPLAN_H
#define CL_HOSTPLAN_H

#include "plan/env.h"
#include "plan/hosts.h"

#include <limits.h>

typedef struct {
    const cl_host *host;
    bool here;      /* this machine: its agent is a child process, unless --force_multi */
    int first_rank; /* its ranks are first_rank .. first_rank + host->slot_count - 1 */
} cl_plan_node;

typedef struct {
    const cl_options *options;
    cl_hosts hosts;
    cl_env env;
    cl_plan_node *nodes; /* [hosts.count], one for each host; the first node_count are the nodes of the plan */
    int node_count, rank_count;
    int min_nodes, max_nodes; /* elastic bounds; both node_count when the job is not elastic */
    int node_rank;            /* of this machine under --no_ssh; else 0; -1: not known yet    */
    char id[64];              /* --job_id, or 8 random hex digits                             */
    char master_addr[256];    /* "" while it is to be proved by a connection                  */
    int master_port;          /* 0: any free one of the master's node                         */
    bool master_port_given;   /* by --master_port or MASTER_PORT */
    char **arguments;         /* of the program; arguments[0] as it was given                 */
    char workdir[PATH_MAX];
    bool no_ssh;
    bool named;       /* hosts have names of their own: a hostfile, --hosts, an allocation */
    bool has_devices; /* slots are GPUs: ranks are told CUDA_VISIBLE_DEVICES */
    char master_addr_origin[64], master_port_origin[64], node_rank_origin[64]; /* for `plan` */
} cl_plan;

/* Decides hosts, slots, ranks, elastic bounds, node rank (no_ssh), addresses as far as known. Starts and connects to
 * nothing. 0, or CL_CODE_USAGE, CL_CODE_FILE, CL_CODE_NO_FILE, CL_CODE_SLOTS with sentences. */
int cl_hostplan_make(cl_plan *plan, const cl_options *options);
void cl_hostplan_free(cl_plan *plan);

/* Makes the hosts at these `count` places of plan->hosts.list the nodes of the plan, in this order, and numbers their
 * ranks: the nodes of an elastic job that take part in an attempt. The other entries of plan->nodes stay behind them,
 * so that a later call may take them again. 0, or CL_CODE_DISAGREE with a sentence, and an unchanged plan, when
 * `places` is not a list of different places of that list. */
int cl_hostplan_cut(cl_plan *plan, const int *places, int count);

/* Whether nodes call the first one, at master_port, instead of being called: --no_ssh, mpirun, srun. */
bool cl_hostplan_nodes_come(const cl_plan *plan);

/* MASTER_PORT of the ranks; 0: any free one. A port that was given is theirs while they run, also where nodes come to
 * it before and between attempts. */
int cl_hostplan_ranks_port(const cl_plan *plan);

/* SHA-256 or the like is not needed: 64 bits that differ when hosts, slots, program, arguments or versions differ. */
unsigned long long cl_hostplan_digest(const cl_plan *plan);

void cl_hostplan_print(const cl_plan *plan); /* a table, to stdout             */
/* nodes, world_size, master_..., command, env; memory: JSON text of its own, or NULL. */
void cl_hostplan_print_json(const cl_plan *plan, const char *memory);

#endif
