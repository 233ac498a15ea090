/* flags.c - The table of launch flags. */
#include "flags.h"

#include "spellings.h"

#include <stdio.h>
#include <string.h>

#define FIELD(name) offsetof(cl_options, name)
#define GROUP(title)                                                                                                   \
    {                                                                                                                  \
        "", CL_FLAG_INERT, 0, NULL, title, NULL, NULL, NULL, true                                                      \
    }
#define SWITCH(names, field, text)                                                                                     \
    {                                                                                                                  \
        names, CL_FLAG_SWITCH, FIELD(field), NULL, text, NULL, NULL, NULL, false                                       \
    }
#define BARE(names, field, text)                                                                                       \
    {                                                                                                                  \
        names, CL_FLAG_SWITCH, FIELD(field), NULL, text, NULL, NULL, NULL, true                                        \
    }
#define VALUE(names, kind, field, value, text)                                                                         \
    {                                                                                                                  \
        names, CL_FLAG_##kind, FIELD(field), value, text, NULL, NULL, NULL, false                                      \
    }
#define LIST(names, field, value, text)                                                                                \
    {                                                                                                                  \
        names, CL_FLAG_LIST, FIELD(field), value, text, NULL, NULL, NULL, true                                         \
    }
#define CHECKED(names, field, value, check, text)                                                                      \
    {                                                                                                                  \
        names, CL_FLAG_CHECKED, FIELD(field), value, text, cl_spellings_##check, NULL, NULL, false                     \
    }
#define CALL(names, value, call, sets, text)                                                                           \
    {                                                                                                                  \
        names, CL_FLAG_CALL, 0, value, text, NULL, cl_spellings_##call, sets, false                                    \
    }
#define INERT(names, value, text)                                                                                      \
    {                                                                                                                  \
        names, CL_FLAG_INERT, 0, value, text, NULL, NULL, NULL, false                                                  \
    }
#define REFUSED(names, value, text)                                                                                    \
    {                                                                                                                  \
        names, CL_FLAG_REFUSED, 0, value, text, NULL, NULL, NULL, false                                                \
    }

const cl_flag cl_flags_table[] = {
    GROUP("Hosts and slots"),
    VALUE("hostfile H", TEXT, hostfile, "FILE",
          "hosts and their slots: NAME slots=N; - is standard input. Default: /job/hostfile if there is one"),
    VALUE("hosts", TEXT, hosts, "a:8,b:8", "the same on the command line"),
    VALUE("include i", MAYBE, include, "a:0,2-3@b", "only these hosts and slots; w-* and w-[0-3] are patterns"),
    VALUE("exclude e", MAYBE, exclude, "a:1@b", "not these; after --include"),
    CHECKED("num_nodes +nnodes", nodes, "N|MIN:MAX", nodes, "the first N hosts; MIN:MAX: an elastic job"),
    CHECKED("num_gpus num_accelerators +nproc_per_node", ranks, "N|gpu|cpu|auto", ranks,
            "ranks on each host, at most its slots; without a GPU a slot is a CPU rank. Default: all slots"),
    SWITCH("oversubscribe", oversubscribe, "allow more ranks than slots; they are then not pinned"),
    SWITCH("+standalone", standalone, "use only this machine, even if there is a hostfile"),

    GROUP("Master address and rendezvous"),
    VALUE("+master_addr", MAYBE, master_addr, "ADDR",
          "address of rank 0's host. Default: an address that a connection has confirmed"),
    VALUE("+master_port", PORT, master_port, "P", "its port. Default: any free one; 29500 with --no_ssh"),
    VALUE("master_if", TEXT, master_if, "IFNAME", "the interface of rank 0's host whose address is the master address"),
    CHECKED("job_id +rdzv_id", job_id, "ID", job, "the job's name, the same on every node. Default: random"),
    VALUE("rdzv_timeout", SECONDS, rdzv_timeout, "T", "how long nodes wait for each other. Default: 600"),
    VALUE("last_call", SECONDS, last_call, "T",
          "of an elastic job: how long to wait for more nodes after MIN have joined. Default: 30"),
    VALUE("heartbeat", SECONDS, heartbeat, "T", "interval of the heartbeat messages of a node. Default: 5"),
    VALUE("dead_after", SECONDS, dead_after, "T", "a node without heartbeat for this time is lost. Default: 15"),

    GROUP("Starting agents on nodes"),
    CALL("launcher", "ssh|local|openmpi|mpich|slurm", launcher, NULL,
         "what starts an agent on each node. Default: local for this machine, srun in an allocation, else ssh"),
    VALUE("launcher_args", MAYBE, launcher_args, "WORDS", "more arguments for mpirun or srun"),
    SWITCH("force_multi", force_multi, "use ssh for this machine too"),
    SWITCH("no_ssh", no_ssh, "start only this node; run the same command on every node"),
    CHECKED("+node_rank", node_rank, "R|auto", node, "of --no_ssh: which node this is. Default: auto, see the manual"),
    VALUE("secret_file", TEXT, secret_file, "FILE",
          "of --no_ssh: the job's secret, 16 bytes or more. Default: $CSPEED_SECRET"),
    SWITCH("insecure_join", insecure_join, "of --no_ssh: let nodes join without a secret"),
    VALUE("ssh_port", PORT, ssh_port, "P", "port of sshd on every host"),
    VALUE("ssh_user", TEXT, ssh_user, "NAME", "user name to log in with"),
    VALUE("ssh_key", TEXT, ssh_key, "FILE", "private key to log in with"),
    VALUE("ssh_config", TEXT, ssh_config, "FILE", "ssh configuration file. Default: ~/.ssh/config"),
    VALUE("ssh_cmd", TEXT, ssh_cmd, "COMMAND", "program to use instead of libssh, such as 'ssh -J gate'"),
    VALUE("host_key", CHOICE, host_key, "accept-new|strict|off", "what to do with unknown host keys"),
    VALUE("agent_path", TEXT, agent_path, "FILE",
          "path of cspeed on the nodes. Default: the same path as here, then PATH"),
    VALUE("preflight", CHOICE, preflight, "fast|off|full",
          "full: check every host first, as `cspeed check` does (versions, folders, files, clocks; not GPUs or the "
          "network between hosts); fast: use what the agents report"),
    SWITCH("no_ssh_check", no_ssh_check, "skip the full check of hosts before the start"),
    VALUE("workdir", TEXT, workdir, "DIR",
          "working directory of the ranks; it must exist on every node. Default: the current one"),
    VALUE("venv_script", TEXT, venv_script, "FILE",
          "a shell script that is sourced on each node; the ranks get its variables"),
    LIST("stage", stage, "FILE", "copy this small file to every node first; may be repeated"),

    GROUP("Environment of the ranks"),
    LIST("env", env, "K=V|K|PAT*", "send this variable; without =V its value on this machine; may be repeated"),
    LIST("env_file", env_files, "FILE", "send the variables of the file; may be repeated"),
    SWITCH("no_env_defaults", no_env_defaults, "send only the variables of --env and --env_file"),
    SWITCH("env_expand", env_expand, "expand ${NAME} in double quotes in env files"),

    GROUP("Cores"),
    CALL("bind", "auto|none|core|numa|socket|l3|list:R", bind, "bind_core_list",
         "pin each rank to separate cores (auto: if there are enough), within a NUMA node, a socket, a cache"),
    SWITCH("bind_cores_to_rank", bind_cores_to_rank, "the same as --bind core"),
    CHECKED("bind_core_list", bind_core_list, "0,2-4", range,
            "the cores to divide among ranks. Default: all allowed ones"),

    GROUP("Restarts, stopping, time-outs"),
    VALUE("+max_restarts", COUNT, max_restarts, "N", "number of restarts after failures. Default: 0"),
    VALUE("restart_delay", SECONDS, restart_delay, "T", "delay before the next attempt. Default: 5"),
    CHECKED("restart_on", restart_on, "any|CODES", codes, "restart only after these exit codes: 75,137. Default: any"),
    SWITCH("elastic_training", elastic_training, "continue with fewer nodes if one is lost; see --num_nodes MIN:MAX"),
    VALUE("min_elastic_nodes", COUNT, min_elastic_nodes, "N", "MIN of --num_nodes"),
    VALUE("max_elastic_nodes", COUNT, max_elastic_nodes, "N", "MAX of --num_nodes"),
    VALUE("grace +shutdown_timeout", SECONDS, grace_seconds, "T",
          "time between the stop signal and SIGKILL. Default: 30"),
    VALUE("stop_signal", SIGNAL, stop_signal, "SIG", "signal that asks ranks to end. Default: TERM"),
    CHECKED("forward", forward, "SIGS", signals, "signals passed on to the ranks. Default: USR1,USR2"),
    VALUE("timeout", SECONDS, timeout_seconds, "T", "end the job after T (90, 15m, 2h, 1d) with exit code 124"),
    VALUE("stall_timeout", SECONDS, stall_timeout, "T", "report the ranks that made no progress for T. Default: 600"),
    VALUE("stall_action", CHOICE, stall_action, "warn|dump|kill",
          "on a stall: only report it, report it with a C stack, or end the job"),
    { "save_pid", CL_FLAG_OPTIONAL, FIELD(save_pid), "FILE",
      "write the launcher's pid to FILE. Default: /tmp/PID.cspeed", NULL, NULL, NULL, false },

    GROUP("Output"),
    VALUE("+log_dir", TEXT, log_dir, "DIR", "files of every rank: DIR/attempt_N/RANK.out. Default: cspeed_runs/..."),
    CHECKED("log_max", log_max, "SIZE", size, "rotate a rank's log file at this size: 100M"),
    CHECKED("console", console, "all|dedup|first|none|RANKS", console, "ranks whose output is shown: 0,4-7"),
    CALL("enable_each_rank_log", "DIR", rank_log, "log_dir console", "--log_dir DIR --console none"),
    VALUE("prefix", RAW, prefix, "TEXT",
          "prefix of every line; {host} {rank} {local_rank} {node} {time} {stream} are replaced"),
    SWITCH("no_prefix", no_prefix, "no prefix"),
    SWITCH("timestamps", timestamps, "print the time before every line"),
    CALL("log_format", "text|json", format, NULL, "json: one object for each line"),
    CHECKED("color", color, "auto|always|never", color, "colour; auto: on a terminal, unless NO_COLOR is set"),
    CALL("log_level", "debug|info|warning|error|critical", level, "quiet verbose", "level of cspeed's own messages"),
    SWITCH("quiet q", quiet, "do not print the start message"),
    SWITCH("verbose v", verbose, "also print each rank's pid and how it ended"),

    GROUP("Other"),
    BARE("dry_run", dry_run, "print the plan, and start nothing"),
    BARE("help h", help, "help"),
    BARE("version", version, "the version"),
    SWITCH("local_rank_arg", local_rank_arg, "add --local_rank=N to the program's arguments"),

    GROUP("Compatibility with DeepSpeed and torchrun"),
    CALL("+rdzv_endpoint", "HOST[:PORT]", endpoint, "master_addr master_port", "--master_addr HOST --master_port PORT"),
    CALL("+rdzv_conf", "K=V,...", conf, "rdzv_timeout last_call heartbeat",
         "join_timeout, timeout, last_call_timeout, keep_alive_interval"),
    CALL("+numa_binding", "node|socket|core-complex|exclusive", numa, "bind", "--bind numa, socket, l3, core"),
    CALL("+redirects r", "0|3", redirects, "console", "3: --console none, since files are always written"),
    REFUSED("+tee t", "0|3",
            "both streams of every rank are always written to files and shown; --console selects ranks"),
    REFUSED("+rdzv_backend", "static|c10d", "the launcher has its own rendezvous"),
    REFUSED("+role", "default", "every rank has the same role; --prefix names lines"),
    REFUSED("+signals_to_handle", "SIGTERM,SIGINT,SIGHUP,SIGQUIT", "these four are always handled, and no others"),
    REFUSED("stdin", "none", "ranks have no standard input"),
    INERT("+no_python", NULL, "programs are always executed directly"),
    INERT("no_local_rank use_env", NULL, "ranks get LOCAL_RANK, and the argument only with --local_rank_arg"),
    INERT("+monitor_interval", "S", "ranks are monitored by events, not at intervals"),
    INERT("+start_method", "NAME", "programs are always executed, never forked functions"),

    GROUP("Known, and not supported"),
    REFUSED("+module m", NULL, "programs are executed directly; write python3 -m MODULE"),
    REFUSED("+run_path", NULL, "programs are executed directly; write python3 FILE"),
    REFUSED("autotuning", "*", "there is no tuner"),
    REFUSED("+local_ranks_filter", "*", "--console selects the ranks to show, by global rank"),
    REFUSED("+duplicate_stdout_filters +duplicate_stderr_filters", "*", "grep finds lines in the ranks' files"),
    REFUSED("+event_log_handler +logs_specs", "*", "there are no plug-ins"),
    REFUSED("+virtual_local_rank", NULL, "a rank sees all devices of its node and takes the one of its LOCAL_RANK"),
    REFUSED("+local_addr", "*",
            "the launcher uses addresses that connections have confirmed; --master_addr sets another"),
    REFUSED("health_port", "*", "`cspeed status JOB` shows the state of a job"),
    REFUSED("spare", "*", "there are no spare nodes; an elastic job accepts nodes that join later"),
    REFUSED("restart_dead_node", NULL, "a lost node may join an elastic job again by itself"),
    REFUSED("profile", "*", "flags are set on the command line and in CSPEED_ variables"),
};

const int cl_flags_count = (int)(sizeof cl_flags_table / sizeof *cl_flags_table);

bool cl_flags_name(const char **place, char name[CL_FLAGS_NAME], bool *twin)
{
    size_t length = strcspn(*place, " ");
    if (length == 0)
        return false;
    *twin = **place == '+';
    snprintf(name, CL_FLAGS_NAME, "%.*s", (int)length - *twin, *place + *twin);
    *place += length;
    *place += **place == ' ';
    return true;
}

const cl_flag *cl_flags_find(const char *name)
{
    char own[CL_FLAGS_NAME];
    bool twin;
    for (int i = 0; i < cl_flags_count; i++)
        for (const char *place = cl_flags_table[i].names; cl_flags_name(&place, own, &twin);)
            if (strcmp(own, name) == 0)
                return &cl_flags_table[i];
    return NULL;
}

bool cl_flags_takes_value(const cl_flag *flag)
{
    return flag->value && flag->kind != CL_FLAG_OPTIONAL;
}

int cl_flags_choice(const char *choices, const char *value)
{
    size_t length = strlen(value);
    for (int index = 0;; index++) {
        size_t word = strcspn(choices, "|");
        if (word == length && strncmp(choices, value, word) == 0)
            return index;
        if (choices[word] == '\0')
            return -1;
        choices += word + 1;
    }
}
