/* ring.c - collectives in a ring: each rank sends to the next rank only, and receives from the previous one. A part is
 * one n-th of the vector, and part p belongs to rank p.
 *
 *     all_reduce       2 (n - 1) steps for each piece of the vector; each rank sends 2 (n - 1) / n of the vector
 *     reduce_scatter   n - 1 steps for each piece of the vector; each rank sends (n - 1) / n of the vector
 *     all_gather       n - 1 steps; each rank sends (n - 1) / n of the vector
 *
 * The sum of part p begins with rank p + 1 and is passed on until it reaches rank p: ((x[p+1] + x[p+2]) + ...) + x[p].
 * Sums of 16-bit floats are rounded at every rank. This order is not that of the fixed summation tree. It depends only
 * on the number of ranks and on the lengths, so the bits are the same on every rank and in every run with as many
 * ranks. An average is the sum, divided at the end. */
#include "comm/collective/collective.h"
#include "comm/collective/exchange.h"
#include "comm/collective/reduction.h"
#include "base/range.h"

#include <string.h>

typedef struct {
    cs_comm *comm;
    const ce_members *among;
    cs_dtype dtype;
    cs_reduce_op op;
} request;

/* Returns the index of the member that is `distance` places before this rank in the ring. */
static int before(const ce_members *among, int distance)
{
    return (among->own_index - distance % among->count + 2 * among->count) % among->count;
}

/* Makes one step: sends `out` to the next member, and receives `in` from the previous one. */
static void pass(cs_comm *comm, const ce_members *among, const void *out, size_t out_bytes, void *in, size_t in_bytes)
{
    ce_exchange_send(comm, among->ranks[(among->own_index + 1) % among->count], out, out_bytes);
    ce_exchange_receive(comm, among->ranks[before(among, 1)], in, in_bytes);
    ce_exchange_run(comm);
}

static void add(const request *r, void *out, const void *partial, const void *own_data, int64_t count)
{
    cs_reduce_op op = r->op == CS_AVG ? CS_SUM : r->op;
    ce_reduce((void *[]){ out }, 1, (const void *[]){ partial, own_data }, 2, count, r->dtype, op);
}

/* Divides a member's part into pieces of `piece` elements; the last piece may be shorter. Returns the range of
 * elements, counted from the beginning of the part, that is piece number `index`. */
static ce_range piece_of(const ce_parts *parts, int member, int64_t piece, int64_t index)
{
    int64_t count = ce_parts_count(parts, member);
    return ce_range_overlap((ce_range){ 0, count }, (ce_range){ index * piece, (index + 1) * piece });
}

/* Reduces piece number `index` of every part. This rank receives a partial sum into one slot, and sends the partial sum
 * in another slot. The two slots exchange their roles after each step. In the first step this rank sends from `in`. */
static void scatter_piece(const request *r, char *out, const char *in, const ce_parts *parts, int64_t piece,
                          int64_t index)
{
    const ce_members *among = r->among;
    size_t element = cs_dtype_bytes(r->dtype);
    for (int step = 0; step < among->count - 1; step++) {
        int sent = before(among, step + 1), received = before(among, step + 2);
        ce_range out_range = piece_of(parts, sent, piece, index), in_range = piece_of(parts, received, piece, index);
        const char *from = in + ce_parts_offset(parts, sent, element) + (size_t)out_range.from * element;
        const char *own_data = in + ce_parts_offset(parts, received, element) + (size_t)in_range.from * element;
        char *slot = ce_exchange_slot(r->comm, among, step % 2);
        bool last = step == among->count - 2;
        pass(r->comm, among, step == 0 ? from : ce_exchange_slot(r->comm, among, (step + 1) % 2),
             (size_t)ce_range_length(out_range) * element, slot, (size_t)ce_range_length(in_range) * element);
        add(r, last ? out + (size_t)in_range.from * element : slot, slot, own_data, ce_range_length(in_range));
    }
}

void ce_ring_reduce_scatter(cs_comm *comm, const ce_members *among, void *out, const void *in, const ce_parts *parts,
                            cs_dtype dtype, cs_reduce_op op)
{
    request r = { comm, among, dtype, op };
    size_t element = cs_dtype_bytes(dtype);
    int64_t piece = (int64_t)(ce_exchange_slot_bytes(among) / element), own_count, index = 0;
    own_count = ce_parts_count(parts, among->own_index);
    const char *own_part = (const char *)in + ce_parts_offset(parts, among->own_index, element);
    if (among->count == 1 && own_count > 0 && out != own_part)
        memcpy(out, own_part, (size_t)own_count * element);
    do
        scatter_piece(&r, out, in, parts, piece, index);
    while (++index * piece < ce_parts_longest(parts, among->count));
    if (op == CS_AVG)
        ce_reduce_divide(out, own_count, dtype, among->count);
}

/* Sends the parts of `data` around the ring until every rank has all parts. */
static void pass_parts(cs_comm *comm, const ce_members *among, char *data, const ce_parts *parts, size_t element)
{
    for (int step = 0; step < among->count - 1; step++) {
        int sent = before(among, step), received = before(among, step + 1);
        pass(comm, among, data + ce_parts_offset(parts, sent, element), (size_t)ce_parts_count(parts, sent) * element,
             data + ce_parts_offset(parts, received, element), (size_t)ce_parts_count(parts, received) * element);
    }
}

void ce_ring_all_gather(cs_comm *comm, const ce_members *among, void *out, const void *in, const ce_parts *parts,
                        cs_dtype dtype)
{
    size_t element = cs_dtype_bytes(dtype), bytes = (size_t)ce_parts_count(parts, among->own_index) * element;
    char *own_part = (char *)out + ce_parts_offset(parts, among->own_index, element);
    if (bytes && own_part != in)
        memcpy(own_part, in, bytes);
    pass_parts(comm, among, out, parts, element);
}

/* Does an all_reduce of `count` elements, which are divided into n parts. All parts have the same length, except that
 * the last ones may be shorter or empty. */
static void all_reduce_piece(const request *r, char *data, int64_t count)
{
    const ce_members *among = r->among;
    size_t element = cs_dtype_bytes(r->dtype);
    int64_t part = ce_divide_up(count, among->count);
    ce_range all = { 0, count };
    for (int step = 0; step < 2 * (among->count - 1); step++) {
        bool reduces = step < among->count - 1;
        int turn = reduces ? step + 1 : step - (among->count - 1), sent = before(among, turn);
        int received = before(among, turn + 1);
        ce_range out = ce_range_overlap(all, (ce_range){ sent * part, (sent + 1) * part });
        ce_range in = ce_range_overlap(all, (ce_range){ received * part, (received + 1) * part });
        char *at = data + (size_t)in.from * element, *slot = ce_exchange_slot(r->comm, among, 0);
        pass(r->comm, among, data + (size_t)out.from * element, (size_t)ce_range_length(out) * element,
             reduces ? slot : at, (size_t)ce_range_length(in) * element);
        if (reduces)
            add(r, at, slot, at, ce_range_length(in));
        if (step == among->count - 2 && r->op == CS_AVG)
            ce_reduce_divide(at, ce_range_length(in), r->dtype, among->count);
    }
}

void ce_ring_all_reduce(cs_comm *comm, const ce_members *among, void *data, int64_t count, cs_dtype dtype,
                        cs_reduce_op op)
{
    request r = { comm, among, dtype, op };
    size_t element = cs_dtype_bytes(dtype);
    int64_t piece = (int64_t)(ce_exchange_slot_bytes(among) / element) * among->count, at = 0;
    do {
        all_reduce_piece(&r, (char *)data + (size_t)at * element, count - at < piece ? count - at : piece);
        at += piece;
    } while (at < count);
}
