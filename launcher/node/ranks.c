/* ranks.c - sets the environment variables of a rank. */
#include "node/ranks.h"
#include "mesh/mesh.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const cl_ranks_forgotten[] = {
    "CSPEED_TERMINAL",  "CSPEED_BOUND",         "CSPEED_SECRET", "CSPEED_SECRET_FILE", "CSPEED_KEY_FD",
    "CSPEED_MASTER_FD", "CSPEED_INSECURE_JOIN", "CSPEED_ON_END", "CSPEED_MESH",        NULL
};

typedef struct {
    cl_variable *list;
    int count;
} variables;

static void __attribute__((format(printf, 3, 4))) add(variables *all, const char *name, const char *format, ...)
{
    cl_variable *here = &all->list[all->count++];
    va_list arguments;
    here->name = name;
    va_start(arguments, format);
    vsnprintf(here->value, sizeof here->value, format, arguments);
    va_end(arguments);
}

static void add_place(variables *all, const cl_order *order, int local)
{
    add(all, "RANK", "%d", order->first_rank + local);
    add(all, "LOCAL_RANK", "%d", local);
    add(all, "WORLD_SIZE", "%d", order->world_size);
    add(all, "LOCAL_WORLD_SIZE", "%d", order->rank_count);
    add(all, "LOCAL_SIZE", "%d", order->rank_count);
    add(all, "NODE_RANK", "%d", order->node_rank);
    add(all, "GROUP_RANK", "%d", order->node_rank);
    add(all, "GROUP_WORLD_SIZE", "%d", order->node_count);
    add(all, "CROSS_RANK", "%d", order->node_rank);
    add(all, "CROSS_SIZE", "%d", order->node_count);
    add(all, "MASTER_ADDR", "%s", order->master_addr);
    add(all, "MASTER_PORT", "%d", order->master_port);
    if (order->mesh_tp == 0)
        return;
    ce_mesh mesh = ce_mesh_of(order->first_rank + local, order->world_size, order->mesh_tp, order->mesh_shard);
    char place[CE_MESH_TEXT];
    ce_mesh_write(&mesh, place);
    add(all, "CSPEED_MESH", "%s", place);
}

static void add_job(variables *all, const cl_order *order, int local)
{
    add(all, "TORCHELASTIC_RESTART_COUNT", "%d", order->restarts);
    add(all, "TORCHELASTIC_MAX_RESTARTS", "%d", order->max_restarts);
    add(all, "TORCHELASTIC_RUN_ID", "%s", order->job);
    add(all, "CSPEED_JOB_ID", "%s", order->job);
    add(all, "CSPEED_ATTEMPT", "%d", order->attempt);
    add(all, "CSPEED_HOST", "%s", order->host);
    add(all, "CSPEED_SLOT", "%d", order->slots[local]);
    if (*order->log_dir) {
        add(all, "CSPEED_RUN_DIR", "%s", order->log_dir);
        add(all, "TORCHELASTIC_ERROR_FILE", "%s/attempt_%d/%d.error.json", order->log_dir, order->attempt,
            order->first_rank + local);
    }
    if (order->insecure)
        add(all, "CSPEED_INSECURE_JOIN", "1");
}

/* Sets CUDA_VISIBLE_DEVICES. Every rank of a node sees all slots (GPUs) of the node and selects its own by LOCAL_RANK,
 * as with DeepSpeed and torchrun. */
static void add_devices(variables *all, const cl_order *order)
{
    char list[sizeof all->list->value] = "";
    size_t used = 0;
    for (int i = 0; i < order->rank_count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%d", i ? "," : "", order->slots[i]);
    add(all, "CUDA_VISIBLE_DEVICES", "%s", list);
}

int cl_ranks_variables(const cl_order *order, const cl_binding *binding, int local,
                       cl_variable list[CL_RANKS_VARIABLES])
{
    variables all = { .list = list };
    add_place(&all, order, local);
    add_job(&all, order, local);
    if (order->has_devices)
        add_devices(&all, order);
    if (binding->bound)
        add(&all, "CSPEED_BOUND", "1");
    if (binding->set_threads) {
        add(&all, "OMP_NUM_THREADS", "%d", binding->list[local].threads);
        add(&all, "CSPEED_THREADS", "%d", binding->list[local].threads);
    }
    if (order->columns) {
        add(&all, "CSPEED_TERMINAL", "%s", order->terminal);
        add(&all, "COLUMNS", "%d", order->columns);
    }
    return all.count;
}
