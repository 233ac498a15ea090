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
    SWITCH("+standalone", standalone, "this machine alone, whatever hostfile there is"),

    GROUP("Where the ranks meet"),
    VALUE("+master_addr", MAYBE, master_addr, "ADDR", "address of rank 0's host. Default: proved by connecting to it"),
    VALUE("+master_port", PORT, master_port, "P", "its port. Default: any free one; 29500 with --no_ssh"),
    VALUE("master_if", TEXT, master_if, "IFNAME", "the interface of rank 0's host whose address it is"),
    CHECKED("job_id +rdzv_id", job_id, "ID", job, "the job's name, the same on every node. Default: random"),
    VALUE("rdzv_timeout", SECONDS, rdzv_timeout, "T", "how long nodes wait for each other. Default: 600"),
    VALUE("last_call", SECONDS, last_call, "T",
          "of an elastic job: how long after MIN nodes more may come. Default: 30"),
    VALUE("heartbeat", SECONDS, heartbeat, "T", "between signs of life of a node. Default: 5"),
    VALUE("dead_after", SECONDS, dead_after, "T", "a node that was silent this long is lost. Default: 15"),

    GROUP("How nodes are reached"),
    CALL("launcher", "ssh|local|openmpi|mpich|slurm", launcher, NULL,
         "what starts an agent on each node. Default: local for this machine, srun in an allocation, else ssh"),
    VALUE("launcher_args", MAYBE, launcher_args, "WORDS", "more arguments for mpirun or srun"),
    SWITCH("force_multi", force_multi, "ssh even to this machine"),
    SWITCH("no_ssh", no_ssh, "act as this node alone; the same command runs on every node"),
    CHECKED("+node_rank", node_rank, "R|auto", node, "of --no_ssh: which node this is. Default: auto, see the manual"),
    VALUE("secret_file", TEXT, secret_file, "FILE",
          "of --no_ssh: the job's secret, 16 bytes or more. Default: $CSPEED_SECRET"),
    SWITCH("insecure_join", insecure_join, "of --no_ssh: let nodes join without a secret"),
    VALUE("ssh_port", PORT, ssh_port, "P", "of sshd on every host"),
    VALUE("ssh_user", TEXT, ssh_user, "NAME", "whom to log in as"),
    VALUE("ssh_key", TEXT, ssh_key, "FILE", "private key to log in with"),
    VALUE("ssh_config", TEXT, ssh_config, "FILE", "instead of ~/.ssh/config"),
    VALUE("ssh_cmd", TEXT, ssh_cmd, "COMMAND", "this program instead of libssh, such as 'ssh -J gate'"),
    VALUE("host_key", CHOICE, host_key, "accept-new|strict|off", "what to do with unknown host keys"),
    VALUE("agent_path", TEXT, agent_path, "FILE", "where cspeed is on the nodes. Default: where it is here, then PATH"),
    VALUE("preflight", CHOICE, preflight, "fast|off|full",
          "full: every host first, as `cspeed check` does (versions, folders, files, clocks; not GPUs or the network "
          "between hosts); fast: what agents tell"),
    SWITCH("no_ssh_check", no_ssh_check, "no deep check of hosts before the start"),
    VALUE("workdir", TEXT, workdir, "DIR", "where ranks run; it must be on every node. Default: here"),
    VALUE("venv_script", TEXT, venv_script, "FILE", "a shell script whose variables ranks get, sourced on each node"),
    LIST("stage", stage, "FILE", "copy this small file to every node first; may be repeated"),

    GROUP("Environment of the ranks"),
    LIST("env", env, "K=V|K|PAT*", "send this variable; without =V the value here; may be repeated"),
    LIST("env_file", env_files, "FILE", "send what the file says; may be repeated"),
    SWITCH("no_env_defaults", no_env_defaults, "send only what --env and --env_file say"),
    SWITCH("env_expand", env_expand, "expand ${NAME} in double quotes in env files"),

    GROUP("Cores"),
    CALL("bind", "auto|none|core|numa|socket|l3|list:R", bind, "bind_core_list",
         "pin each rank to cores of its own (auto: if there are enough), inside a NUMA node, a socket, a cache"),
    SWITCH("bind_cores_to_rank", bind_cores_to_rank, "the same as --bind core"),
    CHECKED("bind_core_list", bind_core_list, "0,2-4", range, "the cores that ranks divide. Default: all allowed"),

    GROUP("Life and death"),
    VALUE("+max_restarts", COUNT, max_restarts, "N", "start again so often after a failure. Default: 0"),
    VALUE("restart_delay", SECONDS, restart_delay, "T", "before the next attempt. Default: 5"),
    CHECKED("restart_on", restart_on, "any|CODES", codes, "only after these exit codes: 75,137. Default: any"),
    SWITCH("elastic_training", elastic_training, "go on with fewer nodes when one is lost; see --num_nodes MIN:MAX"),
    VALUE("min_elastic_nodes", COUNT, min_elastic_nodes, "N", "MIN of --num_nodes"),
    VALUE("max_elastic_nodes", COUNT, max_elastic_nodes, "N", "MAX of --num_nodes"),
    VALUE("grace +shutdown_timeout", SECONDS, grace_seconds, "T", "from the stop signal to SIGKILL. Default: 30"),
    VALUE("stop_signal", SIGNAL, stop_signal, "SIG", "what asks ranks to end. Default: TERM"),
    CHECKED("forward", forward, "SIGS", signals, "signals passed on to the ranks. Default: USR1,USR2"),
    VALUE("timeout", SECONDS, timeout_seconds, "T", "end the job after T (90, 15m, 2h, 1d) with exit code 124"),
    VALUE("stall_timeout", SECONDS, stall_timeout, "T", "say who is stuck after T without progress. Default: 600"),
    VALUE("stall_action", CHOICE, stall_action, "warn|dump|kill", "then only say it, with a C stack, or end the job"),
    { "save_pid", CL_FLAG_OPTIONAL, FIELD(save_pid), "FILE", "write the launcher's pid, to /tmp/PID.cspeed", NULL, NULL,
      NULL, false },

    GROUP("Output"),
    VALUE("+log_dir", TEXT, log_dir, "DIR", "files of every rank: DIR/attempt_N/RANK.out. Default: cspeed_runs/..."),
    CHECKED("log_max", log_max, "SIZE", size, "rotate a rank's file at this size: 100M"),
    CHECKED("console", console, "all|dedup|first|none|RANKS", console, "whose output is shown: 0,4-7"),
    CALL("enable_each_rank_log", "DIR", rank_log, "log_dir console", "--log_dir DIR --console none"),
    VALUE("prefix", RAW, prefix, "TEXT",
          "begins every line; {host} {rank} {local_rank} {node} {time} {stream} are replaced"),
    SWITCH("no_prefix", no_prefix, "no prefix"),
    SWITCH("timestamps", timestamps, "the time before every line"),
    CALL("log_format", "text|json", format, NULL, "json: every line an object"),
    CHECKED("color", color, "auto|always|never", color, "colour; auto: on a terminal, unless NO_COLOR is set"),
    CALL("log_level", "debug|info|warning|error|critical", level, "quiet verbose", "how much cspeed itself says"),
    SWITCH("quiet q", quiet, "no banner"),
    SWITCH("verbose v", verbose, "also say each rank's process and how it ended"),

    GROUP("Instead of running"),
    BARE("dry_run", dry_run, "print the plan, and start nothing"),
    BARE("help h", help, "help"),
    BARE("version", version, "the version"),
    SWITCH("local_rank_arg", local_rank_arg, "add --local_rank=N to the program's arguments"),

    GROUP("Taken from DeepSpeed and torchrun"),
    CALL("+rdzv_endpoint", "HOST[:PORT]", endpoint, "master_addr master_port", "--master_addr HOST --master_port PORT"),
    CALL("+rdzv_conf", "K=V,...", conf, "rdzv_timeout last_call heartbeat",
         "join_timeout, timeout, last_call_timeout, keep_alive_interval"),
    CALL("+numa_binding", "node|socket|core-complex|exclusive", numa, "bind", "--bind numa, socket, l3, core"),
    CALL("+redirects r", "0|3", redirects, "console", "3: --console none, since files are always written"),
    REFUSED("+tee t", "0|3", "both streams of every rank are always in files and shown; --console chooses ranks"),
    REFUSED("+rdzv_backend", "static|c10d", "nodes meet through the launcher's own store"),
    REFUSED("+role", "default", "every rank has the same role; --prefix names lines"),
    REFUSED("+signals_to_handle", "SIGTERM,SIGINT,SIGHUP,SIGQUIT", "these four are always handled, and no others"),
    REFUSED("stdin", "none", "ranks have no standard input"),
    INERT("+no_python", NULL, "programs are always executed directly"),
    INERT("no_local_rank use_env", NULL, "ranks learn theirs from LOCAL_RANK, unless --local_rank_arg"),
    INERT("+monitor_interval", "S", "ranks are watched by events, not at intervals"),
    INERT("+start_method", "NAME", "programs are always executed, never forked functions"),

    GROUP("Known, and not supported"),
    REFUSED("+module m", NULL, "programs are executed directly; write python3 -m MODULE"),
    REFUSED("+run_path", NULL, "programs are executed directly; write python3 FILE"),
    REFUSED("autotuning", "*", "there is no tuner"),
    REFUSED("+local_ranks_filter", "*", "--console takes the ranks to be shown, counted over the job"),
    REFUSED("+duplicate_stdout_filters +duplicate_stderr_filters", "*", "grep finds lines in the ranks' files"),
    REFUSED("+event_log_handler +logs_specs", "*", "there are no plug-ins"),
    REFUSED("+virtual_local_rank", NULL, "a rank sees all devices of its node and takes the one of its LOCAL_RANK"),
    REFUSED("+local_addr", "*", "addresses are those that connections have proved; --master_addr names another"),
    REFUSED("health_port", "*", "`cspeed status JOB` tells how a job fares"),
    REFUSED("spare", "*", "no node is held back; an elastic job takes nodes that come"),
    REFUSED("restart_dead_node", NULL, "a node that was lost may join an elastic job again by itself"),
    REFUSED("profile", "*", "flags have their place on the command line and in CSPEED_ variables"),
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
