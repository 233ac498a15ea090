/* farside.c - the device side of a comm: chooses the transport for GPU memory, and allocates GPU memory for
 * cs_comm_alloc. */
#include "comm/farside.h"
#include "base/log.h"
#include "base/must.h"
#include "device/module.h"

#include <stdlib.h>
#include <string.h>

/* What each rank sends to the others about its device. */
typedef struct {
    bool has_nccl;
    char seat[CS_TRANSPORT_SEAT]; /* identifies the device among all devices of all machines */
} card;

static const ce_transport *nccl_of(cs_device *device)
{
    const ce_module *module = NULL;
    if (strcmp(ce_device_kind(device), "cuda") != 0 || ce_module_open(&module) != CS_OK)
        return NULL;
    return module->nccl && module->nccl->edition == CS_TRANSPORT_EDITION ? module->nccl : NULL;
}

/* CS_OK: NCCL can connect these ranks. Otherwise cs_error() says why it cannot. */
static cs_status judge(const card *cards, int size)
{
    for (int i = 0; i < size; i++)
        if (!cards[i].has_nccl)
            return ce_fail(CS_BAD_CONFIG, "the libcspeed_cuda.so of rank %d was built without NCCL", i);
    for (int i = 0; i < size; i++)
        for (int j = i + 1; j < size; j++)
            if (strcmp(cards[i].seat, cards[j].seat) == 0)
                return ce_fail(CS_BAD_CONFIG, "ranks %d and %d share a GPU (%s), and NCCL needs one GPU for each rank",
                               i, j, cards[i].seat);
    return CS_OK;
}

/* Every rank evaluates the same data, so all ranks make the same decision. */
static cs_status ask_all(cs_comm *comm, const ce_transport *nccl)
{
    int size = comm->world.size;
    card mine = { .has_nccl = nccl != NULL };
    card *cards = calloc((size_t)size, sizeof *cards);
    if (!cards)
        return ce_fail(CS_NO_MEMORY, "no memory for the cards of %d ranks", size);
    if (nccl)
        nccl->seat(mine.seat);
    comm->transport->all_gather(comm, cards, &mine, sizeof mine, CS_U8);
    cs_status status = judge(cards, size);
    free(cards);
    return status;
}

static cs_status choose(const ce_transport **chosen, cs_comm *comm, const cs_comm_settings *settings)
{
    bool any = !settings->kind || strcmp(settings->kind, "auto") == 0;
    const ce_transport *nccl = nccl_of(settings->device);
    *chosen = &ce_comm_far;
    if (any ? comm->world.size == 1 : strcmp(settings->kind, "nccl") != 0)
        return CS_OK; /* with one rank "auto" does not use NCCL; "nccl" does, for tests on one GPU */
    cs_status status = ask_all(comm, nccl);
    if (status == CS_OK)
        *chosen = nccl;
    if (status == CS_NO_MEMORY || (status != CS_OK && !any))
        return ce_fail(status, "communication \"nccl\": %s; use communication \"%s\"", cs_error(),
                       comm->transport->name);
    if (status != CS_OK)
        ce_log(CS_LOG_WARNING, "collectives go through the host's memory: %s", cs_error());
    return CS_OK;
}

cs_status ce_farside_open(cs_comm *comm, const cs_comm_settings *settings)
{
    const ce_transport *chosen = NULL;
    CS_TRY(choose(&chosen, comm, settings));
    cs_comm *far = calloc(1, sizeof *far);
    comm->far = far;
    if (!far)
        return ce_fail(CS_NO_MEMORY, "no memory for the communication of %d devices", comm->world.size);
    far->transport = chosen;
    far->world = comm->world;
    far->host = comm;
    far->device = settings->device;
    far->heap_bytes = settings->heap_bytes ? settings->heap_bytes : SIZE_MAX;
    return chosen->open(far, settings);
}

void ce_farside_close(cs_comm *comm)
{
    cs_comm *far = comm->far;
    if (!far)
        return;
    far->transport->close(far);
    for (size_t i = 0; i < far->block_count; i++)
        ce_device_free(far->device, far->blocks[i]);
    free(far->blocks);
    free(far);
}

const char *ce_farside_kind(const cs_comm *comm)
{
    return comm->far && comm->far->transport != &ce_comm_far ? comm->far->transport->name : comm->transport->name;
}

void *ce_farside_alloc(cs_comm *far, size_t bytes)
{
    if (bytes > far->heap_bytes - far->heap_used)
        ce_fatal(CS_NO_MEMORY, "the heap of %zu bytes of the device is used up: %zu more were wanted, %zu are left",
                 far->heap_bytes, bytes, far->heap_bytes - far->heap_used);
    if (far->block_count == far->block_room) {
        far->block_room = far->block_room ? 2 * far->block_room : 64;
        far->blocks = realloc(far->blocks, far->block_room * sizeof *far->blocks);
        if (!far->blocks)
            ce_fatal(CS_NO_MEMORY, "no memory for a list of %zu allocations", far->block_room);
    }
    void *memory = ce_device_alloc(far->device, bytes + !bytes);
    far->blocks[far->block_count++] = memory;
    far->heap_used += bytes;
    return memory;
}
