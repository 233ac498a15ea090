/* halving.c - collectives by recursive halving and doubling. In each step a rank exchanges data with one other rank,
 * and the distance to that rank doubles from step to step (in the second half of an all_reduce, it halves). In a step
 * of a reduction, each of the two ranks sends half of the elements that it still has to reduce. In a step of an
 * all_gather, each of the two ranks sends all that it has gathered.
 *
 *     all_reduce       2 log2 n steps for each piece of the vector; each rank sends 2 (n - 1) / n of the vector
 *     reduce_scatter   log2 n steps for each piece of the vector; each rank sends (n - 1) / n of the
 *                      vector, after a copy of the vector
 *     all_gather       log2 n steps ("doubling"); each rank sends (n - 1) / n of the vector
 *
 * The sums follow the fixed summation tree: in the first step the operands of two neighbours are added, in the second
 * step the sums of two neighbouring pairs of ranks, and so on. So sums of fp32 and of integers have the same bits as
 * with the other algorithms. Sums of 16-bit floats are rounded in each step and therefore have other bits, which depend
 * only on the number of ranks and on the lengths.
 *
 * If n is no power of two, a reduction divides the ranks into blocks whose sizes are descending powers of two, as the
 * tree does (7 is 4 + 2 + 1). Each block reduces by halving. Then each block, beginning with the last, sends its sums
 * to the block before it, and in an all_reduce gets the result back: 2 more steps for each further block, and at most 1
 * more vector sent.
 *
 * An all_gather runs among the first m ranks, where m is the greatest power of two that is at most n. A rank r >= m
 * sends its part to rank r - m before the steps, and receives all parts from that rank after them. In a reduce_scatter,
 * rank r receives its result from rank r - m. */
#include "comm/collective/collective.h"
#include "comm/collective/exchange.h"
#include "comm/collective/reduction.h"
#include "base/range.h"

#include <string.h>

/* In an all_reduce a leaf begins at a multiple of this number of elements, that is, at a cache line. */
enum { UNIT_STEP = 16 };

/* A reduction of one vector, whose result replaces the vector. The vector is divided into leaves, one leaf for each
 * rank of the first block. At the end of the reduction, each rank of the first block has the result of its own leaf. A
 * leaf has `unit` or 2 * `unit` elements, except that the last leaves of an all_reduce may be shorter or empty. */
typedef struct {
    cs_comm *comm;
    const ce_members *among;
    cs_dtype dtype;
    cs_reduce_op op; /* the operation of a step, which is a sum if the result is an average */
    char *data, *incoming;
    /* `count` is the number of elements in the vector; `unit` that of a leaf, or of half a leaf. */
    int64_t count, unit;
    /* `leaves` is the number of leaves. The leaves of the members 0 to `paired` - 1 have 2 * `unit` elements, the other
     * leaves `unit`. */
    int leaves, paired;
    int first, size; /* this rank's block: its first member, and its number of members, a power of two */
} request;

static int block_size(int members)
{
    int size = 1;
    while (2 * size <= members)
        size *= 2;
    return size;
}

/* Returns the position of a leaf in the vector, divided by `unit`. Leaf i belongs to the member whose number has the
 * bits of i in reverse order. */
static int64_t units_before(const request *r, int leaf)
{
    int64_t units = leaf;
    for (int i = 0; i < leaf && r->paired > 0; i++) {
        int member = 0;
        for (int bit = 1, out = r->leaves / 2; bit < r->leaves; bit *= 2, out /= 2)
            member |= i & bit ? out : 0;
        units += member < r->paired;
    }
    return units;
}

/* Returns the range of elements that a range of leaves has. */
static ce_range elements(const request *r, ce_range leaves)
{
    int64_t from = units_before(r, (int)leaves.from) * r->unit, to = units_before(r, (int)leaves.to) * r->unit;
    return ce_range_overlap((ce_range){ 0, r->count }, (ce_range){ from, to });
}

/* Divides a range of leaves into two halves. Returns the half that a member keeps in step `bit` of its block or, if
 * `keeps` is false, the half that it sends away. */
static ce_range half(ce_range leaves, int member, int bit, bool keeps)
{
    int64_t middle = (leaves.from + leaves.to) / 2;
    return ((member & bit) != 0) == keeps ? (ce_range){ middle, leaves.to } : (ce_range){ leaves.from, middle };
}

/* Returns the leaves that a member of a block still reduces when all steps below `bit` are done. */
static ce_range leaves_of(const request *r, int member, int bit)
{
    ce_range leaves = { 0, r->leaves };
    for (int below = 1; below < bit; below *= 2)
        leaves = half(leaves, member, below, true);
    return leaves;
}

static char *place(const request *r, ce_range range)
{
    return r->data + (size_t)range.from * cs_dtype_bytes(r->dtype);
}

static size_t bytes_of(const request *r, ce_range range)
{
    return (size_t)ce_range_length(range) * cs_dtype_bytes(r->dtype);
}

/* Adds `incoming` to the elements of a range. `follows` is true if the incoming sum comes from later ranks in the order
 * of the summation tree. */
static void add(const request *r, ce_range range, bool follows)
{
    char *own_data = place(r, range);
    const void *operands[] = { follows ? own_data : r->incoming, follows ? r->incoming : own_data };
    ce_reduce((void *[]){ own_data }, 1, operands, 2, ce_range_length(range), r->dtype, r->op);
}

static void send_range(const request *r, int member, ce_range range)
{
    ce_exchange_send(r->comm, r->among->ranks[member], place(r, range), bytes_of(r, range));
}

static void receive_range(const request *r, int member, ce_range range, bool to_add)
{
    ce_exchange_receive(r->comm, r->among->ranks[member], to_add ? r->incoming : place(r, range), bytes_of(r, range));
}

/* Exchanges data between this rank's block and the next block. If `adds` is true, the sums of the next block are
 * received and added to the sums of this block; otherwise the results are sent to the next block. The next block is
 * smaller: a rank of the next block has the sums for the leaves of several ranks of this block. */
static void meet_next(const request *r, bool adds)
{
    int next = r->first + r->size, rest = r->among->count - next, size = rest > 0 ? block_size(rest) : 0;
    int own_number = r->among->own_index - r->first;
    ce_range own_range = elements(r, leaves_of(r, own_number, r->size));
    if (rest == 0)
        return;
    if (adds)
        receive_range(r, next + own_number % size, own_range, true);
    else
        send_range(r, next + own_number % size, own_range);
    ce_exchange_run(r->comm);
    if (adds)
        add(r, own_range, true);
}

static void meet_previous(const request *r, int previous, bool adds)
{
    int size = r->first - previous, own_number = r->among->own_index - r->first;
    for (int member = own_number; member < size; member += r->size) {
        ce_range range = elements(r, leaves_of(r, member, size));
        if (adds)
            send_range(r, previous + member, range);
        else
            receive_range(r, previous + member, range, false);
    }
    ce_exchange_run(r->comm);
}

/* Reduces the vector. At the end each rank of the first block has the result of its own leaf. */
static void reduce(const request *r, int previous)
{
    int own_number = r->among->own_index - r->first;
    for (int bit = 1; bit < r->size; bit *= 2) {
        ce_range leaves = leaves_of(r, own_number, bit), kept = elements(r, half(leaves, own_number, bit, true));
        int partner = r->first + (own_number ^ bit);
        send_range(r, partner, elements(r, half(leaves, own_number, bit, false)));
        receive_range(r, partner, kept, true);
        ce_exchange_run(r->comm);
        add(r, kept, !(own_number & bit));
    }
    meet_next(r, true);
    if (r->first > 0)
        meet_previous(r, previous, true);
}

/* Distributes the results of all leaves to all ranks. */
static void gather(const request *r, int previous)
{
    int own_number = r->among->own_index - r->first;
    if (r->first > 0)
        meet_previous(r, previous, false);
    meet_next(r, false);
    for (int bit = r->size / 2; bit > 0; bit /= 2) {
        ce_range leaves = leaves_of(r, own_number, bit);
        int partner = r->first + (own_number ^ bit);
        send_range(r, partner, elements(r, half(leaves, own_number, bit, true)));
        receive_range(r, partner, elements(r, half(leaves, own_number, bit, false)), false);
        ce_exchange_run(r->comm);
    }
}

/* Finds this rank's block, and returns the first member of the previous block. */
static int find_block(request *r)
{
    int previous = 0;
    r->size = r->leaves = block_size(r->among->count);
    r->first = 0;
    while (r->among->own_index >= r->first + r->size) {
        previous = r->first;
        r->first += r->size;
        r->size = block_size(r->among->count - r->first);
    }
    return previous;
}

void ce_halving_all_reduce(cs_comm *comm, const ce_members *among, void *data, int64_t count, cs_dtype dtype,
                           cs_reduce_op op)
{
    request r = { .comm = comm, .among = among, .dtype = dtype, .op = op == CS_AVG ? CS_SUM : op };
    size_t element = cs_dtype_bytes(dtype);
    int previous = find_block(&r);
    int64_t piece = (int64_t)(ce_exchange_slot_bytes(among) / element) * among->count, at = 0;
    r.incoming = comm->staging;
    do {
        r.data = (char *)data + (size_t)at * element;
        r.count = count - at < piece ? count - at : piece;
        r.unit = ce_round_up(ce_divide_up(r.count, r.leaves), UNIT_STEP);
        reduce(&r, previous);
        ce_range own_range = elements(&r, leaves_of(&r, among->own_index - r.first, r.size));
        if (op == CS_AVG && r.first == 0)
            ce_reduce_divide(place(&r, own_range), ce_range_length(own_range), dtype, among->count);
        gather(&r, previous);
        at += piece;
    } while (at < count);
}

/* Copies piece number `index` of each member's part into a leaf of the vector, and fills up shorter pieces with zeros.
 * Returns the position, in elements, of the piece of this rank's part in the vector. */
static int64_t pack(const request *r, const char *in, const ce_parts *parts, int64_t index)
{
    size_t element = cs_dtype_bytes(r->dtype);
    int64_t own_place = 0;
    for (int member = 0; member < r->among->count; member++) {
        int holder = member % r->leaves;
        ce_range leaf = elements(r, leaves_of(r, holder, r->leaves));
        int64_t at = leaf.from + (member >= r->leaves ? r->unit : 0),
                count = ce_parts_piece(parts, member, r->unit, index);
        if (count > 0)
            memcpy(r->data + (size_t)at * element,
                   in + ce_parts_offset(parts, member, element) + (size_t)(index * r->unit) * element,
                   (size_t)count * element);
        if (count < r->unit)
            memset(r->data + (size_t)(at + count) * element, 0, (size_t)(r->unit - count) * element);
        if (member == r->among->own_index)
            own_place = at;
    }
    return own_place;
}

void ce_halving_reduce_scatter(cs_comm *comm, const ce_members *among, void *out, const void *in, const ce_parts *parts,
                               cs_dtype dtype, cs_reduce_op op)
{
    request r = { .comm = comm, .among = among, .dtype = dtype, .op = op == CS_AVG ? CS_SUM : op };
    size_t element = cs_dtype_bytes(dtype), capacity = CE_COMM_STAGING / 2;
    int previous = find_block(&r), own_index = among->own_index, index = 0;
    int64_t capacity_of_one = (int64_t)(capacity / element) / among->count, max = ce_parts_longest(parts, among->count);
    r.paired = among->count - r.leaves;
    r.unit = max < capacity_of_one ? max : capacity_of_one;
    r.count = r.unit * among->count;
    r.data = comm->staging;
    r.incoming = comm->staging + capacity;
    do {
        int64_t own_place = pack(&r, in, parts, index), own_count = ce_parts_piece(parts, own_index, r.unit, index);
        char *own_out = (char *)out + (size_t)(index * r.unit) * element;
        reduce(&r, previous);
        int other = own_index + r.leaves;
        if (other < among->count)
            ce_exchange_send(comm, among->ranks[other], r.data + (size_t)(own_place + r.unit) * element,
                             (size_t)ce_parts_piece(parts, other, r.unit, index) * element);
        if (own_index >= r.leaves)
            ce_exchange_receive(comm, among->ranks[own_index - r.leaves], own_out, (size_t)own_count * element);
        ce_exchange_run(comm);
        if (own_index < r.leaves && own_count > 0)
            memcpy(own_out, r.data + (size_t)own_place * element, (size_t)own_count * element);
        if (op == CS_AVG)
            ce_reduce_divide(own_out, own_count, dtype, among->count);
    } while (++index * r.unit < max);
}

/* Sends or receives the parts of the members in the range `members`. These parts are adjacent in `out`. */
static void exchange_parts(cs_comm *comm, int peer, char *out, const ce_parts *parts, size_t element, ce_range members,
                           bool incoming)
{
    if (ce_range_length(members) == 0)
        return;
    size_t from = ce_parts_offset(parts, (int)members.from, element);
    size_t bytes = ce_parts_offset(parts, (int)members.to, element) - from;
    if (incoming)
        ce_exchange_receive(comm, peer, out + from, bytes);
    else
        ce_exchange_send(comm, peer, out + from, bytes);
}

void ce_doubling_all_gather(cs_comm *comm, const ce_members *among, void *out, const void *in, const ce_parts *parts,
                            cs_dtype dtype)
{
    size_t element = cs_dtype_bytes(dtype), own_bytes = (size_t)ce_parts_count(parts, among->own_index) * element;
    int own_index = among->own_index, size = block_size(among->count);
    ce_range all = { 0, among->count }, behind = { size, among->count }, one = { own_index, own_index + 1 };
    char *own_part = (char *)out + ce_parts_offset(parts, own_index, element);
    if (own_bytes && own_part != in)
        memcpy(own_part, in, own_bytes);
    if (own_index >= size) {
        exchange_parts(comm, among->ranks[own_index - size], out, parts, element, one, false);
        ce_exchange_run(comm);
        exchange_parts(comm, among->ranks[own_index - size], out, parts, element, all, true);
        ce_exchange_run(comm);
        return;
    }
    ce_range helped = ce_range_overlap((ce_range){ own_index + size, own_index + size + 1 }, behind);
    int helped_rank = ce_range_length(helped) ? among->ranks[helped.from] : -1;
    exchange_parts(comm, helped_rank, out, parts, element, helped, true);
    ce_exchange_run(comm);
    for (int bit = 1; bit < size; bit *= 2) {
        int peer = among->ranks[own_index ^ bit], own_first = own_index & ~(bit - 1), its_first = own_first ^ bit;
        ce_range own_block = { own_first, own_first + bit }, its_block = { its_first, its_first + bit };
        ce_range own_more = ce_range_overlap(behind, (ce_range){ own_first + size, own_first + size + bit });
        ce_range its_more = ce_range_overlap(behind, (ce_range){ its_first + size, its_first + size + bit });
        exchange_parts(comm, peer, out, parts, element, own_block, false);
        exchange_parts(comm, peer, out, parts, element, own_more, false);
        exchange_parts(comm, peer, out, parts, element, its_block, true);
        exchange_parts(comm, peer, out, parts, element, its_more, true);
        ce_exchange_run(comm);
    }
    if (ce_range_length(helped))
        exchange_parts(comm, helped_rank, out, parts, element, all, false);
    ce_exchange_run(comm);
}
