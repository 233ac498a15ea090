/* options.h - the launch flags: what stands before the command or program on the command line.
 *
 * One table in options.c holds every flag: its names (DeepSpeed's and torchrun's too), its type, its help,
 * or why it is refused. `--foo_bar` is `--foo-bar`, `--x v` is `--x=v`; there are no abbreviations, so a
 * later flag never changes what a script of today means. Reading stops at the first word that is no flag, or
 * behind `--`; the rest belongs to the program, byte for byte.
 *
 * A flag that is absent is looked up as CSPEED_<NAME> in the environment, then as PET_<NAME> where torchrun has it. */
#ifndef CS_LAUNCHER_OPTIONS_H
#define CS_LAUNCHER_OPTIONS_H

#include <stdbool.h>

typedef enum { CS_BIND_AUTO, CS_BIND_NONE, CS_BIND_CORE, CS_BIND_NUMA, CS_BIND_SOCKET, CS_BIND_L3 } cs_bind;
typedef enum { CS_BY_AUTO, CS_BY_LOCAL, CS_BY_SSH, CS_BY_OPENMPI, CS_BY_MPICH, CS_BY_SLURM } cs_launch_by;
typedef enum { CS_HOST_KEY_ACCEPT_NEW, CS_HOST_KEY_STRICT, CS_HOST_KEY_OFF } cs_host_key;
typedef enum { CS_STALL_WARN, CS_STALL_DUMP, CS_STALL_KILL } cs_stall_action;
typedef enum { CS_PREFLIGHT_FAST, CS_PREFLIGHT_OFF, CS_PREFLIGHT_FULL } cs_preflight;

enum { CS_OPTION_REPEATS = 64 };

/* The values of a flag that may be given several times, in order. */
typedef struct {
    const char *list[CS_OPTION_REPEATS];
    int         count;
} cs_repeated;

/* Every pointer is into argv or the environment; NULL and 0 mean "not given" unless said. */
typedef struct {
    /* which hosts and slots */
    const char *hostfile, *hosts, *include, *exclude;
    const char *nodes;     /* --num_nodes, --nnodes: "N" or "MIN:MAX"                    */
    const char *ranks;     /* --num_gpus, --nproc_per_node: "N", "gpu", "cpu" or "auto"  */
    bool        oversubscribe, standalone;
    int         min_elastic_nodes, max_elastic_nodes;
    bool        elastic_training;

    /* where they meet */
    const char *master_addr, *master_if;
    int         master_port; /* -1: not given; 0: any free one */
    const char *job_id;
    double      rdzv_timeout, last_call, heartbeat, dead_after; /* seconds: 600, 30, 5, 15 */

    /* how agents are started */
    int         launcher; /* a cs_launch_by */
    const char *launcher_args;
    bool        no_ssh, no_ssh_check, force_multi, insecure_join;
    const char *node_rank; /* "N" or "auto" */
    const char *secret_file;
    int         ssh_port; /* 0: not given */
    const char *ssh_user, *ssh_key, *ssh_config, *ssh_cmd, *agent_path;
    int         host_key;  /* a cs_host_key  */
    int         preflight; /* a cs_preflight */
    const char *workdir, *venv_script;
    cs_repeated stage;

    /* environment */
    cs_repeated env, env_files;
    bool        no_env_defaults, env_expand;

    /* binding */
    int         bind; /* a cs_bind */
    bool        bind_cores_to_rank;
    const char *bind_core_list;

    /* life and death */
    int         max_restarts;
    double      restart_delay; /* 5 */
    const char *restart_on;    /* "any", or exit codes separated by commas */
    double      grace_seconds; /* 30 */
    int         stop_signal;   /* SIGTERM */
    const char *forward;       /* signals passed on to ranks: "USR1,USR2" */
    double      timeout_seconds, stall_timeout; /* 0: none; 600 */
    int         stall_action;                   /* a cs_stall_action */
    const char *save_pid;                       /* a file; "" : /tmp/PID.cspeed */

    /* what is shown and kept */
    const char *log_dir;  /* NULL: cspeed_runs/<date>_<job> */
    const char *log_max;  /* bytes of a rank's file before it is rotated: "100M" */
    const char *console;  /* all, dedup, first, none, or ranks: "0,4-7" */
    const char *prefix;
    bool        no_prefix, timestamps, log_json;
    const char *color;    /* auto, always, never */
    bool        quiet, verbose, dry_run, help, version;

    /* of `run` and of programs */
    bool        local_rank_arg;
    const char *local_rank_flag; /* of FLAG=N in the program's arguments; NULL: none is added */

    char **argv;    /* the whole command line */
    char **program; /* the command or program and its arguments, in argv; its first may be NULL */
} cs_options;

/* Fills `options` from argv and the environment. 0, or CS_CODE_USAGE and a sentence in cs_error(). */
int cs_options_read(cs_options *options, char **argv);

void cs_options_help(void); /* every flag, grouped, to stdout */

/* Where the value of the flag with this name came from: "--name", "CSPEED_NAME", "PET_NAME" or "default". */
const char *cs_options_origin(const char *name);

/* Calls each(name, value, origin, argument) for every flag given, in the table's order; value NULL: a switch. */
void cs_options_given(void (*each)(const char *name, const char *value, const char *origin, void *argument),
                      void *argument);

/* The flags with their help, for completion and the man page: calls each(name, takes_value, value, text, argument). */
void cs_options_each(void (*each)(const char *name, const char *value, const char *text, void *argument),
                     void *argument);

#endif
