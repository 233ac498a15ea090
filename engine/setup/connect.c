/* connect.c - cs_init_distributed: opens the device of this rank and connects the ranks. cs_initialize calls this
 * function too. */
#include "setup/setup.h"
#include "base/misuse.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

const char *ce_connect_kind(int device)
{
    static const char *const kinds[] = {
        [CE_CHOOSE_AUTO_DEVICE] = "auto", [CE_CHOOSE_CPU] = "cpu", [CE_CHOOSE_CUDA] = "cuda"
    };
    return kinds[device];
}

bool ce_connect_is_gpu(const cs_engine *engine)
{
    return engine->device ? ce_device_has_own_memory(engine->device)
                          : ce_device_is_gpu(ce_connect_kind(engine->settings->device));
}

/* Returns the user's OMP_NUM_THREADS, or NULL. The launcher sets this variable if the user has not set it, and
 * CSPEED_THREADS to the same number. */
static const char *threads_of_user(void)
{
    const char *variable = getenv("OMP_NUM_THREADS"), *launcher = getenv("CSPEED_THREADS");
    return variable && launcher && strcmp(variable, launcher) == 0 ? NULL : variable;
}

/* Returns the number of threads of a device; 0: the device chooses. The user's OMP_NUM_THREADS has priority over the
 * configuration, which has priority over the launcher's. */
static int threads_of(const ce_settings *settings)
{
    const char *variable = settings->threads > 0 ? threads_of_user() : getenv("OMP_NUM_THREADS");
    return variable ? 0 : (int)settings->threads;
}

cs_status ce_connect_device(cs_device **device, const cs_config *config)
{
    const ce_settings *settings = &config->settings;
    ce_device_settings wanted = {
        .kind = ce_connect_kind(settings->device),
        .threads = threads_of(settings),
        .local_ranks = config->world.bound ? 1 : config->world.local_size,
        .local_rank = config->world.local_rank,
        .tf32 = settings->tf32,
    };
    return ce_device_open(device, &wanted);
}

static cs_status open_device(cs_device **device, const cs_config *config)
{
    const ce_settings *settings = &config->settings;
    CE_TRY(ce_connect_device(device, config));
    if (settings->tf32 && strcmp(ce_device_kind(*device), "cuda") != 0)
        ce_log(CE_LOG_WARNING, "cspeed.tf32 is for GPUs: the products of this CPU stay fp32");
    if (settings->threads > 0 && settings->threads != ce_device_threads(*device))
        ce_log(CE_LOG_WARNING,
               "cspeed.threads %lld has no effect, because OMP_NUM_THREADS is %s in your environment: unset it",
               (long long)settings->threads, getenv("OMP_NUM_THREADS"));
    return CS_OK;
}

/* The device of this rank, and the comm of all ranks. It is attached to the configuration, with which it is closed. */
typedef struct {
    cs_device *device;
    cs_comm *comm;
} connection;

static void disconnect(void *attached)
{
    connection *open = attached;
    cs_comm_close(open->comm);
    ce_device_close(open->device);
    free(open);
}

cs_status ce_connect(cs_config *config, cs_device **device, cs_comm **comm)
{
    connection *open = config->attached ? config->attached : calloc(1, sizeof *open);
    if (!open)
        return ce_fail(CS_NO_MEMORY, "out of memory for a connection");
    config->attached = open;
    config->detach = disconnect;
    if (!open->device)
        CE_TRY(open_device(&open->device, config));
    cs_comm_settings settings = { .kind = config->settings.transport, .device = open->device };
    if (!open->comm)
        CE_TRY(cs_comm_open(&open->comm, &config->world, &settings));
    *device = open->device;
    *comm = open->comm;
    return CS_OK;
}

cs_status cs_init_distributed(cs_config *config, cs_comm **comm)
{
    CE_GIVEN(config, comm);
    cs_device *device;
    *comm = NULL;
    CE_TRY(cs_config_finish(config));
    ce_log_open(config->reads ? CE_LOG_WARNING : CE_LOG_INFO, config->world.rank);
    const connection *before = config->attached;
    if (before && before->comm)
        ce_log(CE_LOG_INFO, "cs_init_distributed: the ranks are connected already");
    return ce_connect(config, &device, comm);
}
