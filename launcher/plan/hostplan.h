/* hostplan.h - The complete plan of a job, made before anything is started: nodes, ranks, master address,
 * environment. */
#ifndef CL_HOSTPLAN_H
#define CL_HOSTPLAN_H

#include "plan/env.h"
#include "plan/hosts.h"

#include <limits.h>

typedef struct {
    const cl_host *host;
    bool here;      /* this machine: its agent is a child process, unless --force_multi is given */
    int first_rank; /* its ranks are first_rank .. first_rank + host->slot_count - 1 */
} cl_plan_node;

typedef struct {
    const cl_options *options;
    int launcher; /* a cl_launch_by: --launcher; without it CL_BY_SLURM if the hosts are those of an allocation */
    cl_hosts hosts;
    cl_env env;
    cl_plan_node *nodes; /* [hosts.count], one for each host; the first node_count of them are the nodes of the plan */
    int node_count, rank_count;
    int min_nodes, max_nodes; /* elastic bounds; both are node_count if the job is not elastic */
    int node_rank;            /* rank of this machine's node under --no_ssh, otherwise 0; -1: not known yet */
    char id[64];              /* --job_id, or 8 random hex digits                             */
    char master_addr[256];    /* "" until the first node reports its address */
    int master_port;          /* 0: any free port of the first node */
    bool master_port_given;   /* given by --master_port or MASTER_PORT; false for an elastic job's --rdzv_endpoint */
    char **arguments;         /* of the program; arguments[0] is the name as the user gave it */
    char workdir[PATH_MAX];
    bool no_ssh;
    bool named;       /* the hosts come from a hostfile, --hosts or an allocation */
    bool has_devices; /* slots are GPUs: ranks get CUDA_VISIBLE_DEVICES */
    char master_addr_origin[64], master_port_origin[64], node_rank_origin[64]; /* for `cspeed plan` */
} cl_plan;

/* Decides hosts, slots, ranks, elastic bounds, node rank (--no_ssh) and addresses as far as they are known. Starts
 * nothing and opens no connection. Returns 0, or CL_CODE_USAGE, CL_CODE_FILE, CL_CODE_NO_FILE, CL_CODE_SLOTS with a
 * message. */
int cl_hostplan_make(cl_plan *plan, const cl_options *options);
void cl_hostplan_free(cl_plan *plan);

/* Selects the hosts at these `count` indices of plan->hosts.list as the nodes of the plan, in this order, and numbers
 * their ranks. They are the nodes of an elastic job that take part in an attempt. The other entries of plan->nodes are
 * kept after them, so that a later call can select them again. Returns 0; if `places` is not a list of distinct valid
 * indices, CL_CODE_DISAGREE with a message, and the plan is unchanged. */
int cl_hostplan_cut(cl_plan *plan, const int *places, int count);

/* The environment variable of ranks with the numbers of ranks of all nodes, such as "2,4", in the order of the plan, and
 * its value, malloc'ed. HYBRID_SHARD needs it, because its groups are the ranks of a host. */
#define CL_HOST_RANKS "CSPEED_HOST_RANKS"
char *cl_hostplan_host_ranks(const cl_plan *plan);

/* Returns true if the nodes connect to the first one at master_port (--no_ssh, mpirun, srun), instead of the front
 * connecting to them. */
bool cl_hostplan_nodes_come(const cl_plan *plan);

/* Returns MASTER_PORT of the ranks; 0 means any free port. A port that the user gave has two uses: the ranks use it
 * while they run, and nodes may connect to it before an attempt and between attempts. */
int cl_hostplan_ranks_port(const cl_plan *plan);

/* Returns a 64-bit digest (not cryptographic) that differs if hosts, slots, program, arguments or versions differ. */
unsigned long long cl_hostplan_digest(const cl_plan *plan);

void cl_plan_print(const cl_plan *plan); /* prints a table to stdout */
/* Prints JSON with nodes, world_size, master_..., command and env. `memory` is JSON text to insert, or NULL. */
void cl_plan_print_json(const cl_plan *plan, const char *memory);

#endif
