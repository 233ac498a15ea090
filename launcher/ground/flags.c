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
         "file with a line NAME slots=N for each host; - is standard input. Default: /job/hostfile if there is one"),
    FLAG(TEXT, "hosts", hosts, "a:8,b:8", "the hosts and their slots, on the command line. Default: the hostfile"),
    CHECKED(maybe, "include i", include, "a:0,2-3@b",
            "use only these hosts and slots; w-* and w-[0-3] are patterns. Default: all"),
    CHECKED(maybe, "exclude e", exclude, "a:1@b", "do not use these hosts and slots; applied after --include"),
    CHECKED(nodes, "num_nodes nnodes", nodes, "N|MIN:MAX",
            "use the first N hosts; MIN:MAX makes an elastic job, which runs with MIN to MAX hosts. Default: all"),
    CHECKED(ranks, "num_gpus num_accelerators nproc_per_node", ranks, "N|gpu|cpu|auto",
            "number of ranks on each host, at most its slots; without a GPU each rank computes on the CPU. Default: "
            "all slots"),
    { CS_OPTION(TAKE, "devices", cl_options, devices, "N|0,1|auto",
                "as in Lightning, for this machine: N is the same as --num_gpus N, and 0,1 as --include localhost:0,1"),
      .take = cl_spellings_devices, .sets = "num_gpus include" },
    FLAG(SWITCH, "oversubscribe", oversubscribe, NULL, "allow more ranks than slots"),
    FLAG(SWITCH, "standalone", standalone, NULL, "use only this machine, even if there is a hostfile"),

    GROUP("Master address and rendezvous"),
    CALL(address, "master_addr", "ADDR[:PORT]", NULL,
         "address of rank 0's host. Default: an address that a connection has confirmed"),
    CHECKED(port, "master_port", master_port, "P",
            "port of the master address. Default: any free port; 29500 with --no_ssh"),
    FLAG(TEXT, "master_if", master_if, "IFNAME",
         "name of the network interface of rank 0's host whose address is the master address"),
    CHECKED(job, "job_id rdzv_id", job_id, "ID",
            "name of the job, the same on every node. Default: random; with --no_ssh derived from the master address "
            "and port"),
    CHECKED(seconds, "rdzv_timeout", rdzv_timeout, "T",
            "seconds that nodes wait for each other at the start; 90s, 15m and 2h are other units. Default: 600"),
    CHECKED(seconds, "last_call", last_call, "T",
            "with an elastic job, seconds to wait for more nodes after MIN have joined; and, when a node joins a "
            "running job, the seconds until the ranks end and start again with it. Default: 30"),
    CHECKED(seconds, "heartbeat", heartbeat, "T", "seconds between the heartbeat messages of a node. Default: 5"),
    CHECKED(seconds, "dead_after", dead_after, "T",
            "seconds without a heartbeat after which a node is lost. Default: 15"),

    GROUP("Starting agents on nodes"),
    CALL(launcher, "launcher", "ssh|local|openmpi|mpich|slurm", NULL,
         "what starts an agent, which starts the ranks, on each node; if the ranks communicate by MPI, openmpi and "
         "mpich start the ranks without agents. Default: local for this machine, slurm if the hosts are those of a "
         "Slurm allocation, otherwise ssh"),
    CHECKED(maybe, "launcher_args", launcher_args, "WORDS",
            "more arguments for mpirun or srun, quoted as one word: '--oversubscribe --bind-to none'"),
    FLAG(SWITCH, "force_multi", force_multi, NULL, "use ssh for this machine too"),
    FLAG(SWITCH, "no_ssh", no_ssh, NULL,
         "start only the ranks of this node; run the same command on every node. Implied by --nnodes N together with "
         "--node_rank and --master_addr, or with --rdzv_endpoint, if nothing names hosts"),
    CHECKED(node, "node_rank", node_rank, "R|auto",
            "with --no_ssh, the number of this node, from 0. Default: auto, found by the host's name or address; "
            "see the manual"),
    FLAG(TEXT, "secret_file", secret_file, "FILE",
         "with --no_ssh, file with the secret of the job, 16 bytes or more, the same on every node. Default: the "
         "environment variable CSPEED_SECRET"),
    FLAG(SWITCH, "insecure_join", insecure_join, NULL, "with --no_ssh, let nodes join without a secret"),
    CHECKED(port, "ssh_port", ssh_port, "P",
            "port of sshd on every host. Default: that of the ssh configuration, otherwise 22"),
    FLAG(TEXT, "ssh_user", ssh_user, "NAME",
         "user name to log in with. Default: that of the ssh configuration, otherwise yours"),
    FLAG(TEXT, "ssh_key", ssh_key, "FILE",
         "private key to log in with. Default: the keys of the ssh configuration and of the ssh agent"),
    FLAG(TEXT, "ssh_config", ssh_config, "FILE", "ssh configuration file. Default: ~/.ssh/config"),
    FLAG(TEXT, "ssh_cmd", ssh_cmd, "COMMAND", "program to use instead of libssh, such as 'ssh -J gate'"),
    FLAG(CHOICE, "host_key", host_key, "accept-new|strict|off",
         "accept-new: store the keys of unknown hosts; strict: refuse unknown hosts; off: do not check host "
         "keys. Default: accept-new"),
    FLAG(TEXT, "agent_path", agent_path, "FILE",
         "path of cspeed on the nodes. Default: the same path as here, then PATH"),
    FLAG(CHOICE, "preflight", preflight, "fast|off|full",
         "full: check every host before the start, as `cspeed check` does (versions, folders, files, clocks; not "
         "GPUs or the network between hosts); fast and off: no separate check, agents report problems when they "
         "start. Default: fast"),
    FLAG(SWITCH, "no_ssh_check", no_ssh_check, NULL, "do not make the full check of hosts before the start"),
    FLAG(TEXT, "workdir", workdir, "DIR",
         "working directory of the ranks; it must exist on every node. Default: the current one"),
    FLAG(TEXT, "venv_script", venv_script, "FILE",
         "a shell script that is sourced on each node; the ranks get its variables"),
    FLAG(LIST, "stage", stage, "FILE",
         "copy this file, of at most 16 MiB, to every node before the start; may be repeated"),

    GROUP("Environment of the ranks"),
    FLAG(LIST, "env", env, "K=V|K|PAT*",
         "send this variable to the ranks; without =V, with its value on this machine; PAT* stands for "
         "several; may be repeated"),
    FLAG(LIST, "env_file", env_files, "FILE", "send the variables of the file to the ranks; may be repeated"),
    FLAG(SWITCH, "no_env_defaults", no_env_defaults, NULL,
         "send only the variables of --env and --env_file, not those that `cspeed env` lists from the "
         "environment and from .deepspeed_env"),
    FLAG(SWITCH, "env_expand", env_expand, NULL,
         "replace ${NAME} by the value of the variable, inside double quotes in files of variables"),

    GROUP("Cores"),
    CALL(bind, "bind", "auto|none|core|numa|socket|l3|list:R", "bind_core_list",
         "core: bind each rank to separate cores; numa, socket, l3: to separate cores within one NUMA node, socket "
         "or L3 cache; list:R: to separate cores of the list R; none: bind no rank; auto: as core, but bind no rank "
         "if there are too few cores. Default: auto"),
    FLAG(SWITCH, "bind_cores_to_rank", bind_cores_to_rank, NULL, "the same as --bind core"),
    CHECKED(range, "bind_core_list", bind_core_list, "0,2-4",
            "the cores to divide among the ranks. Default: all cores that this process may use"),

    GROUP("Restarts, stopping, time-outs"),
    CHECKED(count, "max_restarts", max_restarts, "N",
            "number of restarts after failures and lost nodes; some exit codes are final. Default: 0"),
    CHECKED(seconds, "restart_delay", restart_delay, "T", "seconds between a failure and the next start. Default: 5"),
    CHECKED(codes, "restart_on", restart_on, "any|CODES",
            "restart only after these exit codes, for example 75,137. Default: any"),
    FLAG(SWITCH, "elastic_training", elastic_training, NULL,
         "make the job elastic: it continues with fewer nodes if one is lost; see --num_nodes MIN:MAX"),
    CHECKED(count, "min_elastic_nodes", min_elastic_nodes, "N",
            "smallest number of nodes of an elastic job, MIN of --num_nodes. Default: 1"),
    CHECKED(count, "max_elastic_nodes", max_elastic_nodes, "N",
            "greatest number of nodes of an elastic job, MAX of --num_nodes. Default: all"),
    CHECKED(seconds, "grace shutdown_timeout", grace_seconds, "T",
            "seconds between the stop signal and SIGKILL. Default: 30"),
    CHECKED(signal, "stop_signal", stop_signal, "SIG", "signal that asks the ranks to end. Default: TERM"),
    CHECKED(signals, "forward", forward, "SIGS", "signals passed on to the ranks. Default: USR1,USR2"),
    CHECKED(seconds, "timeout", timeout_seconds, "T",
            "end the job with exit code 124 after T seconds; 15m, 2h and 1d are other units. Default: no limit"),
    CHECKED(seconds, "stall_timeout", stall_timeout, "T",
            "report a stall if no rank makes progress for T seconds. Default: 600"),
    FLAG(CHOICE, "stall_action", stall_action, "warn|dump|kill",
         "on a stall, warn: report it, with the C stack of the rank that the others wait for; dump: with the C "
         "stacks of all ranks; kill: end the job. Default: warn"),
    FLAG(TEXT, "on_end", on_end, "COMMAND",
         "when the job has ended in any way, run this shell command once, on this machine, for at most 60 s. Its "
         "variables: CSPEED_JOB, CSPEED_EXIT_CODE, CSPEED_WHY (the reason) and CSPEED_RESULT (path of result.json)"),
    FLAG(OPTIONAL, "save_pid", save_pid, "FILE", "write the launcher's pid to FILE. Default: /tmp/PID.cspeed"),

    GROUP("Output"),
    FLAG(TEXT, "log_dir", log_dir, "DIR",
         "folder for the output of every rank: DIR/attempt_N/RANK.out and RANK.err. Default: "
         "cspeed_runs/DATE_TIME_JOB"),
    CHECKED(size, "log_max", log_max, "SIZE",
            "begin a new log file of a rank at this size, for example 100M. Default: no limit"),
    CHECKED(console, "console", console, "all|dedup|first|none|RANKS",
            "ranks whose output is shown, for example 0,4-7; first: rank 0; dedup: all ranks, and a line that "
            "several ranks print only once. Default: dedup on a terminal, otherwise all"),
    CALL(rank_log, "enable_each_rank_log", "DIR", "log_dir console", "the same as --log_dir DIR --console none"),
    FLAG(RAW, "prefix", prefix, "TEXT",
         "text before every line of a rank's output; {host} {rank} {local_rank} {node} {time} {stream} are replaced"),
    FLAG(SWITCH, "no_prefix", no_prefix, NULL, "print no text before the lines of the ranks"),
    FLAG(SWITCH, "timestamps", timestamps, NULL, "print the time before every line"),
    FLAG(CHOICE, "log_format", log_json, "text|json", "json: print each line as a JSON object. Default: text"),
    CHECKED(color, "color", color, "auto|always|never",
            "print colours; auto: on a terminal, unless NO_COLOR is set. Default: auto"),
    CALL(level, "log_level", "debug|info|warning|error|critical", "quiet verbose",
         "print only messages of cspeed of this level and above. Default: info"),
    FLAG(SWITCH, "quiet q", quiet, NULL, "do not print the start message"),
    FLAG(SWITCH, "verbose v", verbose, NULL, "also print each rank's pid and how it ended"),

    GROUP("Other"),
    FLAG(SWITCH, "dry_run", dry_run, NULL, "print the plan of the job, and start nothing, as `cspeed plan` does"),
    FLAG(SWITCH, "help h", help, NULL, "print the launch flags and commands"),
    FLAG(SWITCH, "version", version, NULL, "print the version"),
    FLAG(SWITCH, "local_rank_arg", local_rank_arg, NULL, "add --local_rank=N to the program's arguments"),

    GROUP("Compatibility with DeepSpeed and torchrun"),
    CALL(endpoint, "rdzv_endpoint", "HOST[:PORT]", "master_addr master_port",
         "the same as --master_addr HOST --master_port PORT; with an elastic job, PORT is where nodes join, and the "
         "ranks use another port"),
    CALL(conf, "rdzv_conf", "K=V,...", "rdzv_timeout last_call heartbeat",
         "settings of torchrun's rendezvous: join_timeout and timeout set --rdzv_timeout, last_call_timeout sets "
         "--last_call, keep_alive_interval sets --heartbeat"),
    CALL(numa, "numa_binding", "node|socket|core-complex|exclusive", "bind",
         "the same as --bind numa, socket, l3 or core, in this order"),
    CHECKED(
        streams, "redirects r", redirects, "0|1|2|3|R:S,...",
        "do not show stdout (1), stderr (2) or both (3) of every rank, or of local rank R; the log files are always "
        "written"),
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
