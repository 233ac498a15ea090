/* hierarchical.c - hierarchical collectives: sums inside each host through shared memory, then between hosts over TCP.
 *
 * They are used if the ranks of each host are consecutive and every host has the same number of ranks, which is a power
 * of two. The ranks of a host are then a complete subtree of the summation tree (collective/reduction.h), and a tree
 * over the hosts' sums gives the same bits as the tree over all ranks. Each rank exchanges data with those ranks of the
 * other hosts that have the same local rank. So a host sends as much as one rank would, whatever the number of its
 * ranks. Sums, averages and products of 16-bit floats are not hierarchical. They are rounded once, at the root of the
 * tree, but a result for the ranks of one host would have to be rounded before it is sent. So all ranks exchange their
 * operands directly. */
#include "comm/collective/collective.h"
#include "comm/collective/exchange.h"
#include "comm/collective/reduction.h"
#include "comm/shm/shm.h"
#include "comm/tcp/tcp.h"
#include "comm/traffic.h"

#include <stdio.h>
#include <stdlib.h>

bool ce_hierarchical_fits(const ce_tcp *tcp, const ce_mesh_place *places)
{
    int each = places[0].local_size;
    bool even = tcp->size % each == 0;
    for (int i = 0; i < tcp->size; i++)
        even = even && places[i].local_size == each && places[i].local_rank == i % each;
    return ce_traffic_is_hierarchical(&(ce_traffic_group){ .size = tcp->size, .here = each, .even = even });
}

static cs_status build(ce_tcp *tcp, const cs_comm_settings *settings)
{
    cs_world inside = tcp->comm->world;
    cs_comm_settings within = *settings;
    int each = inside.local_size;
    within.kind = "shm";
    inside.rank = inside.local_rank;
    inside.size = each;
    tcp->across.count = tcp->size / each;
    tcp->across.own_index = tcp->rank / each;
    tcp->across.ranks = calloc((size_t)tcp->across.count, sizeof *tcp->across.ranks);
    tcp->slots = malloc(CE_COMM_STAGING);
    if (!tcp->across.ranks || !tcp->slots)
        return ce_fail(CS_NO_MEMORY, "no memory for the communication of %d hosts", tcp->across.count);
    for (int i = 0; i < tcp->across.count; i++)
        tcp->across.ranks[i] = i * each + inside.local_rank;
    /* The job name contains the number of the host, because tests simulate several hosts on one machine. */
    snprintf(inside.job, sizeof inside.job, "%.40s host %d", tcp->comm->world.job, tcp->across.own_index);
    int *names = calloc((size_t)each, sizeof *names);
    if (!names)
        return ce_fail(CS_NO_MEMORY, "no memory for the names of %d ranks", each);
    for (int i = 0; i < each; i++)
        names[i] = ce_comm_name(tcp->comm, tcp->across.own_index * each + i);
    CE_TRY(ce_comm_open(&tcp->inside, &inside, &within, names, NULL));
    tcp->comm->heap = tcp->inside->heap;
    tcp->comm->heap_bytes = tcp->inside->heap_bytes;
    return CS_OK;
}

cs_status ce_hierarchical_open(ce_tcp *tcp, const cs_comm_settings *settings)
{
    cs_status status = build(tcp, settings);
    if (status != CS_OK)
        ce_hierarchical_close(tcp);
    return status;
}

void ce_hierarchical_close(ce_tcp *tcp)
{
    cs_comm_close(tcp->inside);
    free(tcp->across.ranks);
    free(tcp->slots);
    tcp->inside = NULL;
    tcp->across.ranks = NULL;
    tcp->slots = NULL;
    tcp->comm->heap = NULL;
}

void ce_hierarchical_announce(cs_comm *comm)
{
    ce_tcp *tcp = comm->private_data;
    cs_comm *inside = tcp->inside;
    if (!inside)
        return;
    int first = tcp->across.own_index * inside->world.size;
    inside->call = tcp->comm->call;
    inside->begun = tcp->comm->begun;
    inside->settings.call_seconds = tcp->comm->settings.call_seconds;
    /* For a message, `root` is the other rank. It is replaced by that rank's number inside this host, or by -1 if that
     * number would be negative. */
    if (ce_call_is_message(&inside->call))
        inside->call.root = inside->call.root >= first ? inside->call.root - first : -1;
    inside->transport->announce(inside);
}

static const ce_transport *shm_of(ce_tcp *tcp)
{
    return tcp->inside->transport;
}

static bool rounds(cs_dtype dtype, cs_reduce_op op)
{
    return (op == CS_SUM || op == CS_AVG || op == CS_PROD) && (dtype == CS_BF16 || dtype == CS_F16);
}

/* Returns the operation for the partial results inside a host and between hosts. For an average the operation is a sum,
 * and the function finish() divides the result. */
static cs_reduce_op partial(cs_reduce_op op)
{
    return op == CS_AVG ? CS_SUM : op;
}

static void finish(const ce_tcp *tcp, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    if (op == CS_AVG)
        ce_reduce_divide(data, count, dtype, tcp->size);
}

static void all_reduce_whole(ce_tcp *tcp, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    shm_of(tcp)->all_reduce(tcp->inside, data, count, dtype, partial(op));
    ce_among_all_reduce(tcp->comm, &tcp->across, data, count, dtype, partial(op));
    finish(tcp, data, count, dtype, op);
}

void ce_hierarchical_all_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    ce_tcp *tcp = comm->private_data;
    if (!tcp->inside || rounds(dtype, op)) {
        ce_messages_all_reduce(comm, data, count, dtype, op);
        return;
    }
    size_t element = cs_dtype_bytes(dtype);
    int each = tcp->inside->world.size;
    int64_t part = (size_t)count * element > CE_ALL_REDUCE_WHOLE ? count / each : 0;
    char *own_part = (char *)data + (size_t)(tcp->inside->world.rank * part) * element;
    if (part > 0) {
        shm_of(tcp)->reduce_scatter(tcp->inside, own_part, data, part, dtype, partial(op));
        ce_among_all_reduce(comm, &tcp->across, own_part, part, dtype, partial(op));
        finish(tcp, own_part, part, dtype, op);
        shm_of(tcp)->all_gather(tcp->inside, data, own_part, part, dtype);
    }
    /* The elements that are not in a part: all elements of a short vector, or the last count % `each` elements. */
    if (count > part * each)
        all_reduce_whole(tcp, (char *)data + (size_t)(part * each) * element, count - part * each, dtype, op);
    comm->algorithm = "hierarchical";
}

/* The result is computed in pieces that fit into one slot. tcp->across are the ranks that have this rank's local rank,
 * one on each host; tcp->slots has one slot for each of them. For the result of each of these ranks, this rank first
 * reduces the operands of its own host, and writes the partial result into the slot of that rank. Then the ranks of
 * tcp->across exchange their slots and reduce them. */
void ce_hierarchical_reduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype,
                                    cs_reduce_op op)
{
    ce_tcp *tcp = comm->private_data;
    if (!tcp->inside || rounds(dtype, op)) {
        ce_messages_reduce_scatter(comm, out, in, count, dtype, op);
        return;
    }
    size_t element = cs_dtype_bytes(dtype), slot = ce_exchange_slot_bytes(&tcp->across);
    int64_t piece = (int64_t)(slot / element), host = tcp->inside->world.size * count, at = 0;
    do {
        int64_t some = count - at < piece ? count - at : piece;
        ce_parts parts = { .count = some, .apart = slot };
        for (int i = 0; i < tcp->across.count; i++)
            ce_shm_reduce_parts(tcp->inside, tcp->slots + (size_t)i * slot,
                                (const char *)in + (size_t)(i * host + at) * element, some, count, dtype, partial(op));
        ce_among_reduce_scatter(comm, &tcp->across, (char *)out + (size_t)at * element, tcp->slots, &parts, dtype,
                                partial(op));
        at += some;
    } while (at < count);
    finish(tcp, out, count, dtype, op);
    comm->algorithm = "hierarchical";
}

void ce_hierarchical_all_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    ce_tcp *tcp = comm->private_data;
    if (!tcp->inside) {
        ce_messages_all_gather(comm, out, in, count, dtype);
        return;
    }
    size_t bytes = (size_t)count * cs_dtype_bytes(dtype), host = (size_t)tcp->inside->world.size * bytes;
    size_t own_offset = (size_t)tcp->inside->world.rank * bytes;
    ce_parts parts = { .count = count, .apart = host };
    ce_among_all_gather(comm, &tcp->across, (char *)out + own_offset, in, &parts, dtype);
    for (int i = 0; i < tcp->across.count; i++)
        shm_of(tcp)->all_gather(tcp->inside, (char *)out + (size_t)i * host,
                                (char *)out + (size_t)i * host + own_offset, count, dtype);
    comm->algorithm = "hierarchical";
}

void ce_hierarchical_broadcast(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, int root)
{
    ce_tcp *tcp = comm->private_data;
    if (!tcp->inside) {
        ce_messages_broadcast(comm, data, count, dtype, root);
        return;
    }
    int each = tcp->inside->world.size;
    if (tcp->inside->world.rank == root % each)
        ce_among_broadcast(comm, &tcp->across, data, (size_t)count * cs_dtype_bytes(dtype), root / each);
    shm_of(tcp)->broadcast(tcp->inside, data, count, dtype, root % each);
    comm->algorithm = "hierarchical";
}

/* A rank sends a message to other hosts only after all ranks of its own host have reached the barrier. */
void ce_hierarchical_barrier(cs_comm *comm)
{
    ce_tcp *tcp = comm->private_data;
    if (tcp->inside)
        shm_of(tcp)->barrier(tcp->inside);
    ce_among_barrier(comm, tcp->inside ? &tcp->across : &comm->all);
}
