/* all_gather.c - gives every rank the parts of all ranks. The algorithm is:
 *
 *     direct    It takes 1 step; each rank sends (n - 1) / n of the vector. Each rank sends its part to all other
 *               ranks, directly between the callers' buffers. */
#include "comm/collective/collective.h"
#include "comm/collective/exchange.h"

#include <string.h>

void ce_among_all_gather(cs_comm *comm, const ce_members *among, void *out, const void *in, const ce_parts *parts,
                         cs_dtype dtype)
{
    size_t element = cs_dtype_bytes(dtype), bytes = (size_t)ce_parts_count(parts, among->own_index) * element;
    char *own_part = (char *)out + ce_parts_offset(parts, among->own_index, element);
    comm->algorithm = "direct";
    for (int i = 0; i < among->count; i++) {
        if (i == among->own_index)
            continue;
        ce_exchange_send(comm, among->ranks[i], in, bytes);
        ce_exchange_receive(comm, among->ranks[i], (char *)out + ce_parts_offset(parts, i, element),
                            (size_t)ce_parts_count(parts, i) * element);
    }
    ce_exchange_run(comm);
    if (bytes && own_part != in)
        memcpy(own_part, in, bytes);
}

void ce_messages_all_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    ce_parts parts = { .count = count, .apart = (size_t)count * cs_dtype_bytes(dtype) };
    ce_among_all_gather(comm, &comm->all, out, in, &parts, dtype);
}
