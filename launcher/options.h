/* options.h - the launch flags: what stands before the command or program on the command line.
 *
 * One table in options.c holds every flag: its names (DeepSpeed's and torchrun's too), its type, its help,
 * or why it is refused. `--foo_bar` is `--foo-bar`, `--x v` is `--x=v`; there are no abbreviations, so a
 * later flag never changes what a script of today means. Reading stops at the first word that is no flag, or
 * behind `--`; the rest belongs to the program, byte for byte.
 *
 * A flag that is absent is looked up as CSPEED_<NAME> in the environment, then as PET_<NAME> where torchrun has it. */
#ifndef CL_OPTIONS_H
#define CL_OPTIONS_H

#include <stdbool.h>

typedef enum { CL_BIND_AUTO, CL_BIND_NONE, CL_BIND_CORE, CL_BIND_NUMA, CL_BIND_SOCKET, CL_BIND_L3 } cl_bind;
typedef enum { CL_BY_AUTO, CL_BY_LOCAL, CL_BY_SSH, CL_BY_OPENMPI, CL_BY_MPICH, CL_BY_SLURM } cl_launch_by;
typedef enum { CL_HOST_KEY_ACCEPT_NEW, CL_HOST_KEY_STRICT, CL_HOST_KEY_OFF } cl_host_key;
typedef enum { CL_STALL_WARN, CL_STALL_DUMP, CL_STALL_KILL } cl_stall_action;
typedef enum { CL_PREFLIGHT_FAST, CL_PREFLIGHT_OFF, CL_PREFLIGHT_FULL } cl_preflight;

enum { CL_OPTION_REPEATS = 64 };

/* The values of a flag that may be given several times, in order. */
typedef struct {
    const char *list[CL_OPTION_REPEATS];
    int count;
} cl_repeated;

/* Every pointer is into argv or the environment; NULL and 0 mean "not given" unless said. */
typedef struct {
    /* which hosts and slots */
    const char *hostfile, *hosts, *include, *exclude;
    const char *nodes; /* --num_nodes, --nnodes: "N" or "MIN:MAX"                    */
    const char *ranks; /* --num_gpus, --nproc_per_node: "N", "gpu", "cpu" or "auto"  */
    bool oversubscribe, standalone;
    int min_elastic_nodes, max_elastic_nodes;
    bool elastic_training;

    /* where they meet */
    const char *master_addr, *master_if;
    int master_port; /* -1: not given; 0: any free one */
    const char *job_id;
    double rdzv_timeout, last_call, heartbeat, dead_after; /* seconds: 600, 30, 5, 15 */

    /* how agents are started */
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
    cl_repeated stage;

    /* environment */
    cl_repeated env, env_files;
    bool no_env_defaults, env_expand;

    /* binding */
    int bind; /* a cl_bind */
    bool bind_cores_to_rank;
    const char *bind_core_list;

    /* life and death */
    int max_restarts;
    double restart_delay;                  /* 5 */
    const char *restart_on;                /* "any", or exit codes separated by commas */
    double grace_seconds;                  /* 30 */
    int stop_signal;                       /* SIGTERM */
    const char *forward;                   /* signals passed on to ranks: "USR1,USR2" */
    double timeout_seconds, stall_timeout; /* 0: none; 600 */
    int stall_action;                      /* a cl_stall_action */
    const char *save_pid;                  /* a file; "" : /tmp/PID.cspeed */

    /* what is shown and kept */
    const char *log_dir; /* NULL: cspeed_runs/<date>_<job> */
    const char *log_max; /* bytes of a rank's file before it is rotated: "100M" */
    const char *console; /* all, dedup, first, none, or ranks: "0,4-7" */
    const char *prefix;
    bool no_prefix, timestamps, log_json;
    const char *color; /* auto, always, never */
    bool quiet, verbose, dry_run, help, version;

    /* of `run` and of programs */
    bool local_rank_arg;
    const char *local_rank_flag; /* of FLAG=N in the program's arguments; NULL: none is added */

    char **argv;    /* the whole command line */
    char **program; /* the command or program and its arguments, in argv; its first may be NULL */
} cl_options;

/* Fills `options` from argv and the environment. 0, or CL_CODE_USAGE and a sentence in cs_error(). */
int cl_options_read(cl_options *options, char **argv);

void cl_options_help(void); /* every flag, grouped, to stdout */

/* Where the value of the flag with this name came from: "--name", "CSPEED_NAME", "PET_NAME" or "default". */
const char *cl_options_origin(const char *name);

/* Calls each(name, value, origin, argument) for every flag given, in the table's order; value NULL: a switch. */
void cl_options_given(void (*each)(const char *name, const char *value, const char *origin, void *argument),
                      void *argument);

/* The flags with their help, for completion and the man page: calls each(name, takes_value, value, text, argument). */
void cl_options_each(void (*each)(const char *name, const char *value, const char *text, void *argument),
                     void *argument);

#endif
