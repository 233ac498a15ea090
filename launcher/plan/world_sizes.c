/* world_sizes.c - reads the world sizes that the program's configuration allows. */
#include "plan/world_sizes.h"

#include "base/must.h"
#include "config/config.h"
#include "config/resolve.h"
#include "cspeed/options.h"
#include "plan/mesh.h"

#include <stdio.h>
#include <stdlib.h>

const char *cl_world_sizes_config(char **arguments)
{
    return cs_options_last("config deepspeed_config", arguments);
}

/* Reads the sizes that the elasticity section allows. If the section is not enabled, every size is allowed. */
static cs_status read_sizes(cl_world_sizes *sizes, cs_config *config)
{
    ce_elasticity_plan plan = { 0 };
    CE_TRY(ce_batches_read_elasticity(config, ce_tp_read(config)));
    if (!config->settings.elasticity.enabled)
        return CS_OK;
    CE_TRY(ce_elasticity_solve(&plan, &config->settings.elasticity, 0));
    sizes->list = ce_must_alloc((size_t)plan.count * sizeof *sizes->list);
    for (int i = 0; i < plan.count; i++)
        sizes->list[sizes->count++] = (int)plan.worlds[i];
    ce_elasticity_free(&plan);
    return CS_OK;
}

int cl_world_sizes_read(cl_world_sizes *sizes, char **arguments)
{
    cs_config *config = NULL;
    const char *file = cl_world_sizes_config(arguments + 1);
    *sizes = (cl_world_sizes){ 0 };
    if (!file)
        return 0;
    sizes->tp = cl_mesh_tp(arguments);
    cs_status status = cs_config_open(&config, file);
    if (status == CS_OK)
        status = read_sizes(sizes, config);
    cs_config_close(config);
    return cs_exit_code(status);
}

void cl_world_sizes_free(cl_world_sizes *sizes)
{
    free(sizes->list);
    *sizes = (cl_world_sizes){ 0 };
}

const char *cl_world_sizes_limit(const cl_world_sizes *sizes)
{
    static char tp[32];
    snprintf(tp, sizeof tp, "tp %d", sizes->tp);
    return sizes->list ? "\"elasticity\"" : tp;
}

bool cl_world_sizes_allow(const cl_world_sizes *sizes, int world_size)
{
    if (sizes->tp > 1 && world_size % sizes->tp != 0)
        return false;
    for (int i = 0; i < sizes->count; i++)
        if (sizes->list[i] == world_size)
            return true;
    return !sizes->list;
}
