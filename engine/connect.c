/* connect.c - cs_init_distributed: opens the device of this rank and connects the ranks. cs_initialize calls it too. */
#include "engine.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

const char *ce_connect_kind(int device)
{
    static const char *const kinds[] = {
        [CS_CHOOSE_AUTO_DEVICE] = "auto", [CS_CHOOSE_CPU] = "cpu", [CS_CHOOSE_CUDA] = "cuda"
    };
    return kinds[device];
}

/* What cs_config_close calls if no engine took device and comm. */
static void disconnect(cs_config *config)
{
    cs_comm_close(config->comm);
    ce_device_close(config->device);
}

static cs_status open_device(cs_config *config)
{
    const ce_settings *settings = &config->settings;
    int threads = getenv("OMP_NUM_THREADS") ? 0 : (int)settings->threads; /* OMP_NUM_THREADS has priority */
    ce_device_settings wanted = {
        .kind = ce_connect_kind(settings->device),
        .threads = threads,
        .local_ranks = config->world.bound ? 1 : config->world.local_size,
        .local_rank = config->world.local_rank,
        .tf32 = settings->tf32,
    };
    CS_TRY(ce_device_open(&config->device, &wanted));
    if (settings->tf32 && strcmp(ce_device_kind(config->device), "cuda") != 0)
        ce_log(CS_LOG_WARNING, "cspeed.tf32 is for GPUs: the products of this CPU stay fp32");
    if (settings->threads > 0 && settings->threads != ce_device_threads(config->device))
        ce_log(CS_LOG_WARNING, "cspeed.threads %lld gives way to OMP_NUM_THREADS: %d thread(s) a rank",
               (long long)settings->threads, ce_device_threads(config->device));
    return CS_OK;
}

cs_status ce_connect(cs_config *config)
{
    config->disconnect = disconnect;
    if (!config->device)
        CS_TRY(open_device(config));
    cs_comm_settings settings = { .kind = config->settings.comm, .device = config->device };
    return cs_comm_open(&config->comm, &config->world, &settings);
}

cs_status cs_init_distributed(cs_config *config, cs_comm **comm)
{
    *comm = NULL;
    CS_TRY(cs_config_finish(config));
    ce_log_open(config->reads ? CS_LOG_WARNING : CS_LOG_INFO, config->world.rank);
    if (config->comm)
        ce_log(CS_LOG_INFO, "cs_init_distributed: the ranks are connected already");
    else
        CS_TRY(ce_connect(config));
    *comm = config->comm;
    return CS_OK;
}
