/* all_to_all.c - each rank sends to every rank one part of its own vector. The algorithm is:
 *
 *     direct    It takes 1 step; each rank sends (n - 1) / n of the vector, directly between the callers' buffers. */
#include "comm/collective/collective.h"
#include "comm/collective/exchange.h"

#include <string.h>

void ce_messages_all_to_all(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    comm->algorithm = "direct";
    size_t bytes = (size_t)count * cs_dtype_bytes(dtype), own_offset = (size_t)comm->world.rank * bytes;
    for (int i = 0; i < comm->world.size; i++) {
        if (i == comm->world.rank)
            continue;
        ce_exchange_send(comm, i, (const char *)in + (size_t)i * bytes, bytes);
        ce_exchange_receive(comm, i, (char *)out + (size_t)i * bytes, bytes);
    }
    ce_exchange_run(comm);
    if (bytes)
        memcpy((char *)out + own_offset, (const char *)in + own_offset, bytes);
}
