/* copies.c - reduce, scatter, gather and all_to_all among the ranks of one host, in place in shared memory. The other
 * transports make these collectives over messages.
 *
 *     in place   It takes 1 step between two barriers: each rank reads its part from the memory of the others, or
 *                writes it into the root's memory. Nothing is staged. Only buffers that another rank reads or writes
 *                must be shared.
 *
 * If these buffers are not in shared memory, or the vector has at most ce_sizes.messages bytes, messages are used. The
 * descriptions that all ranks wrote before the first barrier decide whether a call is in place, so all ranks agree. */
#include "comm/shm/shm.h"
#include "comm/shm/copy.h"
#include "comm/collective/collective.h"
#include "comm/collective/reduction.h"
#include "base/range.h"

/* Tells the other ranks the offset of this rank's buffer, and passes the first barrier. If `root` is -1, returns true
 * if the buffers of all ranks are in shared memory; otherwise returns true if the root's buffer is in shared memory. */
static bool begin(ce_shm *shm, ce_shm_call *call, const void *buffer, int root)
{
    call->is = shm->comm->call;
    call->first = ce_shm_place_of(shm, buffer);
    ce_shm_barrier(shm, call);
    for (int i = 0; i < shm->size; i++)
        if ((root < 0 || i == root) && ce_shm_call_of(shm, i)->first == CE_SHM_NOWHERE)
            return false;
    shm->comm->algorithm = "in_place";
    return true;
}

static bool is_small(const ce_shm *shm, int64_t count, cs_dtype dtype)
{
    return (size_t)(count * shm->size) * cs_dtype_bytes(dtype) <= shm->comm->sizes.messages;
}

void ce_shm_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op, int root)
{
    ce_shm *shm = comm->private_data;
    ce_shm_call call = { 0 };
    if (is_small(shm, count, dtype) || !begin(shm, &call, data, -1)) {
        ce_messages_reduce(comm, data, count, dtype, op, root);
        return;
    }
    ce_range part = ce_range_part(count, shm->rank, shm->size);
    size_t at = (size_t)part.from * cs_dtype_bytes(dtype);
    for (int i = 0; i < shm->size; i++)
        shm->inputs[i] = ce_shm_first_of(shm, i) + at;
    ce_reduce((void *[]){ ce_shm_first_of(shm, root) + at }, 1, shm->inputs, shm->size, ce_range_length(part), dtype,
              op);
    ce_shm_barrier(shm, &call);
}

void ce_shm_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, int root)
{
    ce_shm *shm = comm->private_data;
    ce_shm_call call = { 0 };
    size_t bytes = (size_t)count * cs_dtype_bytes(dtype);
    if (is_small(shm, count, dtype) || !begin(shm, &call, in, root)) {
        ce_messages_scatter(comm, out, in, count, dtype, root);
        return;
    }
    const char *from = ce_shm_first_of(shm, root) + (size_t)shm->rank * bytes;
    if (out != from)
        ce_copy_nontemporal(out, from, bytes);
    ce_shm_barrier(shm, &call);
}

void ce_shm_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, int root)
{
    ce_shm *shm = comm->private_data;
    ce_shm_call call = { 0 };
    size_t bytes = (size_t)count * cs_dtype_bytes(dtype);
    if (is_small(shm, count, dtype) || !begin(shm, &call, out, root)) {
        ce_messages_gather(comm, out, in, count, dtype, root);
        return;
    }
    char *to = ce_shm_first_of(shm, root) + (size_t)shm->rank * bytes;
    if (to != in)
        ce_copy_nontemporal(to, in, bytes);
    ce_shm_barrier(shm, &call);
}

void ce_shm_all_to_all(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    ce_shm *shm = comm->private_data;
    ce_shm_call call = { 0 };
    size_t bytes = (size_t)count * cs_dtype_bytes(dtype);
    if (is_small(shm, count, dtype) || !begin(shm, &call, in, -1)) {
        ce_messages_all_to_all(comm, out, in, count, dtype);
        return;
    }
    for (int i = 0; i < shm->size; i++) {
        /* Each rank first reads from itself and then from the next ranks in turn, so that no two ranks read from the
         * same rank at a time. */
        int peer = (shm->rank + i) % shm->size;
        ce_copy_nontemporal((char *)out + (size_t)peer * bytes, ce_shm_first_of(shm, peer) + (size_t)shm->rank * bytes,
                            bytes);
    }
    ce_shm_barrier(shm, &call);
}
