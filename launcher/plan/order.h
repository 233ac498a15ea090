/* order.h - what one node is told to do, as data: any byte but NUL arrives as it left.
 *
 * The encoding is a list of NUL-terminated strings, KEY then VALUE; keys that repeat (arg, env, slot) keep their order.
 * An unknown key is an error: versions of cspeed must agree. */
#ifndef CL_ORDER_H
#define CL_ORDER_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    char job[64], host[256]; /* host: this node's name in the plan */
    int attempt, max_restarts;
    int node_rank, node_count;
    int first_rank, rank_count, world_size; /* rank_count: of this node */
    int *slots;                             /* [rank_count] */
    int *places; /* [node_count], of the nodes of this attempt: their places in the list of hosts that was given */
    char master_addr[256];
    int master_port;
    char master_if[64]; /* of the first node: the interface whose address it is to tell; "": none */
    char **arguments;   /* NULL-terminated; arguments[0] names the program, found on the node as program.h says */
    char **environment; /* "NAME=VALUE" to set, over what the agent itself has; NULL-terminated                */
    char workdir[PATH_MAX], log_dir[PATH_MAX]; /* log_dir: "" for no files; else of this job, attempts below it */
    long long log_max;                         /* bytes of a file before it is rotated; 0: no limit           */
    int bind;                                  /* a cl_bind  */
    char core_list[1024];                      /* --bind_core_list; "": all */
    bool oversubscribe, has_devices;           /* has_devices: slots are GPUs, CUDA_VISIBLE_DEVICES is theirs  */
    char local_rank_flag[16];                  /* FLAG=N is appended to the arguments, N: LOCAL_RANK; "": not */
    double grace_seconds,
        dead_after; /* dead_after: seconds of silence after which the front is taken for lost; 0: never */
    int stop_signal;
    char key[65];    /* the job's key for its ranks, in hexadecimal; "": from the node's own secret, or none */
    bool insecure;   /* ranks may talk without a key        */
    bool many_hosts; /* the job has ranks on other hosts    */
    bool verbose;
    int columns; /* of the terminal output is shown on; 0: none */
    char venv_script[PATH_MAX];
} cl_order;

/* Returns malloc'ed bytes and their number. */
char *cl_order_encode(const cl_order *order, size_t *length);

/* 0, or CL_CODE_SYSTEM, CL_CODE_DISAGREE with a sentence. The order owns what it points to. */
int cl_order_decode(cl_order *order, const char *bytes, size_t length);
void cl_order_free(cl_order *order);

#endif
