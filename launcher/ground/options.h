/* options.h - the launch flags: arguments before the command or program on the command line.
 *
 * One table in flags.c, which the functions of cspeed/options.h read, contains every flag: its names (also those of
 * DeepSpeed and torchrun), its type, and its help text; or the reason why the flag is refused. Flags cannot be
 * abbreviated, so a flag added later never changes the meaning of an existing script. Reading stops at the first word
 * that is not a flag, or after `--`; the rest belongs to the program and is passed on unchanged.
 *
 * The value of a flag that is not on the command line is taken from the environment variable CSPEED_<NAME>, or else
 * from PET_<NAME> if torchrun has the flag. */
#ifndef CL_OPTIONS_H
#define CL_OPTIONS_H

#include "cspeed/options.h"

typedef enum { CL_BIND_AUTO, CL_BIND_NONE, CL_BIND_CORE, CL_BIND_NUMA, CL_BIND_SOCKET, CL_BIND_L3 } cl_bind;
typedef enum { CL_BY_AUTO, CL_BY_LOCAL, CL_BY_SSH, CL_BY_OPENMPI, CL_BY_MPICH, CL_BY_SLURM } cl_launch_by;
typedef enum { CL_HOST_KEY_ACCEPT_NEW, CL_HOST_KEY_STRICT, CL_HOST_KEY_OFF } cl_host_key;
typedef enum { CL_STALL_WARN, CL_STALL_DUMP, CL_STALL_KILL } cl_stall_action;
typedef enum { CL_PREFLIGHT_FAST, CL_PREFLIGHT_OFF, CL_PREFLIGHT_FULL } cl_preflight;

/* The struct does not own the texts, which are in argv, in the environment or in static memory. NULL and 0 mean that
 * the flag was not given, unless a comment says otherwise. */
typedef struct {
    /* ---- hosts and slots ---- */
    const char *hostfile, *hosts, *include, *exclude;
    const char *nodes; /* value of --num_nodes or --nnodes: "N" or "MIN:MAX" */
    const char *ranks; /* value of --num_gpus or --nproc_per_node: "N", "gpu", "cpu" or "auto" */
    /* value of --devices: "N", "0,1" or "auto"; cl_options_read stores it in `ranks` or `include` */
    const char *devices;
    bool oversubscribe, standalone;
    int min_elastic_nodes, max_elastic_nodes;
    bool elastic_training;

    /* ---- master address and port ---- */
    const char *master_addr, *master_if;
    int master_port; /* the value of --master_port or --rdzv_endpoint; -1: not given; 0: any free port */
    bool endpoint;   /* true: --rdzv_endpoint gave the address and the port */
    const char *job_id;
    /* four durations in seconds; the defaults are 600, 30, 5 and 15, in this order */
    double rdzv_timeout, last_call, heartbeat, dead_after;

    /* ---- how agents are started ---- */
    int launcher; /* a value of cl_launch_by */
    const char *launcher_args;
    bool no_ssh, no_ssh_check, force_multi, insecure_join;
    const char *node_rank; /* the value of --node_rank: a number such as "3", or "auto" */
    const char *secret_file;
    int ssh_port; /* the port of sshd; 0: not given */
    const char *ssh_user, *ssh_key, *ssh_config, *ssh_cmd, *agent_path;
    int host_key;  /* a value of cl_host_key */
    int preflight; /* a value of cl_preflight */
    const char *workdir, *venv_script;
    cs_option_list stage;

    /* ---- environment ---- */
    cs_option_list env, env_files;
    bool no_env_defaults, env_expand;

    /* ---- binding ---- */
    int bind; /* a value of cl_bind */
    bool bind_cores_to_rank;
    const char *bind_core_list;

    /* ---- restarts, end, time limits ---- */
    int max_restarts;
    double restart_delay; /* in seconds; the default is 5 */
    /* the exit codes that lead to a restart: "any", which is the default, or codes separated by commas */
    const char *restart_on;
    double grace_seconds; /* in seconds; the default is 30 */
    int stop_signal;      /* the default is SIGTERM */
    const char *forward;  /* the signals that are passed on to ranks; the default is "USR1,USR2" */
    /* time limits in seconds; timeout_seconds 0: no limit; the default of stall_timeout is 600 */
    double timeout_seconds, stall_timeout;
    int stall_action;     /* a value of cl_stall_action */
    const char *on_end;   /* the shell command that runs when the job has ended; NULL: none */
    const char *save_pid; /* path of the file with the process id; "": /tmp/PID.cspeed */

    /* ---- output and logs ---- */
    const char *log_dir; /* folder of the log files; NULL: cspeed_runs/<date>_<job> */
    const char *log_max; /* the size in bytes at which a rank's log file is rotated, for example "100M" */
    const char *console; /* the output to show: "all", "dedup", "first" or "none", or ranks such as "0,4-7" */
    /* torchrun's streams that go to files only, and those that are shown nevertheless: cl_spellings_streams_of */
    const char *redirects, *tee;
    const char *prefix;
    bool no_prefix, timestamps;
    int log_json;      /* 1: --log_format json */
    const char *color; /* "auto", which is the default, "always" or "never" */
    bool quiet, verbose, dry_run, help, version;

    /* ---- flags of `run`, and the program ---- */
    bool local_rank_arg;
    /* FLAG=N is added to the program's arguments, N being the local rank; NULL: no flag is added */
    const char *local_rank_flag;

    char **argv; /* the whole command line, NULL-terminated */
    /* the part of argv that begins with the command or program; program[0] is NULL if there is no such part */
    char **program;
} cl_options;

/* The table of launch flags, in the order of the help. The member `sets` of a row has the names of other flags that
 * this flag also sets, separated by spaces. */
extern const cs_option cl_flags[];
extern const int cl_flags_count;

/* Reads the flags from argv and the environment. Returns 0, or CL_CODE_USAGE with a message in cs_error(). */
int cl_options_read(cl_options *options, char **argv);

/* Returns the source from which the value of the flag `name` comes: "--name", "CSPEED_NAME", "PET_NAME" or "default".
 */
const char *cl_options_origin(const char *name);

/* Calls each(name, value, origin, argument) for every flag that was given, in the table's order. `value` is NULL for a
 * flag without a value. */
void cl_options_given(void (*each)(const char *name, const char *value, const char *origin, void *argument),
                      void *argument);

/* Calls each(name, flag, argument) for every name of every flag. Used for completion and for the manual page. */
void cl_options_each(void (*each)(const char *name, const cs_option *flag, void *argument), void *argument);

#endif
