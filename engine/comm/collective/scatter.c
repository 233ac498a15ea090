/* scatter.c - gives each rank its part of the root's vector. The algorithm is:
 *
 *     direct    It takes 1 step; the root sends (n - 1) / n of the vector, directly between the callers' buffers. */
#include "comm/collective/collective.h"
#include "comm/collective/exchange.h"

#include <string.h>

void ce_messages_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, int root)
{
    comm->algorithm = "direct";
    size_t bytes = (size_t)count * cs_dtype_bytes(dtype);
    int rank = comm->world.rank;
    for (int i = 0; i < comm->world.size && rank == root; i++)
        if (i != root)
            ce_exchange_send(comm, i, (const char *)in + (size_t)i * bytes, bytes);
    if (rank != root)
        ce_exchange_receive(comm, root, out, bytes);
    ce_exchange_run(comm);
    if (rank == root && bytes && (const char *)out != (const char *)in + (size_t)root * bytes)
        memcpy(out, (const char *)in + (size_t)root * bytes, bytes);
}
