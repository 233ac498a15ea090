/* barrier.c - returns when all ranks have called it. The algorithm is:
 *
 *     direct    It takes 1 step; each rank sends n - 1 empty messages. */
#include "comm/collective/collective.h"
#include "comm/collective/exchange.h"

void ce_among_barrier(cs_comm *comm, const ce_members *among)
{
    for (int i = 0; i < among->count; i++) {
        if (i == among->own_index)
            continue;
        ce_exchange_send(comm, among->ranks[i], NULL, 0);
        ce_exchange_receive(comm, among->ranks[i], NULL, 0);
    }
    ce_exchange_run(comm);
}

void ce_messages_barrier(cs_comm *comm)
{
    ce_among_barrier(comm, &comm->all);
}
