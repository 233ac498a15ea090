/* side.c - the device side of a comm: chooses the transport for GPU memory, and allocates GPU memory for
 * cs_comm_alloc. */
#include "comm/device/side.h"
#include "base/log.h"
#include "base/must.h"
#include "device/module.h"

#include <stdlib.h>
#include <string.h>

/* What each rank sends to the other ranks about its device. */
typedef struct {
    bool has_nccl;
    char gpu_name[CE_TRANSPORT_GPU_NAME]; /* identifies the GPU among all GPUs of all machines */
} device_info;

static const ce_transport *nccl_of(cs_device *device)
{
    const ce_module *module = NULL;
    if (strcmp(ce_device_kind(device), "cuda") != 0 || ce_module_open(&module) != CS_OK)
        return NULL;
    return module->nccl && module->nccl->edition == CE_TRANSPORT_EDITION ? module->nccl : NULL;
}

/* Returns CS_OK if NCCL can connect these ranks. Otherwise cs_error() says why it cannot. */
static cs_status check_nccl(const device_info *infos, int size)
{
    for (int i = 0; i < size; i++)
        if (!infos[i].has_nccl)
            return ce_fail(CS_BAD_CONFIG, "the libcspeed_cuda.so of rank %d was built without NCCL", i);
    for (int i = 0; i < size; i++)
        for (int j = i + 1; j < size; j++)
            if (strcmp(infos[i].gpu_name, infos[j].gpu_name) == 0)
                return ce_fail(CS_BAD_CONFIG,
                               "ranks %d and %d use the same GPU (%s), but NCCL needs one GPU for each rank", i, j,
                               infos[i].gpu_name);
    return CS_OK;
}

/* Decides whether NCCL connects the ranks. Every rank evaluates the same data, so all ranks make the same decision. */
static cs_status agree_on_nccl(cs_comm *comm, const ce_transport *nccl)
{
    int size = comm->world.size;
    device_info mine = { .has_nccl = nccl != NULL };
    device_info *infos = calloc((size_t)size, sizeof *infos);
    if (!infos)
        return ce_fail(CS_NO_MEMORY, "no memory for the devices of %d ranks", size);
    if (nccl)
        nccl->gpu_name(mine.gpu_name);
    comm->transport->all_gather(comm, infos, &mine, sizeof mine, CS_U8);
    cs_status status = check_nccl(infos, size);
    free(infos);
    return status;
}

/* Chooses the transport of GPU memory. The kind "mpi" concerns only host memory, so it counts as "auto" here. */
static cs_status choose(const ce_transport **chosen, cs_comm *comm, const cs_comm_settings *settings)
{
    bool any = !settings->kind || strcmp(settings->kind, "auto") == 0 || strcmp(settings->kind, "mpi") == 0;
    const ce_transport *nccl = nccl_of(settings->device);
    *chosen = &ce_comm_device_staging;
    if (any ? comm->world.size == 1 : strcmp(settings->kind, "nccl") != 0)
        /* With one rank, the kind "auto" does not use NCCL, but the kind "nccl" does, for tests on one GPU. */
        return CS_OK;
    cs_status status = agree_on_nccl(comm, nccl);
    if (status == CS_OK)
        *chosen = nccl;
    if (status == CS_NO_MEMORY || (status != CS_OK && !any))
        return ce_fail(status, "communication \"nccl\": %s; use communication \"%s\"", cs_error(),
                       comm->transport->name);
    if (status != CS_OK)
        ce_log(CE_LOG_WARNING, "GPU memory is copied to the host for each collective: %s", cs_error());
    return CS_OK;
}

cs_status ce_device_side_open(cs_comm *comm, const cs_comm_settings *settings)
{
    const ce_transport *chosen = NULL;
    CE_TRY(choose(&chosen, comm, settings));
    cs_comm *side = calloc(1, sizeof *side);
    comm->device_side = side;
    if (!side)
        return ce_fail(CS_NO_MEMORY, "no memory for the communication of %d devices", comm->world.size);
    side->transport = chosen;
    side->world = comm->world;
    side->host = comm;
    side->device = settings->device;
    side->heap_bytes = settings->heap_bytes ? settings->heap_bytes : SIZE_MAX;
    return chosen->open(side, settings);
}

void ce_device_side_close(cs_comm *comm)
{
    cs_comm *side = comm->device_side;
    if (!side)
        return;
    side->transport->close(side);
    for (size_t i = 0; i < side->block_count; i++)
        ce_device_free(side->device, side->blocks[i]);
    free(side->blocks);
    free(side);
}

const char *ce_device_side_kind(const cs_comm *comm)
{
    return comm->device_side && comm->device_side->transport != &ce_comm_device_staging
               ? comm->device_side->transport->name
               : comm->transport->name;
}

void *ce_device_side_alloc(cs_comm *side, size_t bytes)
{
    if (bytes > side->heap_bytes - side->heap_used)
        ce_fatal(CS_NO_MEMORY,
                 "the memory of %zu bytes on the device is too small: %zu more bytes are needed, %zu are left",
                 side->heap_bytes, bytes, side->heap_bytes - side->heap_used);
    if (side->block_count == side->block_capacity) {
        side->block_capacity = side->block_capacity ? 2 * side->block_capacity : 64;
        side->blocks = realloc(side->blocks, side->block_capacity * sizeof *side->blocks);
        if (!side->blocks)
            ce_fatal(CS_NO_MEMORY, "no memory for a list of %zu allocations", side->block_capacity);
    }
    void *memory = ce_device_alloc(side->device, bytes + !bytes);
    side->blocks[side->block_count++] = memory;
    side->heap_used += bytes;
    return memory;
}
