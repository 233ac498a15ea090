/* gather.c - gives one rank the parts of all ranks. The algorithm is:
 *
 *     direct    It takes 1 step; each rank but the root sends one part, directly between the callers' buffers. */
#include "comm/collective/collective.h"
#include "comm/collective/exchange.h"

#include <string.h>

void ce_messages_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, int root)
{
    comm->algorithm = "direct";
    size_t bytes = (size_t)count * cs_dtype_bytes(dtype);
    int rank = comm->world.rank;
    for (int i = 0; i < comm->world.size && rank == root; i++)
        if (i != root)
            ce_exchange_receive(comm, i, (char *)out + (size_t)i * bytes, bytes);
    if (rank != root)
        ce_exchange_send(comm, root, in, bytes);
    ce_exchange_run(comm);
    if (rank == root && bytes && (const char *)in != (const char *)out + (size_t)root * bytes)
        memcpy((char *)out + (size_t)root * bytes, in, bytes);
}
