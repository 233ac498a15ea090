/* tcp.c - the transport of ranks on several hosts. Its collectives use messages or are hierarchical. */
#include "comm/tcp/tcp.h"
#include "base/processors.h"
#include "comm/collective/collective.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_SECONDS = 600, YIELDS_ROOMY = 100, YIELDS_CROWDED = 2 };

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
                       "environment: ranks on several hosts connect at MASTER_ADDR:MASTER_PORT: set both for all "
                       "ranks, to the host of rank 0 and a free port there (mpirun -x MASTER_ADDR=... -x "
                       "MASTER_PORT=..., srun passes them on)");
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
        return ce_fail(CS_NO_MEMORY, "out of memory for the addresses of %d ranks", tcp->size);
    CE_TRY(ce_mesh_open(tcp, places, seconds));
    for (int i = 0; i < tcp->size; i++)
        tcp->links[i].elsewhere = i - places[i].local_rank != tcp->rank - places[tcp->rank].local_rank;
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
    .move = ce_tcp_frames_move,
    .announce = ce_hierarchical_announce,
    .all_reduce = ce_hierarchical_all_reduce,
    .reduce_scatter = ce_hierarchical_reduce_scatter,
    .all_gather = ce_hierarchical_all_gather,
    .broadcast = ce_hierarchical_broadcast,
    .barrier = ce_hierarchical_barrier,
    .missing = ce_tcp_frames_missing,
    .lose = ce_tcp_frames_lose,
};
