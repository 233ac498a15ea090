/* reduce.c - gives one rank the sum over ranks. The algorithms are:
 *
 *     whole     It takes 1 step for each piece; each rank but the root sends one vector. The root computes the sum in
 *               the order of the summation tree. It is for vectors of at most ce_sizes.reduce_whole bytes.
 *     divided   It takes 2 steps for each piece; each rank sends less than 1 vector. Each rank sums its part of the
 *               piece, as in a direct all_reduce, and sends the sum to the root. The root receives 2 (n - 1) / n of the
 *               vector instead of n - 1 vectors. */
#include "comm/collective/collective.h"
#include "comm/collective/exchange.h"
#include "base/range.h"

typedef struct {
    cs_comm *comm;
    cs_dtype dtype;
    cs_reduce_op op;
    int root;
} request;

static void whole_piece(const request *r, char *data, int64_t count)
{
    cs_comm *comm = r->comm;
    size_t bytes = (size_t)count * cs_dtype_bytes(r->dtype);
    bool is_root = comm->world.rank == r->root;
    for (int i = 0; i < comm->world.size && is_root; i++)
        if (i != r->root)
            ce_exchange_receive(comm, i, ce_exchange_slot(comm, &comm->all, i), bytes);
    if (!is_root)
        ce_exchange_send(comm, r->root, data, bytes);
    ce_exchange_run(comm);
    if (is_root)
        ce_exchange_reduce_slots(comm, &comm->all, data, data, count, r->dtype, r->op);
}

/* Reduces one piece by the algorithm "divided". Each rank writes the sum of its part of the piece into its own slot or,
 * on the root, into `data`. */
static void divided_piece(const request *r, char *data, int64_t count)
{
    cs_comm *comm = r->comm;
    size_t element = cs_dtype_bytes(r->dtype);
    int size = comm->world.size, rank = comm->world.rank;
    ce_range own_part = ce_range_part(count, rank, size);
    char *own_data = data + (size_t)own_part.from * element;
    char *sum = rank == r->root ? own_data : ce_exchange_slot(comm, &comm->all, rank);
    for (int i = 0; i < size; i++) {
        ce_range its = ce_range_part(count, i, size);
        if (i == rank)
            continue;
        ce_exchange_send(comm, i, data + (size_t)its.from * element, (size_t)ce_range_length(its) * element);
        ce_exchange_receive(comm, i, ce_exchange_slot(comm, &comm->all, i),
                            (size_t)ce_range_length(own_part) * element);
    }
    ce_exchange_run(comm);
    ce_exchange_reduce_slots(comm, &comm->all, sum, own_data, ce_range_length(own_part), r->dtype, r->op);
    for (int i = 0; i < size && rank == r->root; i++) {
        ce_range its = ce_range_part(count, i, size);
        if (i != rank)
            ce_exchange_receive(comm, i, data + (size_t)its.from * element, (size_t)ce_range_length(its) * element);
    }
    if (rank != r->root)
        ce_exchange_send(comm, r->root, sum, (size_t)ce_range_length(own_part) * element);
    ce_exchange_run(comm);
}

void ce_messages_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op, int root)
{
    request r = { comm, dtype, op, root };
    size_t element = cs_dtype_bytes(dtype), slot = ce_exchange_slot_bytes(&comm->all);
    bool is_short = (size_t)count * element <= comm->sizes.reduce_whole;
    int64_t piece = (int64_t)(slot / element) * (is_short ? 1 : comm->world.size), at = 0;
    do {
        int64_t some = count - at < piece ? count - at : piece;
        char *data_at = (char *)data + (size_t)at * element;
        if (is_short)
            whole_piece(&r, data_at, some);
        else
            divided_piece(&r, data_at, some);
        at += some;
    } while (at < count);
    comm->algorithm = is_short ? "whole" : "divided";
}
