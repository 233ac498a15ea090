/* starter_call.c - an agent that mpirun or srun started: finds its node number and connects to the front process. */
#include "wire/starter.h"

#include "node/agent.h"
#include "ground/codes.h"
#include "wire/rendezvous.h"

#include "base/must.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIELDS = 5 };

/* Returns the index of this process among the processes that mpirun or srun has started; -1: the index is unknown. */
static int find_index(void)
{
    static const char *const names[] = { "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        if (text && *text)
            return atoi(text);
    }
    return -1;
}

/* Returns the entry of this process in the list "NODE=HOST,NODE=HOST,", without the comma; NULL: the list has no such
 * entry. */
static char *find_entry(char *nodes, int index)
{
    const char *node_name = getenv("SLURMD_NODENAME");
    char *next, *nth = NULL;
    int i = 0;
    for (char *entry = strtok_r(nodes, ",", &next); entry; entry = strtok_r(NULL, ",", &next)) {
        const char *host = strchr(entry, '=');
        if (node_name && host && strcmp(host + 1, node_name) == 0)
            return entry;
        if (i++ == index)
            nth = entry;
    }
    return nth;
}

/* Divides the text into fields, which are separated by blanks. The last field is the rest of the text. */
static bool split(char *text, char *fields[FIELDS + 1])
{
    for (int i = 0; i < FIELDS; i++) {
        fields[i] = text;
        char *next = strchr(text, ' ');
        if (!next)
            return false;
        *next = '\0';
        text = next + 1;
    }
    fields[FIELDS] = text;
    return true;
}

static int call(cl_joined_node *node)
{
    const char *join = getenv("CSPEED_JOIN");
    CE_FREED char *text = ce_must_copy(join ? join : "");
    char *fields[FIELDS + 1];
    unsetenv("CSPEED_JOIN");
    if (!*text || !split(text, fields))
        return cl_codes_fail(CL_CODE_USAGE,
                             "__agent --join is started only by cspeed, through mpirun or srun, which must pass "
                             "on CSPEED_JOIN and CSPEED_SECRET");
    char *entry = find_entry(fields[FIELDS], find_index()), *host = entry ? strchr(entry, '=') : NULL;
    if (!entry)
        return cl_codes_fail(CL_CODE_DISAGREE,
                             "this agent does not know which node it is: none of OMPI_COMM_WORLD_RANK, PMI_RANK and "
                             "SLURMD_NODENAME is set; check --launcher");
    return cl_rendezvous_join(&(cl_join_parameters){ .address = fields[0],
                                                     .port = atoi(fields[1]),
                                                     .digest = strtoull(fields[2], NULL, 16),
                                                     .timeout_seconds = atof(fields[3]),
                                                     .job = fields[4],
                                                     .node_rank = atoi(entry),
                                                     .host = host ? host + 1 : entry },
                              node);
}

/* Connects to the front process, in the watcher and not in the guard, so that no other process keeps the connection
 * open. */
static int serve(void *argument, const cl_guard *guard)
{
    cl_joined_node node;
    int code = call(&node);
    (void)argument;
    if (code == 0)
        return cl_agent_serve(node.fd, node.fd, node.sealed ? node.key : NULL, guard);
    /* the message is printed here, because the guard is another process, whose cs_error() does not have it */
    fprintf(stderr, "cspeed: %s\n", cs_error());
    return code;
}

int cl_starter_join(const cl_options *options, char **arguments)
{
    (void)options;
    if (strcmp(arguments[0], "--join") != 0 || arguments[1])
        return cl_codes_fail(CL_CODE_USAGE, "__agent: unknown argument %s", arguments[arguments[1] != NULL]);
    return cl_guard_run(serve, NULL);
}
