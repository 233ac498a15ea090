/* comm.c - opens and closes a comm of comm.h: chooses its transport, and gives out its memory. */
#include "comm/collective/exchange.h"
#include "base/misuse.h"
#include "comm/common.h"
#include "comm/device/side.h"
#include "base/must.h"
#include "base/plural.h"
#include "base/range.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { HEAP_ALIGNMENT = 4096 };

/* "auto" chooses the first transport of this table that fits the world. "auto" never reaches mpi, the last row: self
 * fits a world of one rank, and tcp fits every other world. */
static const ce_transport *const transports[] = { &ce_comm_self, &ce_comm_shm, &ce_comm_tcp, &ce_comm_mpi };
enum { TRANSPORT_COUNT = sizeof transports / sizeof *transports };

/* Chooses the transport of host memory by `kind`. The result is never NCCL, because NCCL moves GPU memory. */
static cs_status choose(const ce_transport **chosen, const cs_world *world, const char *kind)
{
    bool any = !kind || strcmp(kind, "auto") == 0 || strcmp(kind, "nccl") == 0;
    for (int i = 0; i < TRANSPORT_COUNT; i++) {
        bool fits = transports[i]->fits(world);
        if (any ? !fits : strcmp(kind, transports[i]->name) != 0)
            continue;
        *chosen = fits ? transports[i] : &ce_comm_self;
        if (fits || world->size == 1) /* an elastic job of any transport may shrink to one rank */
            return CS_OK;
        return ce_fail(CS_BAD_CONFIG,
                       "communication \"%s\" is not possible for %d rank%s, of which %d are on this host", kind,
                       world->size, ce_plural(world->size), world->local_size);
    }
    return ce_fail(CS_BAD_CONFIG,
                   "communication \"%s\" is unknown: possible are \"auto\", \"self\", \"shm\", \"tcp\", \"mpi\" and "
                   "\"nccl\"",
                   kind);
}

size_t ce_comm_heap_wish(const cs_comm_settings *settings)
{
    size_t wish = settings->heap_bytes;
    struct rlimit limit;
    if (!wish)
        wish = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    if (!settings->heap_bytes && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur / 2 < wish)
        wish = limit.rlim_cur / 2; /* RLIMIT_FSIZE limits the size of files, and shared memory counts as a file */
    return (size_t)ce_round_up((int64_t)wish, HEAP_ALIGNMENT);
}

/* Checks that either all ranks compute on GPUs or none: host memory and GPU memory are moved by different calls, so a
 * world cannot have both kinds of ranks. Every rank compares the same data, so all ranks fail with the same message. If
 * `device` is NULL, nothing is compared. The call is collective. */
static cs_status compare_devices(cs_comm *comm, const cs_device *device)
{
    int size = comm->world.size, other = 0;
    if (!device || size == 1)
        return CS_OK;
    unsigned char mine = ce_device_has_own_memory(device), *all = calloc((size_t)size, 1);
    if (!all)
        return ce_fail(CS_NO_MEMORY, "no memory for the devices of %d ranks", size);
    comm->transport->all_gather(comm, all, &mine, sizeof mine, CS_U8);
    while (other < size && all[other] == all[0])
        other++;
    bool first = all[0];
    free(all);
    if (other == size)
        return CS_OK;
    return ce_fail(CS_DISAGREE,
                   "rank 0 computes on a %s and rank %d on a %s: all ranks of a run need the same kind of device; "
                   "set cspeed.device, or leave out hosts that have no GPU",
                   first ? "GPU" : "CPU", other, first ? "CPU" : "GPU");
}

static cs_status open_sides(cs_comm *comm, const cs_comm_settings *settings, const cs_device *device)
{
    cs_comm_settings host = *settings;
    host.device = NULL;
    if (settings->device)
        host.heap_bytes = 1; /* the smallest possible heap, because no memory is allocated from it */
    CE_TRY(ce_exchange_open(comm));
    CE_TRY(comm->transport->open(comm, &host));
    CE_TRY(compare_devices(comm, device));
    if (settings->device)
        CE_TRY(ce_device_side_open(comm, settings));
    return settings->nonblocking ? ce_comm_open_nonblocking(comm) : CS_OK;
}

/* Stores the settings without pointers to the caller's memory. */
static void keep_settings(cs_comm *comm, const cs_comm_settings *settings)
{
    comm->settings = *settings;
    snprintf(comm->kind, sizeof comm->kind, "%s", settings->kind ? settings->kind : "auto");
    comm->settings.kind = comm->kind;
}

const ce_transport *ce_comm_transport(const cs_world *world, const char *kind)
{
    const ce_transport *chosen = NULL;
    return choose(&chosen, world, kind) == CS_OK ? chosen : NULL;
}

static cs_status open_resolved(cs_comm **comm, const cs_world *world, const cs_comm_settings *settings, int *names,
                               const ce_meeting *meeting)
{
    const ce_transport *transport = NULL;
    cs_comm_settings resolved = *settings;
    if (resolved.device && !ce_device_has_own_memory(resolved.device))
        resolved.device = NULL;
    if (!resolved.device && resolved.kind && strcmp(resolved.kind, "nccl") == 0)
        return ce_fail(CS_BAD_CONFIG, "communication \"nccl\" needs a CUDA device, and this run has none: use "
                                      "\"auto\"");
    CE_TRY(choose(&transport, world, settings->kind));
    cs_comm *made = calloc(1, sizeof *made);
    if (!made)
        return ce_fail(CS_NO_MEMORY, "no memory for the communication of %d ranks", world->size);
    made->transport = transport;
    made->world = *world;
    made->names = names;
    made->meeting = meeting;
    keep_settings(made, &resolved);
    atomic_flag_clear(&made->busy);
    *comm = made;
    return open_sides(made, &resolved, settings->device);
}

cs_status ce_comm_open(cs_comm **comm, const cs_world *world, const cs_comm_settings *settings, int *names,
                       const ce_meeting *meeting)
{
    *comm = NULL;
    cs_status status = open_resolved(comm, world, settings, names, meeting);
    if (*comm)
        (*comm)->meeting = NULL;
    if (*comm && status != CS_OK) {
        cs_comm_close(*comm);
        *comm = NULL;
    } else if (!*comm) {
        free(names);
    }
    return status;
}

cs_status cs_comm_open(cs_comm **comm, const cs_world *world, const cs_comm_settings *settings)
{
    CE_GIVEN(comm, world, settings);
    return ce_comm_open(comm, world, settings, NULL, NULL);
}

void cs_comm_close(cs_comm *comm)
{
    if (!comm)
        return;
    ce_nonblocking_close(comm);
    ce_device_side_close(comm);
    comm->transport->close(comm);
    ce_exchange_close(comm);
    ce_comms_logger_free(comm->logger);
    free(comm->names);
    free(comm);
}

int cs_comm_rank(const cs_comm *comm)
{
    CE_GIVEN(comm);
    return comm->world.rank;
}

int cs_comm_size(const cs_comm *comm)
{
    CE_GIVEN(comm);
    return comm->world.size;
}

const char *cs_comm_kind(const cs_comm *comm)
{
    CE_GIVEN(comm);
    return ce_device_side_kind(comm);
}

void ce_comm_set_axis(cs_comm *comm, int axis)
{
    comm->axis = axis;
}

void cs_comm_set_call_seconds(cs_comm *comm, double seconds)
{
    CE_GIVEN(comm);
    comm->settings.call_seconds = seconds;
    ce_nonblocking_set_call_seconds(comm, seconds);
}

const char *cs_comm_algorithm(const cs_comm *comm)
{
    CE_GIVEN(comm);
    return comm->algorithm ? comm->algorithm : "";
}

cs_comm_traffic cs_comm_counters(const cs_comm *comm)
{
    CE_GIVEN(comm);
    return comm->traffic;
}

void ce_comm_record(cs_comm *comm, const ce_comms_logger_settings *settings)
{
    if (settings->enabled && !comm->logger)
        comm->logger = ce_comms_logger_new(settings, comm->world.size);
}

void ce_comm_log_summary(cs_comm *comm)
{
    if (comm->logger)
        ce_comms_logger_print(comm->logger, comm);
}

void *cs_comm_alloc(cs_comm *comm, size_t bytes)
{
    CE_GIVEN(comm);
    ce_comm_require_member(comm, "cs_comm_alloc");
    if (comm->device_side)
        return ce_device_side_alloc(comm->device_side, bytes);
    size_t left = comm->heap_bytes - comm->heap_used;
    if (bytes > left || (size_t)ce_round_up((int64_t)bytes, HEAP_ALIGNMENT) > left)
        ce_fatal(CS_NO_MEMORY, "the shared memory of %zu bytes is too small: %zu more bytes are needed, %zu are left",
                 comm->heap_bytes, bytes, left);
    char *memory = comm->heap + comm->heap_used;
    comm->heap_used += (size_t)ce_round_up((int64_t)bytes, HEAP_ALIGNMENT);
    return memory;
}

bool ce_comm_has_common(const cs_world *world, const char *kind)
{
    const ce_transport *transport = NULL;
    return choose(&transport, world, kind) == CS_OK && transport->first;
}

void *ce_comm_alloc_common(cs_comm *comm, size_t bytes)
{
    CE_ASSERT(!comm->device_side && comm->transport->first);
    return comm->transport->first(comm, cs_comm_alloc(comm, bytes));
}
