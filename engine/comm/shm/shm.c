/* shm.c - collectives of the ranks of one host, in place in shared memory; shm.h describes its layout.
 *
 * A collective in place costs two barriers: the first when the data of all ranks is complete, the second when no rank
 * reads the data any more. Between the barriers each rank does its share. In an all_reduce it sums its part of all
 * ranks' vectors and writes the sum to all of them; in a reduce_scatter it sums its part; in an all_gather or a
 * broadcast it copies. The ranks decide whether a call is in place from the descriptions of the call that all of them
 * wrote before the first barrier, so they always agree. */
#include "comm/shm/shm.h"
#include "comm/shm/copy.h"
#include "comm/collective/reduction.h"
#include "base/beat.h"
#include "base/must.h"
#include "base/range.h"

#include <stdlib.h>
#include <string.h>

enum {
    PART_STEP = 64, /* a part is a multiple of this number of elements, so that parts begin at cache lines */
    /* Number of elements that are summed over the ranks before they are added to the result: 8 KiB of fp32 elements,
     * which stay in the first-level cache. */
    ADD_BLOCK = 2048,
};

static bool all_have_first(const ce_shm *shm)
{
    for (int i = 0; i < shm->size; i++)
        if (ce_shm_call_of(shm, i)->first == CE_SHM_NOWHERE)
            return false;
    return true;
}

static bool all_have_second(const ce_shm *shm)
{
    for (int i = 0; i < shm->size; i++)
        if (ce_shm_call_of(shm, i)->second == CE_SHM_NOWHERE)
            return false;
    return true;
}

static ce_call describe(const ce_shm *shm, int what, cs_dtype dtype, int op, int root, int64_t count)
{
    return (ce_call){ (uint8_t)what, (uint8_t)dtype, (uint8_t)op, root, count, shm->comm->call.number };
}

static void all_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    ce_shm *shm = comm->private_data;
    size_t element = cs_dtype_bytes(dtype);
    ce_shm_call call = { describe(shm, CE_BEAT_ALL_REDUCE, dtype, (int)op, 0, count), ce_shm_place_of(shm, data), 0 };
    bool small = (size_t)count * element <= shm->small_bytes;
    if (!small)
        ce_shm_barrier(shm, &call);
    if (small || !all_have_first(shm)) {
        ce_shm_slots_all_reduce(shm, &call, data);
        return;
    }
    int64_t step = ce_round_up(ce_divide_up(count, shm->size), PART_STEP);
    ce_range own_range =
        ce_range_overlap((ce_range){ 0, count }, (ce_range){ shm->rank * step, (shm->rank + 1) * step });
    for (int i = 0; i < shm->size; i++) {
        shm->outputs[i] = ce_shm_first_of(shm, i) + (size_t)own_range.from * element;
        shm->inputs[i] = shm->outputs[i];
    }
    comm->algorithm = "in_place";
    ce_reduce(shm->outputs, shm->size, shm->inputs, shm->size, ce_range_length(own_range), dtype, op);
    ce_shm_barrier(shm, &call);
}

void ce_shm_reduce_parts(cs_comm *comm, void *out, const void *in, int64_t count, int64_t apart, cs_dtype dtype,
                         cs_reduce_op op)
{
    ce_shm *shm = comm->private_data;
    size_t element = cs_dtype_bytes(dtype);
    ce_shm_call call = { describe(shm, CE_BEAT_REDUCE_SCATTER, dtype, (int)op, 0, count), ce_shm_place_of(shm, in), 0 };
    bool small = (size_t)(shm->size * count) * element <= shm->small_bytes;
    if (!small)
        ce_shm_barrier(shm, &call);
    if (small || !all_have_first(shm)) {
        ce_shm_slots_reduce_scatter(shm, &call, out, in, apart);
        return;
    }
    for (int i = 0; i < shm->size; i++)
        shm->inputs[i] = ce_shm_first_of(shm, i) + (size_t)(shm->rank * apart) * element;
    comm->algorithm = "in_place";
    ce_reduce(&out, 1, shm->inputs, shm->size, count, dtype, op);
    ce_shm_barrier(shm, &call);
}

static void reduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    ce_shm_reduce_parts(comm, out, in, count, count, dtype, op);
}

static void reduce_scatter_add(cs_comm *comm, float *sum, const float *in, int64_t count)
{
    ce_shm *shm = comm->private_data;
    ce_shm_call call = { describe(shm, CE_BEAT_REDUCE_SCATTER, CS_F32, CS_SUM, 0, count), ce_shm_place_of(shm, in), 0 };
    float block[ADD_BLOCK];
    ce_shm_barrier(shm, &call);
    CE_ASSERT(all_have_first(shm));
    for (int64_t at = 0; at < count; at += ADD_BLOCK) {
        int64_t length = count - at < ADD_BLOCK ? count - at : ADD_BLOCK;
        for (int i = 0; i < shm->size; i++)
            shm->inputs[i] = ce_shm_first_of(shm, i) + (size_t)(shm->rank * count + at) * sizeof *in;
        ce_reduce((void *[]){ block }, 1, shm->inputs, shm->size, length, CS_F32, CS_SUM);
        ce_reduce((void *[]){ sum + at }, 1, (const void *[]){ sum + at, block }, 2, length, CS_F32, CS_SUM);
    }
    ce_shm_barrier(shm, &call);
}

/* Writes this rank's part to all ranks. Each rank first writes to itself and then to the next ranks in turn, so that no
 * two ranks write to the same rank at a time. */
static void push(const ce_shm *shm, const void *in, size_t bytes)
{
    for (int i = 0; i < shm->size; i++) {
        int peer = (shm->rank + i) % shm->size;
        char *to = ce_shm_first_of(shm, peer) + (size_t)shm->rank * bytes;
        if (to != in)
            ce_copy_nontemporal(to, in, bytes);
    }
}

/* Reads the parts of all ranks into `out`. */
static void pull(const ce_shm *shm, void *out, const void *in, size_t bytes)
{
    for (int i = 0; i < shm->size; i++) {
        int peer = (shm->rank + i) % shm->size;
        const char *from = ce_shm_segment(shm, peer) + ce_shm_call_of(shm, peer)->second;
        char *to = (char *)out + (size_t)peer * bytes;
        if (peer != shm->rank || to != in)
            ce_copy_nontemporal(to, peer == shm->rank ? in : from, bytes);
    }
}

static void all_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    ce_shm *shm = comm->private_data;
    size_t bytes = (size_t)count * cs_dtype_bytes(dtype);
    ce_shm_call call = { describe(shm, CE_BEAT_ALL_GATHER, dtype, 0, 0, count), ce_shm_place_of(shm, out),
                         ce_shm_place_of(shm, in) };
    bool small = (size_t)shm->size * bytes <= shm->small_bytes;
    if (!small)
        ce_shm_barrier(shm, &call);
    comm->algorithm = "in_place";
    if (!small && all_have_second(shm)) {
        pull(shm, out, in, bytes);
    } else if (!small && all_have_first(shm)) {
        push(shm, in, bytes);
    } else {
        ce_shm_slots_all_gather(shm, &call, out, in);
        return;
    }
    ce_shm_barrier(shm, &call);
}

static void broadcast(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, int root)
{
    ce_shm *shm = comm->private_data;
    size_t bytes = (size_t)count * cs_dtype_bytes(dtype);
    ce_shm_call call = { describe(shm, CE_BEAT_BROADCAST, dtype, 0, root, count), ce_shm_place_of(shm, data), 0 };
    bool small = bytes <= shm->small_bytes;
    if (!small)
        ce_shm_barrier(shm, &call);
    if (small || ce_shm_call_of(shm, root)->first == CE_SHM_NOWHERE) {
        ce_shm_slots_broadcast(shm, &call, data);
        return;
    }
    comm->algorithm = "in_place";
    if (comm->world.rank != root)
        ce_copy_nontemporal(data, ce_shm_first_of(shm, root), bytes);
    ce_shm_barrier(shm, &call);
}

static void barrier(cs_comm *comm)
{
    ce_shm *shm = comm->private_data;
    ce_shm_barrier(shm, &(ce_shm_call){ .is = describe(shm, CE_BEAT_BARRIER, CS_F32, 0, 0, 0) });
}

static void *first(cs_comm *comm, void *memory)
{
    const ce_shm *shm = comm->private_data;
    return shm->base + ce_shm_place_of(shm, memory);
}

static bool fits(const cs_world *world)
{
    return world->local_size == world->size;
}

const ce_transport ce_comm_shm = {
    .name = "shm",
    .fits = fits,
    .open = ce_segment_open,
    .close = ce_segment_close,
    .move = ce_shm_messages_move,
    .announce = ce_shm_announce,
    .all_reduce = all_reduce,
    .reduce_scatter = reduce_scatter,
    .all_gather = all_gather,
    .broadcast = broadcast,
    .barrier = barrier,
    .missing = ce_shm_missing,
    .lose = ce_shm_lose_rank,
    .first = first,
    .reduce_scatter_add = reduce_scatter_add,
};
