/* exchange.c - groups of messages that move at the same time, the slots for operands of sums, and parts of vectors. */
#include "comm/collective/exchange.h"
#include "comm/collective/reduction.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>

enum { MESSAGES_PER_RANK = 4, SLOT = 1 << 20, SLOT_STEP = 64 };

cs_status ce_exchange_open(cs_comm *comm)
{
    size_t size = (size_t)comm->world.size;
    comm->all = (ce_members){ comm->world.size, comm->world.rank, calloc(size, sizeof *comm->all.ranks) };
    comm->messages = calloc(MESSAGES_PER_RANK * size, sizeof *comm->messages);
    comm->inputs = calloc(size, sizeof *comm->inputs);
    /* Unused parts of the staging buffer cost nothing, because pages that are never written cost no memory. */
    comm->staging = malloc(CE_COMM_STAGING);
    if (!comm->all.ranks || !comm->messages || !comm->inputs || !comm->staging)
        return ce_fail(CS_NO_MEMORY, "no memory for the communication of %d ranks", comm->world.size);
    for (int i = 0; i < comm->world.size; i++)
        comm->all.ranks[i] = i;
    return CS_OK;
}

void ce_exchange_close(cs_comm *comm)
{
    free(comm->all.ranks);
    free(comm->messages);
    free(comm->inputs);
    free(comm->staging);
}

static void add(cs_comm *comm, int peer, bool incoming, const void *data, size_t bytes)
{
    CE_ASSERT(comm->message_count < MESSAGES_PER_RANK * comm->world.size);
    comm->messages[comm->message_count++] =
        (ce_message){ .peer = peer, .incoming = incoming, .data = (char *)(size_t)data, .bytes = bytes };
}

void ce_exchange_send(cs_comm *comm, int to, const void *data, size_t bytes)
{
    add(comm, to, false, data, bytes);
}

void ce_exchange_receive(cs_comm *comm, int from, void *data, size_t bytes)
{
    add(comm, from, true, data, bytes);
}

void ce_exchange_run(cs_comm *comm)
{
    if (comm->message_count > 0)
        comm->transport->move(comm, comm->messages, comm->message_count, true);
    comm->message_count = 0;
}

size_t ce_exchange_slot_bytes(const ce_members *among)
{
    size_t capacity = CE_COMM_STAGING / (size_t)among->count / SLOT_STEP * SLOT_STEP;
    return capacity < SLOT ? capacity : SLOT;
}

char *ce_exchange_slot(const cs_comm *comm, const ce_members *among, int member)
{
    return comm->staging + (size_t)member * ce_exchange_slot_bytes(among);
}

void ce_exchange_reduce_slots(cs_comm *comm, const ce_members *among, void *out, const void *own_data, int64_t count,
                              cs_dtype dtype, cs_reduce_op op)
{
    if (among->count == 1) {
        if (out != own_data && count > 0)
            memcpy(out, own_data, (size_t)count * cs_dtype_bytes(dtype));
        return;
    }
    for (int i = 0; i < among->count; i++)
        comm->inputs[i] = i == among->own_index ? own_data : ce_exchange_slot(comm, among, i);
    ce_reduce((void *[]){ out }, 1, comm->inputs, among->count, count, dtype, op);
}

int64_t ce_parts_count(const ce_parts *parts, int member)
{
    return parts->counts ? parts->counts[member] : parts->count;
}

int64_t ce_parts_piece(const ce_parts *parts, int member, int64_t piece, int64_t index)
{
    int64_t left = ce_parts_count(parts, member) - index * piece;
    return left < 0 ? 0 : left < piece ? left : piece;
}

int64_t ce_parts_longest(const ce_parts *parts, int members)
{
    int64_t count = 0;
    for (int i = 0; i < members; i++)
        count = ce_parts_count(parts, i) > count ? ce_parts_count(parts, i) : count;
    return count;
}

size_t ce_parts_offset(const ce_parts *parts, int member, size_t element_bytes)
{
    int64_t before = 0;
    if (!parts->counts)
        return (size_t)member * parts->apart;
    for (int i = 0; i < member; i++)
        before += parts->counts[i];
    return (size_t)before * element_bytes;
}
