/* all_reduce.c - replaces a vector on every rank by its sum over ranks. The algorithms are:
 *
 *     whole     It takes 1 step for each piece; each rank sends n - 1 vectors. Each rank sends its whole vector to all
 *               other ranks, and computes the sum. It is for vectors of at most CE_ALL_REDUCE_WHOLE bytes.
 *     direct    It takes 2 steps for each piece; each rank sends 2 (n - 1) / n of the vector. A ring sends as much, in
 *               2 (n - 1) steps. Each rank sends to every other rank the part of that other rank, sums its own part
 *               in the order of the summation tree, and sends the sum to all. While the sum of one piece is
 *               distributed, the next piece is collected. */
#include "comm/collective/collective.h"
#include "comm/collective/exchange.h"
#include "base/range.h"

enum { PART_STEP = 64 }; /* A part is a multiple of this number of elements, so that parts begin at cache lines. */

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void whole_piece(cs_comm *comm, const ce_members *among, void *data, int64_t count, cs_dtype dtype,
                        cs_reduce_op op)
{
    size_t bytes = (size_t)count * cs_dtype_bytes(dtype);
    for (int i = 0; i < among->count; i++) {
        if (i == among->own_index)
            continue;
        ce_exchange_send(comm, among->ranks[i], data, bytes);
        ce_exchange_receive(comm, among->ranks[i], ce_exchange_slot(comm, among, i), bytes);
    }
    ce_exchange_run(comm);
    ce_exchange_reduce_slots(comm, among, data, data, count, dtype, op);
}

static void whole(cs_comm *comm, const ce_members *among, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    size_t element = cs_dtype_bytes(dtype);
    int64_t piece = (int64_t)(ce_exchange_slot_bytes(among) / element), at = 0;
    do {
        whole_piece(comm, among, (char *)data + (size_t)at * element, min(piece, count - at), dtype, op);
        at += piece;
    } while (at < count);
}

/* A vector of `count` elements is divided into parts of this many elements; the last parts may be shorter or empty. */
static int64_t part_of(int64_t count, int members)
{
    return ce_round_up(ce_divide_up(count, members), PART_STEP);
}

ce_range ce_all_reduce_part(int64_t count, int members, int member)
{
    int64_t part = part_of(count, members);
    return (ce_range){ min(member * part, count), min((member + 1) * part, count) };
}

/* A part is divided into pieces of `piece` elements. Returns the range of elements of the vector that is piece number
 * `index` of the part that belongs to `member`. */
static ce_range piece_of(int64_t count, int members, int64_t piece, int member, int64_t index)
{
    int64_t from = member * part_of(count, members) + index * piece;
    return ce_range_overlap((ce_range){ from, from + piece }, ce_all_reduce_part(count, members, member));
}

static void direct(cs_comm *comm, const ce_members *among, void *vector, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    char *data = vector;
    size_t element = cs_dtype_bytes(dtype);
    int members = among->count;
    int64_t piece = (int64_t)(ce_exchange_slot_bytes(among) / element),
            steps = ce_divide_up(part_of(count, members), piece);
    for (int64_t step = 0; step <= steps; step++) {
        ce_range own_piece = piece_of(count, members, piece, among->own_index, step);
        /* `sum` is the range of elements whose sum the previous step has completed */
        ce_range sum = piece_of(count, members, piece, among->own_index, step - 1);
        for (int i = 0; i < among->count; i++) {
            ce_range its = piece_of(count, members, piece, i, step),
                     its_sum = piece_of(count, members, piece, i, step - 1);
            if (i == among->own_index)
                continue;
            if (step < steps) {
                ce_exchange_send(comm, among->ranks[i], data + (size_t)its.from * element,
                                 (size_t)ce_range_length(its) * element);
                ce_exchange_receive(comm, among->ranks[i], ce_exchange_slot(comm, among, i),
                                    (size_t)ce_range_length(own_piece) * element);
            }
            if (step > 0) {
                ce_exchange_send(comm, among->ranks[i], data + (size_t)sum.from * element,
                                 (size_t)ce_range_length(sum) * element);
                ce_exchange_receive(comm, among->ranks[i], data + (size_t)its_sum.from * element,
                                    (size_t)ce_range_length(its_sum) * element);
            }
        }
        ce_exchange_run(comm);
        char *at = data + (size_t)own_piece.from * element;
        if (step < steps)
            ce_exchange_reduce_slots(comm, among, at, at, ce_range_length(own_piece), dtype, op);
    }
}

void ce_among_all_reduce(cs_comm *comm, const ce_members *among, void *data, int64_t count, cs_dtype dtype,
                         cs_reduce_op op)
{
    bool is_whole = (size_t)count * cs_dtype_bytes(dtype) <= CE_ALL_REDUCE_WHOLE;
    comm->algorithm = is_whole ? "whole" : "direct";
    if (is_whole)
        whole(comm, among, data, count, dtype, op);
    else
        direct(comm, among, data, count, dtype, op);
}

void ce_messages_all_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    ce_among_all_reduce(comm, &comm->all, data, count, dtype, op);
}
