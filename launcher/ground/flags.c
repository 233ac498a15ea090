/* flags.c - the table of launch flags. */
#include "ground/options.h"

#include "ground/spellings.h"

#define GROUP(title_)                                                                                                  \
    {                                                                                                                  \
        .names = "", .kind = CS_OPTION_GROUP, .text = title_                                                           \
    }
#define FLAG(kind_, names_, field_, value_, text_)                                                                     \
    {                                                                                                                  \
        CS_OPTION(kind_, names_, cl_options, field_, value_, text_)                                                    \
    }
#define CHECKED(check_, names_, field_, value_, text_)                                                                 \
    {                                                                                                                  \
        CS_OPTION(TAKE, names_, cl_options, field_, value_, text_), .take = cl_spellings_##check_                      \
    }
#define CALL(call_, names_, value_, sets_, text_)                                                                      \
    {                                                                                                                  \
        .names = names_, .kind = CS_OPTION_TAKE, .value = value_, .text = text_, .take = cl_spellings_##call_,         \
        .sets = sets_                                                                                                  \
    }
#define NOTE(kind_, names_, value_, text_)                                                                             \
    {                                                                                                                  \
        .names = names_, .kind = CS_OPTION_##kind_, .value = value_, .text = text_                                     \
    }

const cs_option cl_flags[] = {
    GROUP("Hosts and slots"),
    FLAG(TEXT, "hostfile H", hostfile, "FILE",
         "hosts and their slots: NAME slots=N; - is standard input. Default: /job/hostfile if there is one"),
    FLAG(TEXT, "hosts", hosts, "a:8,b:8", "the same on the command line"),
    CHECKED(maybe, "include i", include, "a:0,2-3@b", "only these hosts and slots; w-* and w-[0-3] are patterns"),
    CHECKED(maybe, "exclude e", exclude, "a:1@b", "not these; after --include"),
    CHECKED(nodes, "num_nodes nnodes", nodes, "N|MIN:MAX", "the first N hosts; MIN:MAX: an elastic job"),
    CHECKED(ranks, "num_gpus num_accelerators nproc_per_node", ranks, "N|gpu|cpu|auto",
            "ranks on each host, at most its slots; without a GPU a slot is a CPU rank. Default: all slots"),
    { CS_OPTION(TAKE, "devices", cl_options, devices, "N|0,1|auto",
                "Lightning's spelling, for this machine: --num_gpus N, or --include localhost:0,1"),
      .take = cl_spellings_devices, .sets = "num_gpus include" },
    FLAG(SWITCH, "oversubscribe", oversubscribe, NULL, "allow more ranks than slots"),
    FLAG(SWITCH, "standalone", standalone, NULL, "use only this machine, even if there is a hostfile"),

    GROUP("Master address and rendezvous"),
    CALL(address, "master_addr", "ADDR[:PORT]", NULL,
         "address of rank 0's host. Default: an address that a connection has confirmed"),
    CHECKED(port, "master_port", master_port, "P", "its port. Default: any free one; 29500 with --no_ssh"),
    FLAG(TEXT, "master_if", master_if, "IFNAME", "the interface of rank 0's host whose address is the master address"),
    CHECKED(job, "job_id rdzv_id", job_id, "ID",
            "the job's name, the same on every node. Default: random; with --no_ssh by address and port"),
    CHECKED(seconds, "rdzv_timeout", rdzv_timeout, "T", "how long nodes wait for each other. Default: 600"),
    CHECKED(seconds, "last_call", last_call, "T",
            "of an elastic job: how long to wait for more nodes after MIN have joined, and after a node has come to a "
            "running job, before its ranks are ended and start again with that node. Default: 30"),
    CHECKED(seconds, "heartbeat", heartbeat, "T", "interval of the heartbeat messages of a node. Default: 5"),
    CHECKED(seconds, "dead_after", dead_after, "T", "a node without heartbeat for this time is lost. Default: 15"),

    GROUP("Starting agents on nodes"),
    CALL(launcher, "launcher", "ssh|local|openmpi|mpich|slurm", NULL,
         "what starts an agent on each node; openmpi and mpich start the ranks themselves if these communicate by MPI. "
         "Default: local for this machine, srun in an allocation, else ssh"),
    CHECKED(maybe, "launcher_args", launcher_args, "WORDS", "more arguments for mpirun or srun"),
    FLAG(SWITCH, "force_multi", force_multi, NULL, "use ssh for this machine too"),
    FLAG(SWITCH, "no_ssh", no_ssh, NULL,
         "start only this node; run the same command on every node. Implied by --nnodes N with --node_rank and "
         "--master_addr, or with --rdzv_endpoint, where nothing names hosts"),
    CHECKED(node, "node_rank", node_rank, "R|auto", "of --no_ssh: which node this is. Default: auto, see the manual"),
    FLAG(TEXT, "secret_file", secret_file, "FILE",
         "of --no_ssh: the job's secret, 16 bytes or more. Default: $CSPEED_SECRET"),
    FLAG(SWITCH, "insecure_join", insecure_join, NULL, "of --no_ssh: let nodes join without a secret"),
    CHECKED(port, "ssh_port", ssh_port, "P", "port of sshd on every host"),
    FLAG(TEXT, "ssh_user", ssh_user, "NAME", "user name to log in with"),
    FLAG(TEXT, "ssh_key", ssh_key, "FILE", "private key to log in with"),
    FLAG(TEXT, "ssh_config", ssh_config, "FILE", "ssh configuration file. Default: ~/.ssh/config"),
    FLAG(TEXT, "ssh_cmd", ssh_cmd, "COMMAND", "program to use instead of libssh, such as 'ssh -J gate'"),
    FLAG(CHOICE, "host_key", host_key, "accept-new|strict|off", "what to do with unknown host keys"),
    FLAG(TEXT, "agent_path", agent_path, "FILE",
         "path of cspeed on the nodes. Default: the same path as here, then PATH"),
    FLAG(CHOICE, "preflight", preflight, "fast|off|full",
         "full: check every host first, as `cspeed check` does (versions, folders, files, clocks; not GPUs or the "
         "network between hosts); fast: use what the agents report"),
    FLAG(SWITCH, "no_ssh_check", no_ssh_check, NULL, "skip the full check of hosts before the start"),
    FLAG(TEXT, "workdir", workdir, "DIR",
         "working directory of the ranks; it must exist on every node. Default: the current one"),
    FLAG(TEXT, "venv_script", venv_script, "FILE",
         "a shell script that is sourced on each node; the ranks get its variables"),
    FLAG(LIST, "stage", stage, "FILE", "copy this small file to every node first; may be repeated"),

    GROUP("Environment of the ranks"),
    FLAG(LIST, "env", env, "K=V|K|PAT*", "send this variable; without =V its value on this machine; may be repeated"),
    FLAG(LIST, "env_file", env_files, "FILE", "send the variables of the file; may be repeated"),
    FLAG(SWITCH, "no_env_defaults", no_env_defaults, NULL, "send only the variables of --env and --env_file"),
    FLAG(SWITCH, "env_expand", env_expand, NULL, "expand ${NAME} in double quotes in env files"),

    GROUP("Cores"),
    CALL(bind, "bind", "auto|none|core|numa|socket|l3|list:R", "bind_core_list",
         "pin each rank to separate cores (auto: if there are enough), within a NUMA node, a socket, a cache"),
    FLAG(SWITCH, "bind_cores_to_rank", bind_cores_to_rank, NULL, "the same as --bind core"),
    CHECKED(range, "bind_core_list", bind_core_list, "0,2-4",
            "the cores to divide among ranks. Default: all allowed ones"),

    GROUP("Restarts, stopping, time-outs"),
    CHECKED(count, "max_restarts", max_restarts, "N", "number of restarts after failures and lost nodes. Default: 0"),
    CHECKED(seconds, "restart_delay", restart_delay, "T", "delay before the next attempt. Default: 5"),
    CHECKED(codes, "restart_on", restart_on, "any|CODES", "restart only after these exit codes: 75,137. Default: any"),
    FLAG(SWITCH, "elastic_training", elastic_training, NULL,
         "continue with fewer nodes if one is lost; see --num_nodes MIN:MAX"),
    CHECKED(count, "min_elastic_nodes", min_elastic_nodes, "N", "MIN of --num_nodes"),
    CHECKED(count, "max_elastic_nodes", max_elastic_nodes, "N", "MAX of --num_nodes"),
    CHECKED(seconds, "grace shutdown_timeout", grace_seconds, "T",
            "time between the stop signal and SIGKILL. Default: 30"),
    CHECKED(signal, "stop_signal", stop_signal, "SIG", "signal that asks ranks to end. Default: TERM"),
    CHECKED(signals, "forward", forward, "SIGS", "signals passed on to the ranks. Default: USR1,USR2"),
    CHECKED(seconds, "timeout", timeout_seconds, "T", "end the job after T (90, 15m, 2h, 1d) with exit code 124"),
    CHECKED(seconds, "stall_timeout", stall_timeout, "T",
            "report a stall if no rank makes progress for T. Default: 600"),
    FLAG(CHOICE, "stall_action", stall_action, "warn|dump|kill",
         "on a stall: report it, with the C stack of the rank that is waited for; report it with the C stacks of all "
         "ranks; or end the job"),
    FLAG(OPTIONAL, "save_pid", save_pid, "FILE", "write the launcher's pid to FILE. Default: /tmp/PID.cspeed"),

    GROUP("Output"),
    FLAG(TEXT, "log_dir", log_dir, "DIR", "files of every rank: DIR/attempt_N/RANK.out. Default: cspeed_runs/..."),
    CHECKED(size, "log_max", log_max, "SIZE", "rotate a rank's log file at this size: 100M"),
    CHECKED(console, "console", console, "all|dedup|first|none|RANKS", "ranks whose output is shown: 0,4-7"),
    CALL(rank_log, "enable_each_rank_log", "DIR", "log_dir console", "--log_dir DIR --console none"),
    FLAG(RAW, "prefix", prefix, "TEXT",
         "prefix of every line; {host} {rank} {local_rank} {node} {time} {stream} are replaced"),
    FLAG(SWITCH, "no_prefix", no_prefix, NULL, "no prefix"),
    FLAG(SWITCH, "timestamps", timestamps, NULL, "print the time before every line"),
    CALL(format, "log_format", "text|json", NULL, "json: one object for each line"),
    CHECKED(color, "color", color, "auto|always|never", "colour; auto: on a terminal, unless NO_COLOR is set"),
    CALL(level, "log_level", "debug|info|warning|error|critical", "quiet verbose", "level of cspeed's own messages"),
    FLAG(SWITCH, "quiet q", quiet, NULL, "do not print the start message"),
    FLAG(SWITCH, "verbose v", verbose, NULL, "also print each rank's pid and how it ended"),

    GROUP("Other"),
    FLAG(SWITCH, "dry_run", dry_run, NULL, "print the plan, and start nothing"),
    FLAG(SWITCH, "help h", help, NULL, "help"),
    FLAG(SWITCH, "version", version, NULL, "the version"),
    FLAG(SWITCH, "local_rank_arg", local_rank_arg, NULL, "add --local_rank=N to the program's arguments"),

    GROUP("Compatibility with DeepSpeed and torchrun"),
    CALL(endpoint, "rdzv_endpoint", "HOST[:PORT]", "master_addr master_port",
         "--master_addr HOST --master_port PORT; in an elastic job the port of the nodes alone, not of the ranks"),
    CALL(conf, "rdzv_conf", "K=V,...", "rdzv_timeout last_call heartbeat",
         "join_timeout, timeout, last_call_timeout, keep_alive_interval"),
    CALL(numa, "numa_binding", "node|socket|core-complex|exclusive", "bind", "--bind numa, socket, l3, core"),
    CHECKED(
        streams, "redirects r", redirects, "0|1|2|3|R:S,...",
        "show no stdout (1), stderr (2), or neither (3), of every rank or of local rank R; files are always written"),
    CHECKED(streams, "tee t", tee, "0|1|2|3|R:S,...", "show these streams even if --redirects names them"),
    NOTE(REFUSED, "rdzv_backend", "static|c10d", "the launcher has its own rendezvous"),
    NOTE(REFUSED, "role", "default", "every rank has the same role; --prefix names lines"),
    NOTE(REFUSED, "signals_to_handle", "SIGTERM,SIGINT,SIGHUP,SIGQUIT", "these four are always handled, and no others"),
    NOTE(REFUSED, "stdin", "none", "ranks have no standard input"),
    NOTE(INERT, "no_python", NULL, "programs are always executed directly"),
    NOTE(INERT, "no_local_rank use_env", NULL, "ranks get LOCAL_RANK, and the argument only with --local_rank_arg"),
    NOTE(INERT, "monitor_interval", "S", "ranks are monitored by events, not at intervals"),
    NOTE(INERT, "start_method", "NAME", "programs are always executed, never forked functions"),

    GROUP("Known, and not supported"),
    NOTE(REFUSED, "module m", NULL, "programs are executed directly; write python3 -m MODULE"),
    NOTE(REFUSED, "run_path", NULL, "programs are executed directly; write python3 FILE"),
    NOTE(REFUSED, "autotuning", "*", "there is no tuner"),
    NOTE(REFUSED, "local_ranks_filter", "*", "--console selects the ranks to show, by global rank"),
    NOTE(REFUSED, "duplicate_stdout_filters duplicate_stderr_filters", "*", "grep finds lines in the ranks' files"),
    NOTE(REFUSED, "event_log_handler logs_specs", "*", "there are no plug-ins"),
    NOTE(REFUSED, "virtual_local_rank", NULL,
         "a rank sees all devices of its node and takes the one of its LOCAL_RANK"),
    NOTE(REFUSED, "local_addr", "*",
         "the launcher uses addresses that connections have confirmed; --master_addr sets another"),
    NOTE(REFUSED, "health_port", "*", "`cspeed status JOB` shows the state of a job"),
    NOTE(REFUSED, "spare", "*", "there are no spare nodes; an elastic job accepts nodes that join later"),
    NOTE(REFUSED, "restart_dead_node", NULL, "a lost node may join an elastic job again by itself"),
    NOTE(REFUSED, "backend", "*", "the program opens the communication; `train` takes --backend behind its name"),
    NOTE(REFUSED, "profile", "*", "flags are set on the command line and in CSPEED_ variables"),
};

const int cl_flags_count = (int)(sizeof cl_flags / sizeof *cl_flags);
