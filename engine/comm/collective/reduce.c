/* reduce.c - gives one rank the sum over ranks. The algorithm is:
 *
 *     whole     It takes 1 step for each piece; each rank but the root sends one vector. The root computes the sum in
 *               the order of the summation tree. */
#include "comm/collective/collective.h"
#include "comm/collective/exchange.h"

void ce_messages_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op, int root)
{
    size_t element = cs_dtype_bytes(dtype);
    bool is_root = comm->world.rank == root;
    int64_t piece = (int64_t)(ce_exchange_slot_bytes(&comm->all) / element), at = 0;
    comm->algorithm = "whole";
    do {
        int64_t some = count - at < piece ? count - at : piece;
        char *part = (char *)data + (size_t)at * element;
        for (int i = 0; i < comm->world.size && is_root; i++)
            if (i != root)
                ce_exchange_receive(comm, i, ce_exchange_slot(comm, &comm->all, i), (size_t)some * element);
        if (!is_root)
            ce_exchange_send(comm, root, part, (size_t)some * element);
        ce_exchange_run(comm);
        if (is_root)
            ce_exchange_reduce_slots(comm, &comm->all, part, part, some, dtype, op);
        at += some;
    } while (at < count);
}
