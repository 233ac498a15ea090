/* tcp.c - collectives between ranks on several hosts: parts are exchanged directly, and summed in the order of the
 * tree.
 *
 * Every rank sends to each other rank that rank's part of the vector, and sums its own part in the order of reduce.h,
 * so the bits are those of the shm transport. An all_reduce sends 2 (n - 1) / n of the vector from each rank, as a ring
 * does, but in two steps instead of 2 (n - 1). A short vector is sent whole to all ranks, in one step. A long vector is
 * divided into pieces: while the sum of one piece is distributed, the next is collected. Only operands of sums are
 * copied, and no memory is allocated. */
#include "comm/tcp.h"
#include "base/beat.h"
#include "base/processors.h"
#include "base/range.h"
#include "comm/reduce.h"
#include "comm/heap.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_SECONDS = 600, PART_STEP = 64, YIELDS_ROOMY = 100, YIELDS_CROWDED = 2 };

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

size_t ce_tcp_slot_bytes(const ce_tcp_group *group)
{
    size_t room = CS_TCP_STAGING / (size_t)group->count / PART_STEP * PART_STEP;
    return room < CS_TCP_PIECE ? room : CS_TCP_PIECE;
}

static char *slot_of(const ce_tcp *tcp, const ce_tcp_group *group, int member)
{
    return tcp->staging + (size_t)member * ce_tcp_slot_bytes(group);
}

/* ---- collectives of a group ------------------------------------------------------------------- */

/* Sums the operands in the slots and this rank's own operand in tree order. */
static void reduce_slots(ce_tcp *tcp, const ce_tcp_group *group, void *out, const void *own_data, int64_t count,
                         cs_dtype dtype, cs_reduce_op op)
{
    for (int i = 0; i < group->count; i++)
        tcp->inputs[i] = i == group->own_index ? own_data : slot_of(tcp, group, i);
    ce_reduce((void *[]){ out }, 1, tcp->inputs, group->count, count, dtype, op);
}

static void all_reduce_short(ce_tcp *tcp, const ce_tcp_group *group, void *data, int64_t count, cs_dtype dtype,
                             cs_reduce_op op)
{
    size_t bytes = (size_t)count * cs_dtype_bytes(dtype);
    for (int i = 0; i < group->count; i++) {
        if (i == group->own_index)
            continue;
        ce_tcp_frames_send(tcp, group->ranks[i], data, bytes);
        ce_tcp_frames_receive(tcp, group->ranks[i], slot_of(tcp, group, i), bytes);
    }
    ce_tcp_frames_run(tcp);
    reduce_slots(tcp, group, data, data, count, dtype, op);
}

/* The elements of piece `index` of a member's part of a vector. */
static ce_range piece_of(int64_t count, int64_t part, int64_t piece, int member, int64_t index)
{
    int64_t from = member * part + index * piece;
    ce_range all = { min(member * part, count), min((member + 1) * part, count) };
    return ce_range_overlap((ce_range){ from, from + piece }, all);
}

void ce_tcp_all_reduce(ce_tcp *tcp, const ce_tcp_group *group, void *data, int64_t count, cs_dtype dtype,
                       cs_reduce_op op)
{
    size_t element = cs_dtype_bytes(dtype), slot = ce_tcp_slot_bytes(group);
    int64_t part = ce_round_up((count + group->count - 1) / group->count, PART_STEP);
    int64_t piece = (int64_t)(slot / element), steps = (part + piece - 1) / piece;
    if ((size_t)count * element <= (slot < CS_TCP_SMALL ? slot : CS_TCP_SMALL)) {
        all_reduce_short(tcp, group, data, count, dtype, op);
        return;
    }
    for (int64_t step = 0; step <= steps; step++) {
        ce_range own_piece = piece_of(count, part, piece, group->own_index, step);
        ce_range sum = piece_of(count, part, piece, group->own_index, step - 1); /* complete since the previous step */
        for (int i = 0; i < group->count; i++) {
            ce_range its = piece_of(count, part, piece, i, step), its_sum = piece_of(count, part, piece, i, step - 1);
            if (i == group->own_index)
                continue;
            if (step < steps) {
                ce_tcp_frames_send(tcp, group->ranks[i], (char *)data + (size_t)its.from * element,
                                   (size_t)ce_range_length(its) * element);
                ce_tcp_frames_receive(tcp, group->ranks[i], slot_of(tcp, group, i),
                                      (size_t)ce_range_length(own_piece) * element);
            }
            if (step > 0) {
                ce_tcp_frames_send(tcp, group->ranks[i], (char *)data + (size_t)sum.from * element,
                                   (size_t)ce_range_length(sum) * element);
                ce_tcp_frames_receive(tcp, group->ranks[i], (char *)data + (size_t)its_sum.from * element,
                                      (size_t)ce_range_length(its_sum) * element);
            }
        }
        ce_tcp_frames_run(tcp);
        if (step < steps)
            reduce_slots(tcp, group, (char *)data + (size_t)own_piece.from * element,
                         (char *)data + (size_t)own_piece.from * element, ce_range_length(own_piece), dtype, op);
    }
}

void ce_tcp_reduce_part(ce_tcp *tcp, const ce_tcp_group *group, void *out, const void *in, size_t apart, int64_t count,
                        cs_dtype dtype, cs_reduce_op op)
{
    size_t bytes = (size_t)count * cs_dtype_bytes(dtype);
    for (int i = 0; i < group->count; i++) {
        if (i == group->own_index)
            continue;
        ce_tcp_frames_send(tcp, group->ranks[i], (const char *)in + (size_t)i * apart, bytes);
        ce_tcp_frames_receive(tcp, group->ranks[i], slot_of(tcp, group, i), bytes);
    }
    ce_tcp_frames_run(tcp);
    reduce_slots(tcp, group, out, (const char *)in + (size_t)group->own_index * apart, count, dtype, op);
}

void ce_tcp_gather(ce_tcp *tcp, const ce_tcp_group *group, void *out, const void *in, size_t bytes, size_t apart)
{
    for (int i = 0; i < group->count; i++) {
        if (i == group->own_index)
            continue;
        ce_tcp_frames_send(tcp, group->ranks[i], in, bytes);
        ce_tcp_frames_receive(tcp, group->ranks[i], (char *)out + (size_t)i * apart, bytes);
    }
    ce_tcp_frames_run(tcp);
    char *own_part = (char *)out + (size_t)group->own_index * apart;
    if (bytes && own_part != in)
        memcpy(own_part, in, bytes);
}

void ce_tcp_barrier(ce_tcp *tcp, const ce_tcp_group *group)
{
    ce_tcp_gather(tcp, group, NULL, NULL, 0, 0);
}

void ce_tcp_broadcast(ce_tcp *tcp, const ce_tcp_group *group, void *data, size_t bytes, int root)
{
    for (int i = 0; i < group->count && group->own_index == root; i++)
        if (i != root)
            ce_tcp_frames_send(tcp, group->ranks[i], data, bytes);
    if (group->own_index != root)
        ce_tcp_frames_receive(tcp, group->ranks[root], data, bytes);
    ce_tcp_frames_run(tcp);
}

/* ---- the transport ---------------------------------------------------------------------------- */

static void all_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    ce_tcp *tcp = comm->private_data;
    tcp->call = (ce_call){ CS_BEAT_ALL_REDUCE, (uint8_t)dtype, (uint8_t)op, 0, count };
    if (tcp->inside)
        ce_hierarchical_all_reduce(tcp, data, count, dtype, op);
    else
        ce_tcp_all_reduce(tcp, &tcp->all, data, count, dtype, op);
}

void ce_tcp_reduce_scatter(ce_tcp *tcp, void *out, const void *in, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    size_t element = cs_dtype_bytes(dtype);
    int64_t piece = (int64_t)(ce_tcp_slot_bytes(&tcp->all) / element), at = 0;
    do {
        int64_t some = min(piece, count - at);
        ce_tcp_reduce_part(tcp, &tcp->all, (char *)out + (size_t)at * element, (const char *)in + (size_t)at * element,
                           (size_t)count * element, some, dtype, op);
        at += some;
    } while (at < count);
}

static void reduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    ce_tcp *tcp = comm->private_data;
    tcp->call = (ce_call){ CS_BEAT_REDUCE_SCATTER, (uint8_t)dtype, (uint8_t)op, 0, count };
    if (tcp->inside)
        ce_hierarchical_reduce_scatter(tcp, out, in, count, dtype, op);
    else
        ce_tcp_reduce_scatter(tcp, out, in, count, dtype, op);
}

static void all_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    ce_tcp *tcp = comm->private_data;
    size_t bytes = (size_t)count * cs_dtype_bytes(dtype);
    tcp->call = (ce_call){ CS_BEAT_ALL_GATHER, (uint8_t)dtype, 0, 0, count };
    if (tcp->inside)
        ce_hierarchical_all_gather(tcp, out, in, count, dtype);
    else
        ce_tcp_gather(tcp, &tcp->all, out, in, bytes, bytes);
}

static void broadcast(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, int root)
{
    ce_tcp *tcp = comm->private_data;
    tcp->call = (ce_call){ CS_BEAT_BROADCAST, (uint8_t)dtype, 0, root, count };
    if (tcp->inside)
        ce_hierarchical_broadcast(tcp, data, count, dtype, root);
    else
        ce_tcp_broadcast(tcp, &tcp->all, data, (size_t)count * cs_dtype_bytes(dtype), root);
}

static void barrier(cs_comm *comm)
{
    ce_tcp *tcp = comm->private_data;
    tcp->call = (ce_call){ .what = CS_BEAT_BARRIER };
    if (tcp->inside)
        ce_hierarchical_barrier(tcp);
    else
        ce_tcp_barrier(tcp, &tcp->all);
}

/* Both sides describe a message by the call of the sender. */
static void send_message(cs_comm *comm, const void *data, size_t bytes, int to)
{
    ce_tcp *tcp = comm->private_data;
    tcp->call = (ce_call){ .what = CS_BEAT_SEND, .dtype = CS_U8, .count = (int64_t)bytes };
    ce_tcp_frames_send(tcp, to, data, bytes);
    ce_tcp_frames_run(tcp);
}

static void receive_message(cs_comm *comm, void *data, size_t bytes, int from)
{
    ce_tcp *tcp = comm->private_data;
    tcp->call = (ce_call){ .what = CS_BEAT_SEND, .dtype = CS_U8, .count = (int64_t)bytes };
    ce_tcp_frames_receive(tcp, from, data, bytes);
    ce_tcp_frames_run(tcp);
}

/* ---- opening, closing ------------------------------------------------------------------------- */

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
    tcp->inputs = calloc(size, sizeof *tcp->inputs);
    tcp->all.ranks = calloc(size, sizeof *tcp->all.ranks);
    tcp->staging = malloc(CS_TCP_STAGING);
    for (int i = 0; tcp->links && i < tcp->size; i++)
        tcp->links[i].socket = -1;
    if (!tcp->links || !tcp->polls || !tcp->inputs || !tcp->all.ranks || !tcp->staging)
        return ce_fail(CS_NO_MEMORY, "no memory for the connections of %d ranks", tcp->size);
    tcp->all.count = tcp->size;
    tcp->all.own_index = tcp->rank;
    for (int i = 0; i < tcp->size; i++)
        tcp->all.ranks[i] = i;
    return CS_OK;
}

static cs_status connect_all(ce_tcp *tcp, ce_mesh_place *places, const cs_comm_settings *settings)
{
    double seconds = settings->timeout_seconds > 0 ? settings->timeout_seconds : DEFAULT_SECONDS;
    if (!places)
        return ce_fail(CS_NO_MEMORY, "no memory for the places of %d ranks", tcp->size);
    CS_TRY(ce_mesh_open(tcp, places, seconds));
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
    CS_TRY(check_address(&comm->world));
    CS_TRY(make_lists(tcp));
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
    free(tcp->inputs);
    free(tcp->all.ranks);
    free(tcp->staging);
    free(tcp);
}

const ce_transport ce_comm_tcp = {
    .name = "tcp",
    .fits = fits,
    .open = open_tcp,
    .close = close_tcp,
    .all_reduce = all_reduce,
    .reduce_scatter = reduce_scatter,
    .all_gather = all_gather,
    .broadcast = broadcast,
    .barrier = barrier,
    .send = send_message,
    .receive = receive_message,
    .missing = ce_tcp_frames_missing,
};
