/* reduce_scatter.c - gives each rank its part of a sum over ranks. The algorithm is:
 *
 *     direct    It takes 1 step for each piece; each rank sends (n - 1) / n of the vector. Each rank sends to every
 *               other rank the part of that other rank, and sums its own part in the order of the summation tree. */
#include "comm/collective/collective.h"
#include "comm/collective/exchange.h"

void ce_among_reduce_scatter(cs_comm *comm, const ce_members *among, void *out, const void *in, const ce_parts *parts,
                             cs_dtype dtype, cs_reduce_op op)
{
    size_t element = cs_dtype_bytes(dtype), own_offset = ce_parts_offset(parts, among->own_index, element);
    int64_t piece = (int64_t)(ce_exchange_slot_bytes(among) / element), max = ce_parts_longest(parts, among->count),
            step = 0;
    comm->algorithm = "direct";
    do { /* in the first step all ranks send messages, even empty ones, so that all ranks compare their calls */
        int64_t own_count = ce_parts_piece(parts, among->own_index, piece, step);
        size_t at = (size_t)(step * piece) * element;
        for (int i = 0; i < among->count; i++) {
            int64_t its = ce_parts_piece(parts, i, piece, step);
            if (i != among->own_index && (its > 0 || step == 0))
                ce_exchange_send(comm, among->ranks[i], (const char *)in + ce_parts_offset(parts, i, element) + at,
                                 (size_t)its * element);
            if (i != among->own_index && (own_count > 0 || step == 0))
                ce_exchange_receive(comm, among->ranks[i], ce_exchange_slot(comm, among, i),
                                    (size_t)own_count * element);
        }
        ce_exchange_run(comm);
        if (own_count > 0)
            ce_exchange_reduce_slots(comm, among, (char *)out + at, (const char *)in + own_offset + at, own_count,
                                     dtype, op);
    } while (++step * piece < max);
}

void ce_messages_reduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype,
                                cs_reduce_op op)
{
    ce_parts parts = { .count = count, .apart = (size_t)count * cs_dtype_bytes(dtype) };
    ce_among_reduce_scatter(comm, &comm->all, out, in, &parts, dtype, op);
}
