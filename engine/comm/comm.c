/* comm.c - the public functions of comm.h: choose the transport, check arguments, count traffic, keep the heartbeat. */
#include "comm/common.h"
#include "comm/device_side.h"
#include "base/clock.h"
#include "base/beat.h"
#include "base/must.h"
#include "base/range.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { HEAP_ALIGNMENT = 4096 };

static const ce_transport *const transports[] = { &ce_comm_self, &ce_comm_shm, &ce_comm_tcp };
enum { TRANSPORT_COUNT = sizeof transports / sizeof *transports };

/* Chooses the transport of host memory, which is never NCCL. */
static cs_status choose(const ce_transport **chosen, const cs_world *world, const char *kind)
{
    bool any = !kind || strcmp(kind, "auto") == 0 || strcmp(kind, "nccl") == 0;
    for (int i = 0; i < TRANSPORT_COUNT; i++) {
        bool fits = transports[i]->fits(world);
        if (any ? !fits : strcmp(kind, transports[i]->name) != 0)
            continue;
        *chosen = transports[i];
        if (fits)
            return CS_OK;
        return ce_fail(CS_BAD_CONFIG, "communication \"%s\" does not fit a world of %d ranks with %d on this host",
                       kind, world->size, world->local_size);
    }
    return ce_fail(CS_BAD_CONFIG, "communication: \"auto\", \"self\", \"shm\", \"tcp\" or \"nccl\", not \"%s\"", kind);
}

size_t ce_comm_heap_wish(const cs_comm_settings *settings)
{
    size_t wish = settings->heap_bytes;
    struct rlimit limit;
    if (!wish)
        wish = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    if (!settings->heap_bytes && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur / 2 < wish)
        wish = limit.rlim_cur / 2; /* the limit on the size of files; shared memory is a file */
    return (size_t)ce_round_up((int64_t)wish, HEAP_ALIGNMENT);
}

/* The memory of a GPU moves by other calls than the host's, so ranks on CPUs and on GPUs cannot share a world. Every
 * rank sees the same answers, and fails with the same sentence. `device` NULL: nothing is compared. Collective. */
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
        host.heap_bytes = 1; /* no memory is allocated from it */
    CS_TRY(comm->transport->open(comm, &host));
    CS_TRY(compare_devices(comm, device));
    return settings->device ? ce_device_side_open(comm, settings) : CS_OK;
}

cs_status cs_comm_open(cs_comm **comm, const cs_world *world, const cs_comm_settings *settings)
{
    const ce_transport *transport = NULL;
    cs_comm_settings resolved = *settings;
    *comm = NULL;
    if (resolved.device && !ce_device_has_own_memory(resolved.device))
        resolved.device = NULL;
    if (!resolved.device && resolved.kind && strcmp(resolved.kind, "nccl") == 0)
        return ce_fail(CS_BAD_CONFIG, "communication \"nccl\" moves a CUDA device's memory, and this run has no such "
                                      "device: use \"auto\"");
    CS_TRY(choose(&transport, world, settings->kind));
    cs_comm *made = calloc(1, sizeof *made);
    if (!made)
        return ce_fail(CS_NO_MEMORY, "no memory for the communication of %d ranks", world->size);
    made->transport = transport;
    made->world = *world;
    atomic_flag_clear(&made->busy);
    cs_status status = open_sides(made, &resolved, settings->device);
    if (status != CS_OK) {
        cs_comm_close(made);
        return status;
    }
    *comm = made;
    return CS_OK;
}

void cs_comm_close(cs_comm *comm)
{
    if (!comm)
        return;
    ce_device_side_close(comm);
    comm->transport->close(comm);
    ce_comms_logger_free(comm->logger);
    free(comm);
}

int cs_comm_rank(const cs_comm *comm)
{
    return comm->world.rank;
}

int cs_comm_size(const cs_comm *comm)
{
    return comm->world.size;
}

const char *cs_comm_kind(const cs_comm *comm)
{
    return ce_device_side_kind(comm);
}

cs_comm_traffic cs_comm_counters(const cs_comm *comm)
{
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
    if (comm->device_side)
        return ce_device_side_alloc(comm->device_side, bytes);
    size_t left = comm->heap_bytes - comm->heap_used;
    if (bytes > left || (size_t)ce_round_up((int64_t)bytes, HEAP_ALIGNMENT) > left)
        ce_fatal(CS_NO_MEMORY, "the shared heap of %zu bytes is used up: %zu more were wanted, %zu are left",
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
    CS_ASSERT(!comm->device_side && comm->transport->first);
    return comm->transport->first(comm, cs_comm_alloc(comm, bytes));
}

/* Waits for a collective on GPU memory if times are recorded. Without the wait the time would be that of queueing. */
static void settle(cs_comm *comm)
{
    if (comm->logger && comm->device_side)
        ce_stream_sync(ce_device_stream(comm->device_side->device, CS_COMM));
}

static double begin(cs_comm *comm, int beat)
{
    CS_ASSERT(!atomic_flag_test_and_set_explicit(&comm->busy, memory_order_acquire)); /* fails if two threads use one
                                                                                       * comm */
    comm->doing = beat;
    settle(comm);
    ce_beat_enter(beat);
    return ce_clock_seconds();
}

/* message: bytes of one rank's vector; sent: bytes that had to be sent to others. */
static void end(cs_comm *comm, double begun, uint64_t message, uint64_t sent)
{
    settle(comm);
    double seconds = ce_clock_seconds() - begun;
    ce_beat_leave();
    comm->traffic.seconds += seconds;
    comm->traffic.bytes += sent;
    comm->traffic.calls++;
    ce_comms_logger_record(comm->logger, comm->doing, message, seconds);
    atomic_flag_clear_explicit(&comm->busy, memory_order_release);
}

/* The side whose memory contains a buffer. An empty buffer belongs to the host's side. */
static cs_comm *side_of(cs_comm *comm, const void *data, uint64_t length)
{
    cs_comm *side = comm->device_side;
    if (!side || length == 0 || !ce_device_holds(side->device, data))
        return comm;
    side->doing = comm->doing;
    return side;
}

static uint64_t bytes_of(int64_t count, cs_dtype dtype)
{
    return (uint64_t)count * cs_dtype_bytes(dtype);
}

/* The minimum that a rank must send if every other rank needs `count` elements. */
static uint64_t to_others(const cs_comm *comm, int64_t count, cs_dtype dtype)
{
    return (uint64_t)(comm->world.size - 1) * bytes_of(count, dtype);
}

void cs_comm_all_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    CS_ASSERT(count >= 0);
    double begun = begin(comm, CS_BEAT_ALL_REDUCE);
    cs_comm *side = side_of(comm, data, (uint64_t)count);
    side->transport->all_reduce(side, data, count, dtype, op);
    end(comm, begun, bytes_of(count, dtype), 2 * to_others(comm, count, dtype) / (uint64_t)comm->world.size);
}

void cs_comm_reduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    CS_ASSERT(count >= 0);
    double begun = begin(comm, CS_BEAT_REDUCE_SCATTER);
    cs_comm *side = side_of(comm, out, (uint64_t)count);
    CS_ASSERT(side_of(comm, in, (uint64_t)count) == side);
    side->transport->reduce_scatter(side, out, in, count, dtype, op);
    end(comm, begun, bytes_of(count, dtype), to_others(comm, count, dtype));
}

bool ce_comm_reduce_scatter_add(cs_comm *comm, float *sum, const float *in, int64_t count)
{
    if (comm->device_side || !comm->transport->reduce_scatter_add)
        return false;
    double begun = begin(comm, CS_BEAT_REDUCE_SCATTER);
    comm->transport->reduce_scatter_add(comm, sum, in, count);
    end(comm, begun, bytes_of(count, CS_F32), to_others(comm, count, CS_F32));
    return true;
}

void cs_comm_all_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    CS_ASSERT(count >= 0);
    double begun = begin(comm, CS_BEAT_ALL_GATHER);
    cs_comm *side = side_of(comm, out, (uint64_t)count);
    CS_ASSERT(side_of(comm, in, (uint64_t)count) == side);
    side->transport->all_gather(side, out, in, count, dtype);
    end(comm, begun, bytes_of(count, dtype), to_others(comm, count, dtype));
}

void cs_comm_broadcast(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, int root)
{
    CS_ASSERT(count >= 0);
    CS_ASSERT(root >= 0 && root < comm->world.size);
    double begun = begin(comm, CS_BEAT_BROADCAST);
    cs_comm *side = side_of(comm, data, (uint64_t)count);
    side->transport->broadcast(side, data, count, dtype, root);
    end(comm, begun, bytes_of(count, dtype), comm->world.rank == root ? to_others(comm, count, dtype) : 0);
}

void cs_comm_barrier(cs_comm *comm)
{
    double begun = begin(comm, CS_BEAT_BARRIER);
    comm->transport->barrier(comm);
    end(comm, begun, 0, 0);
}

void cs_comm_send(cs_comm *comm, const void *data, size_t bytes, int to)
{
    CS_ASSERT(to >= 0 && to < comm->world.size);
    CS_ASSERT(to != comm->world.rank);
    double begun = begin(comm, CS_BEAT_SEND);
    cs_comm *side = side_of(comm, data, bytes);
    side->transport->send(side, data, bytes, to);
    end(comm, begun, bytes, bytes);
}

void cs_comm_receive(cs_comm *comm, void *data, size_t bytes, int from)
{
    CS_ASSERT(from >= 0 && from < comm->world.size);
    CS_ASSERT(from != comm->world.rank);
    double begun = begin(comm, CS_BEAT_RECEIVE);
    cs_comm *side = side_of(comm, data, bytes);
    side->transport->receive(side, data, bytes, from);
    end(comm, begun, bytes, 0);
}
