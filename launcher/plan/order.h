/* order.h - the order: everything that one node needs to start its ranks, and its encoding. A value may contain any
 * byte but NUL.
 *
 * The encoding is a list of NUL-terminated strings, each KEY followed by its VALUE. The items of a repeated key (arg,
 * env, slot) keep their order. An unknown key is an error, because all nodes must have the same version of cspeed. */
#ifndef CL_ORDER_H
#define CL_ORDER_H

#include "plan/hostplan.h"
#include "plan/mesh.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    char job[64], host[256];             /* host: the name of this node in the plan */
    int attempt, restarts, max_restarts; /* restarts: the restarts so far that count for --max_restarts */
    int node_rank, node_count;
    int first_rank, rank_count, world_size; /* rank_count: the number of ranks on this node */
    int *slots;                             /* [rank_count] the slot id of each rank */
    int *places;             /* [node_count] indices into the list of all hosts: the nodes of this attempt */
    int mesh_tp, mesh_shard; /* the sizes of these axes of the device mesh; 0: the mesh is not known */
    char master_addr[256];
    int master_port;
    /* on the first node: the interface whose address is reported as the master address; "": no interface was named */
    char master_if[64];
    /* the program and its arguments, NULL-terminated; arguments[0] is the name that the node looks up (node/program.h)
     */
    char **arguments;
    char **environment; /* variables "NAME=VALUE" that override the agent's environment; NULL-terminated */
    /* log_dir: the folder of the job's log files, with one subfolder for each attempt; "": no files are written */
    char workdir[PATH_MAX], log_dir[PATH_MAX];
    long long log_max;    /* the size in bytes at which a log file is rotated; 0: no limit */
    int bind;             /* a value of cl_bind */
    char core_list[1024]; /* the value of --bind_core_list; "": all cores */
    /* has_devices: the slots count as GPUs, and CUDA_VISIBLE_DEVICES is set from them */
    bool oversubscribe, has_devices;
    /* the flag that is appended to the arguments as FLAG=LOCAL_RANK; "": no flag is appended */
    char local_rank_flag[16];
    /* In seconds. grace_seconds: time between the stop signal and SIGKILL. dead_after: time without a message after
     * which the front process counts as lost; 0: never. */
    double grace_seconds, dead_after;
    int stop_signal;
    /* The key of the job's ranks, in hexadecimal. "": the ranks use a key derived from the node's own secret, or,
     * without a secret, no key. */
    char key[65];
    bool insecure;   /* true: ranks may communicate without a key */
    bool everywhere; /* true: the master port is reserved on every interface, not only on the loopback interface */
    bool verbose;
    int columns;      /* the width in columns of the terminal that shows the output; 0: no terminal shows it */
    char terminal[3]; /* which outputs of the ranks a terminal shows, by descriptor: "1", "2", "12", or "" for none */
    char venv_script[PATH_MAX];
} cl_order;

/* Sets *order to those fields of a node's order that are known before the job starts; its slots are those of the plan.
 * `mesh` is that of cl_mesh_find. */
void cl_order_plan(cl_order *order, const cl_plan *plan, const ce_mesh *mesh, int index);

/* Returns the encoded order as malloc'ed bytes; *length receives their number. */
char *cl_order_encode(const cl_order *order, size_t *length);

/* Decodes an order. The order owns copies of all texts and lists; cl_order_free frees them, and must be called after an
 * error too. Returns 0, or CL_CODE_SYSTEM or CL_CODE_DISAGREE with a message. */
int cl_order_decode(cl_order *order, const char *bytes, size_t length);
void cl_order_free(cl_order *order);
void cl_order_free_list(char **list); /* frees a NULL-terminated list and its malloc'ed texts; accepts NULL */

#endif
