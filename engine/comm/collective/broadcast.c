/* broadcast.c - gives every rank the data of one rank. The algorithms are:
 *
 *     whole     It takes 1 step; the root sends n - 1 vectors: the whole vector to each other rank. It is for vectors
 *               of at most WHOLE bytes, and for two ranks.
 *     divided   It takes 2 steps; the root sends 2 (n - 1) / n of the vector, and each other rank (n - 2) / n. The root
 *               sends a part to each rank, and each rank sends its part to all ranks that lack it. */
#include "comm/collective/collective.h"
#include "comm/collective/exchange.h"
#include "base/range.h"

enum { WHOLE = 64 << 10 };

static void whole(cs_comm *comm, const ce_members *among, char *data, size_t bytes, int root)
{
    for (int i = 0; i < among->count && among->own_index == root; i++)
        if (i != root)
            ce_exchange_send(comm, among->ranks[i], data, bytes);
    if (among->own_index != root)
        ce_exchange_receive(comm, among->ranks[root], data, bytes);
    ce_exchange_run(comm);
}

static void divided(cs_comm *comm, const ce_members *among, char *data, size_t bytes, int root)
{
    int own_index = among->own_index;
    ce_range own_part = ce_range_part((int64_t)bytes, own_index, among->count);
    for (int i = 0; i < among->count && own_index == root; i++) {
        ce_range part = ce_range_part((int64_t)bytes, i, among->count);
        if (i != root)
            ce_exchange_send(comm, among->ranks[i], data + part.from, (size_t)ce_range_length(part));
    }
    if (own_index != root)
        ce_exchange_receive(comm, among->ranks[root], data + own_part.from, (size_t)ce_range_length(own_part));
    ce_exchange_run(comm);
    for (int i = 0; i < among->count; i++) {
        ce_range part = ce_range_part((int64_t)bytes, i, among->count);
        if (i != own_index && i != root)
            ce_exchange_send(comm, among->ranks[i], data + own_part.from, (size_t)ce_range_length(own_part));
        if (i != own_index && own_index != root)
            ce_exchange_receive(comm, among->ranks[i], data + part.from, (size_t)ce_range_length(part));
    }
    ce_exchange_run(comm);
}

void ce_among_broadcast(cs_comm *comm, const ce_members *among, void *data, size_t bytes, int root)
{
    bool is_whole = among->count <= 2 || bytes <= WHOLE;
    comm->algorithm = is_whole ? "whole" : "divided";
    if (is_whole)
        whole(comm, among, data, bytes, root);
    else
        divided(comm, among, data, bytes, root);
}

void ce_messages_broadcast(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, int root)
{
    ce_among_broadcast(comm, &comm->all, data, (size_t)count * cs_dtype_bytes(dtype), root);
}
