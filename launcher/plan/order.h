/* order.h - The order: everything that one node needs to start its ranks, and its encoding. Values may hold any byte
 * but NUL.
 *
 * The encoding is a list of NUL-terminated strings, KEY then VALUE; repeated keys (arg, env, slot) keep their order.
 * An unknown key is an error, because all nodes must have the same version of cspeed. */
#ifndef CL_ORDER_H
#define CL_ORDER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    char job[64], host[256];             /* host: name of this node in the plan */
    int attempt, restarts, max_restarts; /* restarts: the attempts that --max_restarts counts */
    int node_rank, node_count;
    int first_rank, rank_count, world_size; /* rank_count: ranks of this node */
    int *slots;                             /* [rank_count] */
    int *places; /* [node_count], the nodes of this attempt, as indices into the list of all hosts */
    char master_addr[256];
    int master_port;
    char master_if[64]; /* first node: report the address of this interface as master address; "": none */
    char **arguments;   /* NULL-terminated; arguments[0] names the program, which the node looks up (node/program.h) */
    char **environment; /* "NAME=VALUE", set over the agent's own environment; NULL-terminated */
    /* log_dir: folder of this job's log files, with one subfolder for each attempt; "": no files */
    char workdir[PATH_MAX], log_dir[PATH_MAX];
    long long log_max;    /* size in bytes at which a log file is rotated; 0: no limit */
    int bind;             /* a cl_bind  */
    char core_list[1024]; /* --bind_core_list; "": all cores */
    /* has_devices: slots are GPUs and CUDA_VISIBLE_DEVICES is set from them */
    bool oversubscribe, has_devices;
    /* FLAG=LOCAL_RANK is appended to the arguments; "": nothing is appended */
    char local_rank_flag[16];
    /* grace_seconds: time between the stop signal and SIGKILL; dead_after: time without a message after which the
     * front counts as lost, 0: never; both in seconds */
    double grace_seconds, dead_after;
    int stop_signal;
    /* Key of the ranks of the job, in hexadecimal; "": the ranks use a key from the node's own secret, or no key. */
    char key[65];
    bool insecure;   /* ranks may communicate without a key */
    bool many_hosts; /* the job has ranks on other hosts    */
    bool verbose;
    int columns;      /* columns of the terminal that shows the output; 0: no terminal */
    char terminal[3]; /* the descriptors whose text that terminal shows: "1", "2" or "12" */
    char venv_script[PATH_MAX];
} cl_order;

/* Returns the encoding as malloc'ed bytes, and its length. */
char *cl_order_encode(const cl_order *order, size_t *length);

/* Returns 0, or CL_CODE_SYSTEM, CL_CODE_DISAGREE with a message. The order owns the memory that it points to. */
int cl_order_decode(cl_order *order, const char *bytes, size_t length);
void cl_order_free(cl_order *order);
void cl_order_free_list(char **list); /* NULL-terminated, with its malloc'ed texts; accepts NULL */

#endif
