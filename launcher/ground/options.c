/* options.c - reads the launch flags from PET_ variables, CSPEED_ variables and the command line; a later source
 * overrides. */
#include "ground/options.h"
#include "cspeed/cspeed.h"

#include "ground/codes.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FLAGS = 160, ORIGIN_BYTES = 80 };

/* for each row of cl_flags, the source of the flag's value; "": the value is the default */
static char origins[MAX_FLAGS][ORIGIN_BYTES];
static const char *values[MAX_FLAGS]; /* the value of each flag as the user wrote it */

/* The flags of torchrun. A flag in this list can also be set by the environment variable PET_NAME, as with torchrun. */
static const char torchrun[] =
    "nnodes nproc_per_node standalone master_addr master_port rdzv_id node_rank max_restarts "
    "shutdown_timeout log_dir rdzv_endpoint rdzv_conf numa_binding redirects tee rdzv_backend role "
    "signals_to_handle no_python monitor_interval start_method module run_path local_ranks_filter "
    "duplicate_stdout_filters duplicate_stderr_filters event_log_handler logs_specs virtual_local_rank "
    "local_addr";

/* Flags that no environment variable can set. Flags that may be repeated cannot be set by environment variables either,
 * and need not be in this list. */
static const char bare[] = "dry_run help version";

static bool is_listed(const char *list, const char *name)
{
    return cs_options_find(&(cs_option){ .names = list }, 1, name) != NULL;
}

static const cs_option *find(const char *name)
{
    return cs_options_find(cl_flags, cl_flags_count, name);
}

/* Records the source and the value of a flag. The flags that this flag also sets get the same source. */
static int note_given(void *options, const cs_option *flag, const char *origin, const char *value)
{
    char name[CS_OPTION_BYTES];
    (void)options;
    snprintf(origins[flag - cl_flags], ORIGIN_BYTES, "%s", origin);
    values[flag - cl_flags] = value;
    for (const char *place = flag->sets ? flag->sets : ""; cs_options_name(&place, name);)
        snprintf(origins[find(name) - cl_flags], ORIGIN_BYTES, "%s", origin);
    return 0;
}

const char *cl_options_origin(const char *name)
{
    const cs_option *flag = find(name);
    const char *origin = flag ? origins[flag - cl_flags] : "";
    return *origin ? origin : "default";
}

void cl_options_given(void (*each)(const char *name, const char *value, const char *origin, void *argument),
                      void *argument)
{
    char name[CS_OPTION_BYTES], flag[CS_OPTION_BYTES + 2];
    for (int i = 0; i < cl_flags_count; i++) {
        const char *place = cl_flags[i].names;
        if (!*origins[i] || !cs_options_name(&place, name))
            continue;
        snprintf(flag, sizeof flag, "--%s", name);
        each(flag, values[i], origins[i], argument);
    }
}

void cl_options_each(void (*each)(const char *name, const cs_option *flag, void *argument), void *argument)
{
    char name[CS_OPTION_BYTES];
    for (int i = 0; i < cl_flags_count; i++)
        for (const char *place = cl_flags[i].names; cs_options_name(&place, name);)
            each(name, &cl_flags[i], argument);
}

/* ---- the environment ---- */

/* Returns 1 if the text means yes, 0 if it means no, otherwise -1. */
static int parse_bool(const char *value)
{
    if (cs_options_choice("1|true|yes|on", value) >= 0)
        return 1;
    return cs_options_choice("0|false|no|off", value) >= 0 ? 0 : -1;
}

static int store_variable(cl_options *options, const cs_option *flag, const char *variable, const char *value)
{
    if (!flag->value) {
        int yes = parse_bool(value);
        if (yes < 0)
            return cl_codes_fail(CL_CODE_USAGE, "%s must be 1 or 0, not \"%s\"", variable, value);
        if (!yes)
            return 0;
        value = NULL;
    }
    note_given(options, flag, variable, value);
    return cs_options_store(flag, options, variable, value);
}

/* Returns the environment variable PREFIX + NAME, or NULL if it is not set or empty. Ignores CSPEED_JOB_ID if a rank
 * has started this process, because the variable then has the id of the rank's job, and this process begins another
 * job. */
static const char *look_up(const char *prefix, const char *name, char variable[ORIGIN_BYTES])
{
    snprintf(variable, ORIGIN_BYTES, "%s%s", prefix, name);
    for (char *c = variable; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    const char *value = getenv(variable);
    if (strcmp(variable, "CSPEED_JOB_ID") == 0 && getenv("CSPEED_ATTEMPT"))
        return NULL;
    return value && *value ? value : NULL;
}

static int read_variable(cl_options *options, const cs_option *flag, const char *prefix)
{
    char name[CS_OPTION_BYTES], variable[ORIGIN_BYTES];
    for (const char *place = flag->names; cs_options_name(&place, name);) {
        const char *value = name[1] ? look_up(prefix, name, variable) : NULL;
        if (value && (strcmp(prefix, "PET_") == 0 ? is_listed(torchrun, name) : !is_listed(bare, name)))
            return store_variable(options, flag, variable, value);
    }
    return 0;
}

static int read_environment(cl_options *options, const char *prefix)
{
    int code = 0;
    for (int i = 0; code == 0 && i < cl_flags_count; i++)
        if (cl_flags[i].kind != CS_OPTION_LIST)
            code = read_variable(options, &cl_flags[i], prefix);
    return code;
}

/* ---- the command line ---- */

/* Turns --devices into --num_gpus or --include. */
static int take_devices(cl_options *options)
{
    static char include[4096];
    const char *devices = options->devices;
    if (!devices)
        return 0;
    if (options->hostfile || options->hosts || options->include || options->exclude || options->ranks)
        return cl_codes_fail(CL_CODE_USAGE, "--devices selects slots of this machine alone: leave out --hostfile, "
                                            "--hosts, --include, --exclude and --num_gpus");
    size_t length = strlen(devices), comma = length > 0 && devices[length - 1] == ',';
    if (!strchr(devices, ',')) {
        options->ranks = isdigit((unsigned char)*devices) ? devices : NULL;
        return 0;
    }
    snprintf(include, sizeof include, "localhost:%.*s", (int)(length - comma), devices);
    options->include = include;
    return 0;
}

/* torchrun is started on every node. Its complete line names the number of nodes, this node's number or the endpoint where
 * the nodes meet, and the master address; the variables PET_* are the same line. Such a line means --no_ssh, if nothing
 * names the hosts to which SSH could go. */
static void imply_no_ssh(cl_options *options)
{
    const char *max = options->nodes ? strchr(options->nodes, ':') : NULL;
    bool several = options->nodes && atoi(max ? max + 1 : options->nodes) > 1;
    const char *variable =
        getenv("CSPEED_ATTEMPT") ? NULL : getenv("MASTER_ADDR"); /* not that of a job around this one */
    bool place = options->node_rank ? options->master_addr || (variable && *variable) : options->endpoint;
    bool hosts = options->hostfile || options->hosts || options->include || options->exclude || options->force_multi;
    if (!several || !place || hosts || options->no_ssh || options->standalone || options->launcher != CL_BY_AUTO)
        return;
    options->no_ssh = true;
    note_given(options, find("no_ssh"), cl_options_origin(options->node_rank ? "node_rank" : "rdzv_endpoint"), NULL);
}

/* Refuses invalid combinations of flags. */
static int check_combinations(cl_options *options)
{
    imply_no_ssh(options);
    if (options->hostfile && options->hosts)
        return cl_codes_fail(CL_CODE_USAGE, "%s and %s both name the hosts; give one of them",
                             cl_options_origin("hosts"), cl_options_origin("hostfile"));
    if (options->nodes && !strchr(options->nodes, ':') && !options->no_ssh && (options->include || options->exclude))
        return cl_codes_fail(CL_CODE_USAGE, "%s %s and %s both select hosts, as in DeepSpeed; give one of them",
                             cl_options_origin("num_nodes"), options->nodes,
                             cl_options_origin(options->include ? "include" : "exclude"));
    if (options->standalone && options->no_ssh)
        return cl_codes_fail(CL_CODE_USAGE, "%s means one machine, but %s means one of several",
                             cl_options_origin("standalone"), cl_options_origin("no_ssh"));
    if (options->stage.count && options->no_ssh)
        return cl_codes_fail(CL_CODE_USAGE,
                             "not supported: %s with %s, because a node that joins by itself receives no files; copy "
                             "the file to every node first",
                             cl_options_origin("stage"), cl_options_origin("no_ssh"));
    if (options->local_rank_arg)
        options->local_rank_flag = "--local_rank";
    if (options->bind_cores_to_rank && options->bind == CL_BIND_AUTO)
        options->bind = CL_BIND_CORE;
    if (options->bind_core_list && options->bind == CL_BIND_AUTO)
        options->bind = CL_BIND_CORE;
    if (options->dead_after <= options->heartbeat)
        return cl_codes_fail(CL_CODE_USAGE,
                             "each node sends a message every %g s (--heartbeat), so --dead_after must be longer "
                             "than that; it is %g s",
                             options->heartbeat, options->dead_after);
    return 0;
}

static char *advise(const char *word)
{
    return cs_word_advice(word, false);
}

int cl_options_read(cl_options *options, char **argv)
{
    const cs_options_form form = {
        .what = "launch flag",
        .hint = "`cspeed help flags` lists them all",
        .options = cl_flags,
        .count = cl_flags_count,
        .stops = true,
        .given = note_given,
        .advise = advise,
    };
    memset(origins, 0, sizeof origins);
    *options = (cl_options){
        .argv = argv,
        .grace_seconds = 30,
        .stop_signal = SIGTERM,
        .master_port = -1,
        .rdzv_timeout = 600,
        .last_call = 30,
        .heartbeat = 5,
        .dead_after = 15,
        .restart_delay = 5,
        .stall_timeout = 600,
        .restart_on = "any",
        .forward = "USR1,USR2",
        .color = "auto",
    };
    /* PET_ variables are the first source; sources that are read later override them */
    int code = read_environment(options, "PET_");
    if (code == 0)
        code = read_environment(options, "CSPEED_");
    options->program = argv + 1;
    if (code == 0)
        code = cs_options_read(&form, options, &options->program);
    if (code == 0)
        code = check_combinations(options);
    return code ? code : take_devices(options);
}
