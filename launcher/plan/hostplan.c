/* hostplan.c - plans a job: where its hosts come from, the number of nodes, and the master address as far as it is
 * known. */
#include "plan/hostplan.h"

#include "ground/codes.h"
#include "plan/hostline.h"
#include "plan/steps.h"

#include "base/must.h"
#include "base/plural.h"
#include "cspeed/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* ---- number of nodes ---- */

/* Reads "4", "2:4" or DeepSpeed's elastic flags as the limits of the number of nodes. 0: the limit was not given. */
static int read_bounds(const cl_options *options, int *min, int *max)
{
    const char *colon = options->nodes ? strchr(options->nodes, ':') : NULL;
    *min = *max = options->nodes ? atoi(options->nodes) : 0;
    if (colon)
        *max = atoi(colon + 1);
    if (!options->elastic_training && !options->min_elastic_nodes && !options->max_elastic_nodes)
        return 0;
    if (colon)
        return cl_codes_fail(CL_CODE_USAGE,
                             "%s %s and DeepSpeed's elastic flags both set MIN and MAX; give one of them",
                             cl_options_origin("num_nodes"), options->nodes);
    *min = options->min_elastic_nodes ? options->min_elastic_nodes : 1;
    if (options->max_elastic_nodes)
        *max = options->max_elastic_nodes;
    if (*max && *min > *max)
        return cl_codes_fail(CL_CODE_USAGE, "--min_elastic_nodes %d is above the maximum number of nodes, %d", *min,
                             *max);
    return 0;
}

/* Keeps the first hosts of the list, as many as the user requested. Fails if there are fewer hosts. */
static int choose_nodes(cl_plan *plan)
{
    int min, max, have = plan->hosts.count, code = read_bounds(plan->options, &min, &max);
    if (code)
        return code;
    if (max > have)
        return cl_codes_fail(CL_CODE_SLOTS, "%d nodes are requested (%s), but %s has %d%s", max,
                             cl_options_origin(plan->options->max_elastic_nodes ? "max_elastic_nodes" : "num_nodes"),
                             plan->hosts.origin, have,
                             plan->named ? ""
                                         : "; name the other hosts with --hostfile or --hosts, or start the same "
                                           "command on each node with --no_ssh");
    plan->max_nodes = max ? max : have;
    plan->min_nodes = min ? min : plan->max_nodes;
    if (plan->min_nodes > plan->max_nodes)
        return cl_codes_fail(CL_CODE_SLOTS, "%s %d: the job has %d node%s", cl_options_origin("min_elastic_nodes"), min,
                             plan->max_nodes, ce_plural(plan->max_nodes));
    while (plan->hosts.count > plan->max_nodes)
        cl_hostline_free(&plan->hosts.list[--plan->hosts.count]);
    return 0;
}

/* ---- nodes and ranks ---- */

static void number_ranks(cl_plan *plan)
{
    plan->rank_count = 0;
    for (int i = 0; i < plan->node_count; i++) {
        plan->nodes[i].first_rank = plan->rank_count;
        plan->rank_count += plan->nodes[i].host->slot_count;
    }
}

char *cl_hostplan_host_ranks(const cl_plan *plan)
{
    char *list;
    FILE *out = ce_must_stream(&list, NULL);
    for (int i = 0; i < plan->node_count; i++)
        fprintf(out, "%s%d", i ? "," : "", plan->nodes[i].host->slot_count);
    ce_must_finish(out);
    return list;
}

static bool are_places(const cl_plan *plan, const int *places, int count)
{
    if (count < 1 || count > plan->hosts.count)
        return false;
    for (int i = 0; i < count; i++) {
        if (places[i] < 0 || places[i] >= plan->hosts.count)
            return false;
        for (int before = 0; before < i; before++)
            if (places[before] == places[i])
                return false;
    }
    return true;
}

int cl_hostplan_cut(cl_plan *plan, const int *places, int count)
{
    if (!are_places(plan, places, count))
        return cl_codes_fail(CL_CODE_DISAGREE, "the %d nodes of this attempt are not among the %d hosts of this plan",
                             count, plan->hosts.count);
    for (int to = 0; to < count; to++) {
        int from = to;
        while (plan->nodes[from].host != &plan->hosts.list[places[to]])
            from++;
        cl_plan_node moved = plan->nodes[from];
        plan->nodes[from] = plan->nodes[to];
        plan->nodes[to] = moved;
    }
    plan->node_count = count;
    number_ranks(plan);
    return 0;
}

static int make_nodes(cl_plan *plan)
{
    plan->node_count = plan->hosts.count;
    plan->nodes = ce_must_alloc((size_t)plan->node_count * sizeof *plan->nodes);
    for (int i = 0; i < plan->node_count; i++) {
        const cl_host *host = &plan->hosts.list[i];
        plan->nodes[i].host = host;
        plan->nodes[i].here = !plan->no_ssh && !plan->options->force_multi && cl_hosts_is_here(host);
        if (plan->launcher == CL_BY_LOCAL && !plan->nodes[i].here && !plan->no_ssh)
            return cl_codes_fail(CL_CODE_USAGE, "%s local starts ranks only on this machine, but %s names %s",
                                 cl_options_origin("launcher"), plan->hosts.origin, host->name);
    }
    number_ranks(plan);
    return 0;
}

/* ---- master address and port ---- */

#define SET(field, ...) snprintf(field, sizeof field, __VA_ARGS__)

static int set_master_addr(cl_plan *plan)
{
    const char *flag = plan->options->master_addr, *given = getenv("MASTER_ADDR");
    const cl_host *first = &plan->hosts.list[0];
    /* true: the variables belong to the job of which this process is a rank */
    bool ours = getenv("CSPEED_ATTEMPT") != NULL;
    if (flag) {
        SET(plan->master_addr, "%s", flag);
        SET(plan->master_addr_origin, "%s", cl_options_origin("master_addr"));
    } else if (!plan->no_ssh) {
        bool alone = plan->node_count == 1 && plan->nodes[0].here;
        SET(plan->master_addr, "%s", alone ? "127.0.0.1" : "");
        SET(plan->master_addr_origin, "%s", alone ? "one machine" : "confirmed by a connection");
    } else if (plan->named) {
        SET(plan->master_addr, "%s", cl_hosts_address(first));
        SET(plan->master_addr_origin, "the first host of %.40s", plan->hosts.origin);
    } else if (given && *given && !ours) {
        size_t bracket = *given == '['; /* [IPv6] */
        SET(plan->master_addr, "%.*s", (int)strcspn(given + bracket, bracket ? "]" : ""), given + bracket);
        SET(plan->master_addr_origin, "MASTER_ADDR");
    } else {
        return cl_codes_fail(CL_CODE_USAGE, "no master address: without a hostfile --no_ssh needs --master_addr");
    }
    return 0;
}

/* Reads the environment variable MASTER_PORT into *port. *port becomes -1 if the variable is not set, is empty, or
 * belongs to the job of which this process is a rank. */
static int read_port_variable(int *port)
{
    const char *text = getenv("MASTER_PORT");
    int64_t number = -1;
    int code = 0;
    if (text && *text && !getenv("CSPEED_ATTEMPT"))
        code = cs_options_whole(&number, "the environment variable MASTER_PORT", text, 0, 65535);
    *port = (int)number;
    return code;
}

static int set_master_port(cl_plan *plan)
{
    int port = plan->options->master_port, code = 0;
    bool alone = strcmp(cl_options_origin("master_port"), "default") != 0; /* otherwise --master_addr HOST:PORT */
    SET(plan->master_port_origin, "%s", cl_options_origin(alone ? "master_port" : "master_addr"));
    if (port < 0) {
        code = read_port_variable(&port);
        SET(plan->master_port_origin, "MASTER_PORT");
    }
    plan->master_port = port;
    /* In an elastic job, only nodes connect to the port of --rdzv_endpoint, as with torchrun. The ranks need another
     * port, because new nodes may connect while the ranks run. */
    plan->master_port_given = port >= 0 && !(plan->options->endpoint && plan->min_nodes < plan->max_nodes);
    if (port < 0) {
        plan->master_port = plan->no_ssh ? 29500 : 0;
        SET(plan->master_port_origin, "%s", plan->no_ssh ? "default" : "any free one");
    }
    if (port == 0 && plan->no_ssh)
        return cl_codes_fail(CL_CODE_USAGE, "%s 0 means any port, but the nodes of --no_ssh must know it",
                             plan->master_port_origin);
    return code;
}

bool cl_hostplan_nodes_come(const cl_plan *plan)
{
    return plan->launcher >= CL_BY_OPENMPI || (plan->no_ssh && plan->max_nodes > 1);
}

int cl_hostplan_ranks_port(const cl_plan *plan)
{
    return cl_hostplan_nodes_come(plan) && !plan->master_port_given ? 0 : plan->master_port;
}

/* ---- job id and working directory ---- */

typedef unsigned long long hash;

static hash mix(hash state, const void *bytes, size_t count)
{
    for (const unsigned char *byte = bytes; count > 0; count--)
        state = (state ^ *byte++) * 0x100000001b3u;
    return state;
}

static hash mix_text(hash state, const char *text)
{
    return mix(state, text, strlen(text) + 1);
}

static const hash begin = 0xcbf29ce484222325u;

unsigned long long cl_hostplan_digest(const cl_plan *plan)
{
    hash state = mix_text(begin, CS_VERSION);
    for (int i = 0; i < plan->hosts.count; i++) {
        const cl_host *host = &plan->hosts.list[i];
        state = mix_text(state, host->name);
        state = mix(state, &host->slot_count, sizeof host->slot_count);
        state = mix(state, host->slots, (size_t)host->slot_count * sizeof *host->slots);
    }
    for (char **argument = plan->arguments; *argument; argument++)
        state = mix_text(state, *argument);
    state = mix(state, &plan->min_nodes, sizeof plan->min_nodes);
    return mix(state, &plan->max_nodes, sizeof plan->max_nodes);
}

/* Chooses the job id. With --no_ssh, nodes are started separately and must get the same id, so the id is derived from
 * the master address and port. */
static int name_job(cl_plan *plan)
{
    uint32_t number;
    if (plan->options->job_id) {
        SET(plan->id, "%s", plan->options->job_id);
        return 0;
    }
    if (plan->no_ssh)
        number = (uint32_t)mix(mix_text(begin, plan->master_addr), &plan->master_port, sizeof plan->master_port);
    else if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return cl_codes_fail(CL_CODE_SYSTEM, "no random number for the job id: %s", strerror(errno));
    SET(plan->id, "%08x", number);
    return 0;
}

static int find_workdir(cl_plan *plan)
{
    const char *wanted = plan->options->workdir;
    char here[PATH_MAX];
    if (!getcwd(here, sizeof here))
        return cl_codes_fail(CL_CODE_SYSTEM, "the current folder cannot be read: %s", strerror(errno));
    int size = !wanted          ? SET(plan->workdir, "%s", here)
               : *wanted == '/' ? SET(plan->workdir, "%s", wanted)
                                : SET(plan->workdir, "%s/%s", here, wanted);
    return size < PATH_MAX ? 0 : cl_codes_fail(CL_CODE_USAGE, "--workdir %s: the path is too long", wanted);
}

/* ---- the whole plan ---- */

static int make(cl_plan *plan)
{
    int (*const steps[])(cl_plan *) = { cl_slots_find,   choose_nodes,    cl_slots_choose, make_nodes,
                                        set_master_addr, set_master_port, name_job,        find_workdir };
    int code = 0;
    for (size_t i = 0; code == 0 && i < sizeof steps / sizeof *steps; i++)
        code = steps[i](plan);
    if (code == 0 && plan->no_ssh)
        code = cl_noderank_find(plan);
    if (code == 0 && plan->node_rank >= 0 && plan->no_ssh)
        plan->nodes[plan->node_rank].here = true;
    if (code == 0)
        code = cl_env_collect(&plan->env, plan->options);
    if (code == 0)
        cl_slots_set_devices(plan);
    return code;
}

int cl_hostplan_make(cl_plan *plan, const cl_options *options)
{
    *plan = (cl_plan){
        .options = options, .launcher = options->launcher, .arguments = options->program, .no_ssh = options->no_ssh
    };
    int code = make(plan);
    if (code)
        cl_hostplan_free(plan);
    return code;
}

void cl_hostplan_free(cl_plan *plan)
{
    cl_hosts_free(&plan->hosts);
    cl_env_free(&plan->env);
    free(plan->nodes);
    *plan = (cl_plan){ 0 };
}
