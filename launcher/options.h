/* options.h - The launch flags: arguments before the command or program on the command line.
 *
 * One table in flags.c, which cspeed/options.h reads, contains every flag: its names (also those of DeepSpeed and
 * torchrun), its type, its help, or why it is refused. There are no abbreviations, so a flag added later never changes
 * the meaning of an existing script. Reading stops at the first word that is not a flag, or after `--`; the rest
 * belongs to the program and is passed on unchanged.
 *
 * A flag that is absent is looked up in the environment as CSPEED_<NAME>, then as PET_<NAME> if torchrun has it. */
#ifndef CL_OPTIONS_H
#define CL_OPTIONS_H

#include "cspeed/options.h"

typedef enum { CL_BIND_AUTO, CL_BIND_NONE, CL_BIND_CORE, CL_BIND_NUMA, CL_BIND_SOCKET, CL_BIND_L3 } cl_bind;
typedef enum { CL_BY_AUTO, CL_BY_LOCAL, CL_BY_SSH, CL_BY_OPENMPI, CL_BY_MPICH, CL_BY_SLURM } cl_launch_by;
typedef enum { CL_HOST_KEY_ACCEPT_NEW, CL_HOST_KEY_STRICT, CL_HOST_KEY_OFF } cl_host_key;
typedef enum { CL_STALL_WARN, CL_STALL_DUMP, CL_STALL_KILL } cl_stall_action;
typedef enum { CL_PREFLIGHT_FAST, CL_PREFLIGHT_OFF, CL_PREFLIGHT_FULL } cl_preflight;

/* All pointers point into argv or the environment. NULL and 0 mean "not given" unless a comment says otherwise. */
typedef struct {
    /* hosts and slots */
    const char *hostfile, *hosts, *include, *exclude;
    const char *nodes;   /* --num_nodes, --nnodes: "N" or "MIN:MAX"                    */
    const char *ranks;   /* --num_gpus, --nproc_per_node: "N", "gpu", "cpu" or "auto"  */
    const char *devices; /* --devices: "N", "0,1" or "auto"; cl_options_read sets `ranks` or `include` from it */
    bool oversubscribe, standalone;
    int min_elastic_nodes, max_elastic_nodes;
    bool elastic_training;

    /* master address (rendezvous) */
    const char *master_addr, *master_if;
    int master_port; /* -1: not given; 0: any free port */
    bool endpoint;   /* --rdzv_endpoint gave both */
    const char *job_id;
    /* seconds; the defaults are 600, 30, 5 and 15, respectively */
    double rdzv_timeout, last_call, heartbeat, dead_after;

    /* start of the agents */
    int launcher; /* a cl_launch_by */
    const char *launcher_args;
    bool no_ssh, no_ssh_check, force_multi, insecure_join;
    const char *node_rank; /* "N" or "auto" */
    const char *secret_file;
    int ssh_port; /* 0: not given */
    const char *ssh_user, *ssh_key, *ssh_config, *ssh_cmd, *agent_path;
    int host_key;  /* a cl_host_key  */
    int preflight; /* a cl_preflight */
    const char *workdir, *venv_script;
    cs_option_list stage;

    /* environment */
    cs_option_list env, env_files;
    bool no_env_defaults, env_expand;

    /* binding */
    int bind; /* a cl_bind */
    bool bind_cores_to_rank;
    const char *bind_core_list;

    /* restarts, stop, time-outs */
    int max_restarts;
    double restart_delay;                  /* seconds; default 5 */
    const char *restart_on;                /* "any", or exit codes separated by commas */
    double grace_seconds;                  /* seconds; default 30 */
    int stop_signal;                       /* default SIGTERM */
    const char *forward;                   /* signals that are passed on to ranks: "USR1,USR2" */
    double timeout_seconds, stall_timeout; /* in seconds; timeout_seconds 0: none; stall_timeout: default 600 */
    int stall_action;                      /* a cl_stall_action */
    const char *save_pid;                  /* path of a file; "": /tmp/PID.cspeed */

    /* output and logs */
    const char *log_dir; /* NULL: cspeed_runs/<date>_<job> */
    const char *log_max; /* size in bytes at which a rank's log file is rotated: "100M" */
    const char *console; /* all, dedup, first, none, or ranks: "0,4-7" */
    const char *prefix;
    bool no_prefix, timestamps, log_json;
    const char *color; /* auto, always, never */
    bool quiet, verbose, dry_run, help, version;

    /* flags of `run`, and the program */
    bool local_rank_arg;
    const char *local_rank_flag; /* FLAG=N is added to the program's arguments; NULL: nothing is added */

    char **argv;    /* the whole command line */
    char **program; /* part of argv: the command or program, and its arguments; program[0] is NULL if there is none */
} cl_options;

/* The rows are in the order of the help. The field `sets` of a row names the other flags that this flag also sets,
 * separated by spaces. */
extern const cs_option cl_flags[];
extern const int cl_flags_count;

/* Sets `options` from argv and the environment. Returns 0, or CL_CODE_USAGE with a message in cs_error(). */
int cl_options_read(cl_options *options, char **argv);

/* Returns the source of a flag's value: "--name", "CSPEED_NAME", "PET_NAME" or "default". */
const char *cl_options_origin(const char *name);

/* Calls each(name, value, origin, argument) for every given flag, in the table's order; value is NULL for a switch. */
void cl_options_given(void (*each)(const char *name, const char *value, const char *origin, void *argument),
                      void *argument);

/* Calls each(name, flag, argument) for every name of every flag; for completion and the man page. */
void cl_options_each(void (*each)(const char *name, const cs_option *flag, void *argument), void *argument);

#endif
