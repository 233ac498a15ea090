/* tcp.c - the transport of ranks on several hosts. Its collectives use messages or are hierarchical. */
#include "comm/tcp/tcp.h"
#include "base/processors.h"
#include "comm/collective/collective.h"
#include "comm/heap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_SECONDS = 600, YIELDS_ROOMY = 100, YIELDS_CROWDED = 2 };

static void all_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    ce_tcp *tcp = comm->private_data;
    if (tcp->inside)
        ce_hierarchical_all_reduce(tcp, data, count, dtype, op);
    else
        ce_messages_all_reduce(comm, data, count, dtype, op);
}

static void reduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    ce_tcp *tcp = comm->private_data;
    if (tcp->inside)
        ce_hierarchical_reduce_scatter(tcp, out, in, count, dtype, op);
    else
        ce_messages_reduce_scatter(comm, out, in, count, dtype, op);
}

static void all_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    ce_tcp *tcp = comm->private_data;
    if (tcp->inside)
        ce_hierarchical_all_gather(tcp, out, in, count, dtype);
    else
        ce_messages_all_gather(comm, out, in, count, dtype);
}

static void broadcast(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, int root)
{
    ce_tcp *tcp = comm->private_data;
    if (tcp->inside)
        ce_hierarchical_broadcast(tcp, data, count, dtype, root);
    else
        ce_messages_broadcast(comm, data, count, dtype, root);
}

static void barrier(cs_comm *comm)
{
    ce_tcp *tcp = comm->private_data;
    if (tcp->inside)
        ce_hierarchical_barrier(tcp);
    else
        ce_messages_barrier(comm);
}

static void announce(cs_comm *comm)
{
    ce_tcp *tcp = comm->private_data;
    if (tcp->inside)
        ce_hierarchical_announce(tcp);
}

/* ---- opening, closing ---- */

static bool fits(const cs_world *world)
{
    return world->size > 1;
}

static cs_status check_address(cs_world *world)
{
    if (world->address[0])
        return CS_OK;
    if (world->local_size < world->size)
        return ce_fail(CS_BAD_CONFIG,
                       "environment: ranks on several hosts meet at MASTER_ADDR:MASTER_PORT: set both for "
                       "all ranks, to the host of rank 0 and a free port there (mpirun -x MASTER_ADDR=... "
                       "-x MASTER_PORT=..., srun passes them on)");
    memcpy(world->address, "127.0.0.1", sizeof "127.0.0.1");
    return CS_OK;
}

static cs_status make_lists(ce_tcp *tcp)
{
    size_t size = (size_t)tcp->size;
    tcp->links = calloc(size, sizeof *tcp->links);
    tcp->polls = calloc(size, sizeof *tcp->polls);
    for (int i = 0; tcp->links && i < tcp->size; i++)
        tcp->links[i].socket = -1;
    if (!tcp->links || !tcp->polls)
        return ce_fail(CS_NO_MEMORY, "no memory for the connections of %d ranks", tcp->size);
    return CS_OK;
}

static cs_status connect_all(ce_tcp *tcp, ce_mesh_place *places, const cs_comm_settings *settings)
{
    double seconds = settings->timeout_seconds > 0 ? settings->timeout_seconds : DEFAULT_SECONDS;
    if (!places)
        return ce_fail(CS_NO_MEMORY, "no memory for the places of %d ranks", tcp->size);
    CE_TRY(ce_mesh_open(tcp, places, seconds));
    return ce_hierarchical_fits(tcp, places) ? ce_hierarchical_open(tcp, settings) : ce_heap_open(tcp->comm, settings);
}

static cs_status open_tcp(cs_comm *comm, const cs_comm_settings *settings)
{
    ce_tcp *tcp = calloc(1, sizeof *tcp);
    comm->private_data = tcp;
    if (!tcp)
        return ce_fail(CS_NO_MEMORY, "no memory for the communication of %d ranks", comm->world.size);
    tcp->comm = comm;
    tcp->rank = comm->world.rank;
    tcp->size = comm->world.size;
    bool roomy = ce_processors_allowed() >= comm->world.local_size;
    tcp->yields = roomy || comm->world.bound ? YIELDS_ROOMY : YIELDS_CROWDED;
    CE_TRY(check_address(&comm->world));
    CE_TRY(make_lists(tcp));
    ce_mesh_place *places = calloc((size_t)tcp->size, sizeof *places);
    cs_status status = connect_all(tcp, places, settings);
    free(places);
    return status;
}

static void close_tcp(cs_comm *comm)
{
    ce_tcp *tcp = comm->private_data;
    if (!tcp)
        return;
    if (tcp->links)
        ce_tcp_frames_leave(tcp);
    for (int i = 0; tcp->links && i < tcp->size; i++) {
        if (tcp->links[i].socket >= 0)
            close(tcp->links[i].socket);
        ce_seal_close(&tcp->links[i].seal);
    }
    if (tcp->inside)
        ce_hierarchical_close(tcp);
    else
        ce_heap_close(comm);
    free(tcp->links);
    free(tcp->polls);
    free(tcp);
}

const ce_transport ce_comm_tcp = {
    .name = "tcp",
    .fits = fits,
    .open = open_tcp,
    .close = close_tcp,
    .sizes = { .all_reduce_whole = 16 << 10, .reduce_whole = 16 << 10, .broadcast_whole = 64 << 10 },
    .move = ce_tcp_frames_move,
    .announce = announce,
    .all_reduce = all_reduce,
    .reduce_scatter = reduce_scatter,
    .all_gather = all_gather,
    .broadcast = broadcast,
    .barrier = barrier,
    .reduce = ce_messages_reduce,
    .scatter = ce_messages_scatter,
    .gather = ce_messages_gather,
    .all_to_all = ce_messages_all_to_all,
    .missing = ce_tcp_frames_missing,
    .lose = ce_tcp_frames_lose,
};
