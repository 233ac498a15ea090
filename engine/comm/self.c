/* self.c - the transport of a world with one rank: sums are the input, gathers are copies. */
#include "comm/heap.h"

#include <string.h>

static bool fits(const cs_world *world)
{
    return world->size == 1;
}

static void all_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    (void)comm, (void)data, (void)count, (void)dtype, (void)op;
}

static void copy(void *out, const void *in, int64_t count, cs_dtype dtype)
{
    if (out != in && count > 0)
        memcpy(out, in, (size_t)count * cs_dtype_bytes(dtype));
}

static void reduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    (void)comm, (void)op;
    copy(out, in, count, dtype);
}

static void all_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    (void)comm;
    copy(out, in, count, dtype);
}

static void broadcast(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, int root)
{
    (void)comm, (void)data, (void)count, (void)dtype, (void)root;
}

static void barrier(cs_comm *comm)
{
    (void)comm;
}

static void *first(cs_comm *comm, void *own)
{
    (void)comm;
    return own;
}

/* comm.c does not allow a rank to send to itself, so a world with one rank never sends. */
const ce_transport ce_comm_self = {
    .name = "self",
    .fits = fits,
    .open = ce_heap_open,
    .close = ce_heap_close,
    .all_reduce = all_reduce,
    .reduce_scatter = reduce_scatter,
    .all_gather = all_gather,
    .broadcast = broadcast,
    .barrier = barrier,
    .first = first,
};
