/* broadcast.c - gives every rank the data of one rank.
 *
 *     direct    1 step, (n - 1) vectors sent by the root: the root sends to all others. */
#include "comm/collective/collective.h"
#include "comm/collective/exchange.h"

void ce_among_broadcast(cs_comm *comm, const ce_members *among, void *data, size_t bytes, int root)
{
    for (int i = 0; i < among->count && among->own_index == root; i++)
        if (i != root)
            ce_exchange_send(comm, among->ranks[i], data, bytes);
    if (among->own_index != root)
        ce_exchange_receive(comm, among->ranks[root], data, bytes);
    ce_exchange_run(comm);
}

void ce_messages_broadcast(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, int root)
{
    ce_among_broadcast(comm, &comm->all, data, (size_t)count * cs_dtype_bytes(dtype), root);
}
