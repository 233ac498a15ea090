/* staging.c - collectives on GPU memory through pinned host memory, for builds without NCCL and for several ranks that
 * share one GPU, which NCCL does not allow.
 *
 * A vector is divided into pieces. Each piece is copied into pinned memory, moved or summed there by the host's
 * transport, and copied back. There are two buffers: while the host's transport works on one piece, the next one is
 * copied into the other buffer. The host's transport sums element by element, so the result has the same bits as on the
 * CPU, wherever the vector is divided. The caller waits for all copies except the last one from pinned memory to the
 * device, which may still be queued on the comm stream when the call returns. In a world of one rank the data is copied
 * inside the device. */
#include "comm/collective/exchange.h"
#include "base/beat.h"

#include <stdlib.h>

enum { PIECE = 4 << 20 };

typedef struct {
    cs_stream *stream;
    char *pieces[2];
} staging_buffers;

/* A vector of `parts` parts with request.count elements each. A piece contains the same range of elements of every
 * part; in the piece these ranges are adjacent. */
typedef struct {
    char *data;
    int parts;
    int first; /* position of this vector's first part in a piece, counted in parts */
} vector;

/* One call. `in` is the device memory that this rank reads, and `out` the memory that it writes. If this rank
 * reads or writes nothing, the vector has 0 parts. */
typedef struct {
    int what;      /* the collective, a constant CE_BEAT_... */
    int64_t count; /* number of elements of a part */
    cs_dtype dtype;
    cs_reduce_op op;
    int peer;
    vector in, out;
} request;

static size_t bytes_of(const request *r, int64_t count)
{
    return (size_t)count * cs_dtype_bytes(r->dtype);
}

/* Copies the elements [at, at + count) of every part of `in` from the device into a piece. The function put() copies
 * them from a piece to `out`. */
static void fetch(const staging_buffers *buffers, const request *r, char *piece, int64_t at, int64_t count)
{
    for (int i = 0; i < r->in.parts; i++)
        ce_stream_copy(buffers->stream, piece + bytes_of(r, (r->in.first + i) * count),
                       r->in.data + bytes_of(r, i * r->count + at), bytes_of(r, count));
}

static void put(const staging_buffers *buffers, const request *r, const char *piece, int64_t at, int64_t count)
{
    for (int i = 0; i < r->out.parts; i++)
        ce_stream_copy(buffers->stream, r->out.data + bytes_of(r, i * r->count + at),
                       piece + bytes_of(r, (r->out.first + i) * count), bytes_of(r, count));
}

static void run_on_host(cs_comm *comm, const request *r, char *piece, int64_t count)
{
    cs_comm *host = comm->host;
    char *own_part = piece + bytes_of(r, comm->world.rank * count);
    switch (r->what) {
    case CE_BEAT_ALL_REDUCE:
        host->transport->all_reduce(host, piece, count, r->dtype, r->op);
        break;
    case CE_BEAT_REDUCE_SCATTER:
        host->transport->reduce_scatter(host, own_part, piece, count, r->dtype, r->op);
        break;
    case CE_BEAT_ALL_GATHER:
        host->transport->all_gather(host, piece, own_part, count, r->dtype);
        break;
    case CE_BEAT_BROADCAST:
        host->transport->broadcast(host, piece, count, r->dtype, r->peer);
        break;
    case CE_BEAT_SEND:
        ce_exchange_send(host, r->peer, piece, (size_t)count);
        ce_exchange_run(host);
        break;
    default:
        ce_exchange_receive(host, r->peer, piece, (size_t)count);
        ce_exchange_run(host);
    }
}

/* Makes one call, piece by piece. The copies of a stream run in order. A buffer may therefore be filled again as soon
 * as the copy back from it is queued, and the host may access a piece after it has waited for the stream. */
static void run(cs_comm *comm, const request *r)
{
    const staging_buffers *buffers = comm->private_data;
    int parts = r->in.parts > r->out.parts ? r->in.parts : r->out.parts;
    int64_t capacity = (int64_t)(PIECE / cs_dtype_bytes(r->dtype)) / parts,
            count = r->count < capacity ? r->count : capacity;
    fetch(buffers, r, buffers->pieces[0], 0, count);
    for (int64_t at = 0, turn = 0; at < r->count; turn ^= 1) {
        int64_t next = at + count, more = r->count - next < capacity ? r->count - next : capacity;
        ce_stream_sync(buffers->stream);
        if (more > 0)
            fetch(buffers, r, buffers->pieces[turn ^ 1], next, more);
        run_on_host(comm, r, buffers->pieces[turn], count);
        put(buffers, r, buffers->pieces[turn], at, count);
        at = next;
        count = more;
    }
}

static bool alone(const cs_comm *comm)
{
    return comm->world.size == 1;
}

static void copy(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    ce_stream_copy(ce_device_stream(comm->device, CE_COMM), out, in, (size_t)count * cs_dtype_bytes(dtype));
}

static void all_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    if (!alone(comm))
        run(comm, &(request){ CE_BEAT_ALL_REDUCE, count, dtype, op, 0, { data, 1, 0 }, { data, 1, 0 } });
}

static void reduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    vector whole = { (char *)(size_t)in, comm->world.size, 0 }, part = { out, 1, comm->world.rank };
    if (alone(comm))
        copy(comm, out, in, count, dtype);
    else
        run(comm, &(request){ CE_BEAT_REDUCE_SCATTER, count, dtype, op, 0, whole, part });
}

static void all_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    vector part = { (char *)(size_t)in, 1, comm->world.rank }, whole = { out, comm->world.size, 0 };
    if (alone(comm))
        copy(comm, out, in, count, dtype);
    else
        run(comm, &(request){ CE_BEAT_ALL_GATHER, count, dtype, CS_SUM, 0, part, whole });
}

static void broadcast(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, int root)
{
    vector all = { data, 1, 0 }, none = { 0 };
    bool mine = comm->world.rank == root;
    if (!alone(comm))
        run(comm, &(request){ CE_BEAT_BROADCAST, count, dtype, CS_SUM, root, mine ? all : none, mine ? none : all });
}

static void send_message(cs_comm *comm, const void *data, size_t bytes, int to)
{
    vector all = { (char *)(size_t)data, 1, 0 };
    run(comm, &(request){ CE_BEAT_SEND, (int64_t)bytes, CS_U8, CS_SUM, to, all, { 0 } });
}

static void receive_message(cs_comm *comm, void *data, size_t bytes, int from)
{
    run(comm, &(request){ CE_BEAT_RECEIVE, (int64_t)bytes, CS_U8, CS_SUM, from, { 0 }, { data, 1, 0 } });
}

static cs_status open_pair(cs_comm *comm, const cs_comm_settings *settings)
{
    (void)settings;
    if (alone(comm))
        return CS_OK;
    staging_buffers *buffers = calloc(1, sizeof *buffers);
    comm->private_data = buffers;
    if (!buffers)
        return ce_fail(CS_NO_MEMORY, "no memory for staging the collectives of a device");
    buffers->stream = ce_device_stream(comm->device, CE_COMM);
    for (int i = 0; i < 2; i++)
        buffers->pieces[i] = ce_device_alloc_pinned(comm->device, PIECE);
    return CS_OK;
}

static void close_pair(cs_comm *comm)
{
    staging_buffers *buffers = comm->private_data;
    ce_stream_sync(ce_device_stream(comm->device, CE_COMM)); /* the last copies may still read the buffers */
    for (int i = 0; buffers && i < 2; i++)
        ce_device_free(comm->device, buffers->pieces[i]);
    free(buffers);
}

const ce_transport ce_comm_device_staging = {
    .name = "device_staging",
    .open = open_pair,
    .close = close_pair,
    .all_reduce = all_reduce,
    .reduce_scatter = reduce_scatter,
    .all_gather = all_gather,
    .broadcast = broadcast,
    .send = send_message,
    .receive = receive_message,
};
