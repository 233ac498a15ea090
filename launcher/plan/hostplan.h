/* hostplan.h - the complete plan of a job, made before anything is started: nodes, ranks, master address, environment.
 */
#ifndef CL_HOSTPLAN_H
#define CL_HOSTPLAN_H

#include "plan/env.h"
#include "plan/hosts.h"

#include <limits.h>

typedef struct {
    const cl_host *host;
    /* true: the node is this machine, and its agent is a child of this process; false with --force_multi */
    bool here;
    int first_rank; /* the ranks of the node are first_rank .. first_rank + host->slot_count - 1 */
} cl_plan_node;

typedef struct {
    const cl_options *options;
    /* a value of cl_launch_by, from --launcher; else CL_BY_SLURM if the hosts are those of a Slurm allocation */
    int launcher;
    cl_hosts hosts;
    cl_env env;
    /* [hosts.count] entries, one for each host; the first node_count entries are the nodes of the plan */
    cl_plan_node *nodes;
    int node_count, rank_count;
    int min_nodes, max_nodes; /* the limits of an elastic job; both are node_count if the job is not elastic */
    /* with --no_ssh the number of this machine's node, or -1 if it is not known yet; otherwise 0 */
    int node_rank;
    char id[64];           /* the job id: the value of --job_id, or 8 hexadecimal digits */
    char master_addr[256]; /* the master address; "" until the first node has reported it */
    int master_port;       /* the port; 0: any free port of the first node */
    /* true: given by --master_port or MASTER_PORT; false for the port of --rdzv_endpoint in an elastic job */
    bool master_port_given;
    char **arguments; /* the program and its arguments; arguments[0] is the program as the user named it */
    char workdir[PATH_MAX];
    bool no_ssh;
    bool named;       /* true: the hosts come from a hostfile, --hosts or a Slurm allocation */
    bool has_devices; /* true: the slots count as GPUs, and the ranks get CUDA_VISIBLE_DEVICES */
    /* the sources of master_addr, master_port and node_rank, as text for `cspeed plan` */
    char master_addr_origin[64], master_port_origin[64], node_rank_origin[64];
} cl_plan;

/* Decides hosts, slots, ranks, limits of an elastic job, node number (--no_ssh), and addresses as far as they are
 * known. Starts nothing and opens no connection. Returns 0, or CL_CODE_USAGE, CL_CODE_FILE, CL_CODE_NO_FILE,
 * CL_CODE_SLOTS or CL_CODE_SYSTEM with a message. */
int cl_hostplan_make(cl_plan *plan, const cl_options *options);
void cl_hostplan_free(cl_plan *plan);

/* Chooses the nodes of an elastic job that take part in an attempt. `places` has `count` indices of plan->hosts.list.
 * The hosts at these indices become the nodes of the plan, in this order, and their ranks are numbered. The other
 * entries of plan->nodes are kept after the chosen ones, so that a later call can choose from all entries. Returns 0.
 * If `places` is not a list of distinct valid indices, returns CL_CODE_DISAGREE with a message and does not change the
 * plan. */
int cl_hostplan_cut(cl_plan *plan, const int *places, int count);

/* The name of an environment variable that every rank gets. Its value lists how many ranks each node has, in the order
 * of the plan: "2,4". HYBRID_SHARD needs this variable, because each group of HYBRID_SHARD consists of the ranks of one
 * host. */
#define CL_HOST_RANKS "CSPEED_HOST_RANKS"
/* Returns the value of the variable CSPEED_HOST_RANKS, malloc'ed. */
char *cl_hostplan_host_ranks(const cl_plan *plan);

/* Returns true if the nodes connect to master_port of the first node (--no_ssh, mpirun, srun). Returns false if the
 * front process connects to the nodes. */
bool cl_hostplan_nodes_come(const cl_plan *plan);

/* Returns the MASTER_PORT of the ranks; 0 means any free port. A port that the user gave has two uses: the ranks use it
 * while they run, and nodes may connect to it before the first attempt and between two attempts. */
int cl_hostplan_ranks_port(const cl_plan *plan);

/* Returns a 64-bit digest (not cryptographic) of the version of cspeed and of the plan's hosts, slots, program,
 * arguments and limits of an elastic job. */
unsigned long long cl_hostplan_digest(const cl_plan *plan);

void cl_plan_print(const cl_plan *plan); /* prints the plan as a table to stdout */
/* Prints the plan as JSON: nodes, world_size, master_..., command and env. `memory` is JSON text to insert, or NULL. */
void cl_plan_print_json(const cl_plan *plan, const char *memory);

#endif
