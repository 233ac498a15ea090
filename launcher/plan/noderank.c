/* noderank.c - finds the number of this machine's node from environment variables and from the host name. */
#include "plan/steps.h"

#include "ground/codes.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEEN_BYTES = 1024, NAME_BYTES = 256 };

typedef struct {
    int rank; /* node rank from the first source that gives one; -1: no source gives one */
    char origin[64], seen[SEEN_BYTES];
    bool conflict;
} finding;

static void note(finding *found, const char *origin, const char *value, int rank)
{
    size_t used = strlen(found->seen);
    snprintf(found->seen + used, sizeof found->seen - used, "%s%s says %s", used ? ", " : "", origin, value);
    if (found->rank < 0) {
        found->rank = rank;
        snprintf(found->origin, sizeof found->origin, "%s", origin);
    }
    found->conflict |= rank != found->rank;
}

static int number_of(const char *text)
{
    char *end;
    long number = strtol(text, &end, 10);
    return isdigit((unsigned char)*text) && !*end && number < 65536 ? (int)number : -1;
}

static void ask_variable(finding *found, const char *name)
{
    const char *value = getenv(name);
    if (value && number_of(value) >= 0)
        note(found, name, value, number_of(value));
}

/* Returns the index of the only host that is this machine; -1: there is none, or several. */
static int own_host(const cl_plan *plan)
{
    int index = -1, count = 0;
    for (int i = 0; i < plan->hosts.count; i++)
        if (cl_hosts_is_here(&plan->hosts.list[i])) {
            index = i;
            count++;
        }
    return count == 1 ? index : -1;
}

static void ask_name(finding *found, const cl_plan *plan)
{
    char value[2 * NAME_BYTES];
    int index = own_host(plan);
    if (index < 0)
        return;
    snprintf(value, sizeof value, "%d (%.200s)", index, plan->hosts.list[index].name);
    note(found, "the host name", value, index);
}

/* Uses the last source: the number N at the end of a host name NAME-N. Kubernetes names the pods of a StatefulSet or an
 * Indexed Job NAME-0, NAME-1, ... */
static void ask_suffix(finding *found, const cl_plan *plan)
{
    char name[NAME_BYTES] = "", value[2 * NAME_BYTES];
    gethostname(name, sizeof name - 1);
    name[strcspn(name, ".")] = '\0';
    const char *dash = strrchr(name, '-');
    int rank = dash ? number_of(dash + 1) : -1;
    if (found->rank >= 0 || rank < 0 || rank >= plan->node_count)
        return;
    snprintf(value, sizeof value, "%d (%s)", rank, name);
    note(found, "the host name's suffix", value, rank);
}

static int give(cl_plan *plan, int rank, const char *origin)
{
    plan->node_rank = rank;
    snprintf(plan->node_rank_origin, sizeof plan->node_rank_origin, "%s", origin);
    if (rank < plan->node_count)
        return 0;
    return cl_codes_fail(CL_CODE_USAGE, "this is node %d as %s says, but the job has nodes 0 to %d", rank, origin,
                         plan->node_count - 1);
}

/* Handles a job without a hostfile. A node may then join with any number. Only the node that listens on the master
 * address must know that its number is 0. */
static int find_front(cl_plan *plan)
{
    cl_host master = { .name = plan->master_addr };
    if (cl_hosts_is_here(&master))
        return give(plan, 0, "this machine has the master address");
    return give(plan, -1, "given when it joins");
}

int cl_noderank_find(cl_plan *plan)
{
    static const char *const variables[] = { "PET_NODE_RANK", "JOB_COMPLETION_INDEX", "SLURM_NODEID", "GROUP_RANK" };
    const char *flag = plan->options->node_rank;
    const char *origin = cl_options_origin("node_rank");
    finding found = { .rank = -1 };
    if (flag && number_of(flag) >= 0 && strncmp(origin, "PET_", 4) != 0)
        return give(plan, number_of(flag), origin);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        ask_variable(&found, variables[i]);
    ask_name(&found, plan);
    ask_suffix(&found, plan);
    if (found.conflict)
        return cl_codes_fail(CL_CODE_USAGE, "the number of this node is unknown: %s; give --node_rank", found.seen);
    if (found.rank >= 0)
        return give(plan, found.rank, found.origin);
    if (!plan->named)
        return find_front(plan);
    return cl_codes_fail(CL_CODE_USAGE,
                         "the number of this node is unknown: its name is not among the hosts of %s, and none of "
                         "PET_NODE_RANK, JOB_COMPLETION_INDEX, SLURM_NODEID, GROUP_RANK is set; give --node_rank",
                         plan->hosts.origin);
}
