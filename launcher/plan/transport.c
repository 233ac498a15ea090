/* transport.c - finds the transport that the arguments of a program or its configuration name. */
#include "plan/world_sizes.h"

#include "config/config.h"
#include "cspeed/options.h"

#include <string.h>

#define SET "cspeed.comm="

/* Returns the transport that the arguments name. If several arguments name a transport, the last of these arguments
 * counts, because the program also uses the last one. Returns NULL if no argument names a transport. */
static const char *find_argument(char **arguments)
{
    const char *found = NULL;
    for (; *arguments; arguments++) {
        char *pair[] = { arguments[0], arguments[1], NULL };
        const char *backend = cs_options_last("backend", pair), *set = cs_options_last("set", pair);
        const char *comm = cs_options_last("comm", pair);
        if (backend && strncmp(*arguments, "--backend", strlen("--backend")) == 0)
            found = backend;
        if (comm && strncmp(*arguments, "--comm", strlen("--comm")) == 0)
            found = comm;
        if (set && strncmp(*arguments, "--set", strlen("--set")) == 0 && strncmp(set, SET, strlen(SET)) == 0)
            found = set + strlen(SET);
    }
    return found;
}

bool cl_transport_is_mpi(char **arguments)
{
    const char *found = find_argument(arguments), *file = cl_world_sizes_config(arguments);
    cs_config *config = NULL;
    if (found)
        return strcmp(found, "mpi") == 0;
    if (!file || cs_config_open(&config, file) != CS_OK)
        return false;
    found = json_string_value(ce_json_find(config->doc, "cspeed.comm"));
    bool is_mpi = found && strcmp(found, "mpi") == 0;
    cs_config_close(config);
    return is_mpi;
}
