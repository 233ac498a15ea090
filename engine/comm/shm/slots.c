/* slots.c - collectives through staging slots in shared memory, for memory that is not shared and for vectors so small
 * that a second barrier would cost more than the copy.
 *
 * Each rank copies a piece into its slot, all ranks pass a barrier, and each rank reads what it needs from the slots of
 * the others. The two slots of a rank are used alternately. When a rank fills a slot again, all ranks have passed one
 * more barrier (that of the other slot) since they read this slot. Therefore no barrier is needed at the end. */
#include "comm/shm/shm.h"
#include "comm/shm/copy.h"
#include "comm/collective/reduction.h"
#include "base/range.h"

#include <string.h>

static char *slot_of(const ce_shm *shm, int rank)
{
    return ce_shm_segment(shm, rank) + ce_shm_slots_at(shm->size) + (shm->slot % 2) * (size_t)CE_SHM_SLOT;
}

/* Copies into this rank's slot with ce_copy_for_others, because the other ranks have read the slot and have its lines
 * in their caches. */
static void fill(void *to, const void *from, size_t bytes)
{
    if (bytes)
        ce_copy_for_others(to, from, bytes);
}

static void copy(void *to, const void *from, size_t bytes)
{
    if (bytes && to != from)
        ce_copy_cached(to, from, bytes);
}

/* Reduces a piece with one barrier: every rank computes the sum of the whole piece. */
static void reduce_piece_alone(ce_shm *shm, const ce_shm_call *call, char *data, int64_t count)
{
    fill(slot_of(shm, shm->rank), data, (size_t)count * cs_dtype_bytes(call->is.dtype));
    ce_shm_barrier(shm, call);
    for (int i = 0; i < shm->size; i++)
        shm->inputs[i] = i == shm->rank ? data : slot_of(shm, i);
    ce_reduce((void *[]){ data }, 1, shm->inputs, shm->size, count, call->is.dtype, call->is.op);
}

/* Reduces a piece with two barriers: every rank sums its part of the piece and copies the other parts from the other
 * ranks. */
static void reduce_piece_together(ce_shm *shm, const ce_shm_call *call, char *data, int64_t count)
{
    size_t element = cs_dtype_bytes(call->is.dtype);
    ce_range own_range = ce_range_part(count, shm->rank, shm->size);
    size_t from = (size_t)own_range.from * element;
    fill(slot_of(shm, shm->rank), data, (size_t)count * element);
    ce_shm_barrier(shm, call);
    for (int i = 0; i < shm->size; i++)
        shm->inputs[i] = slot_of(shm, i) + from;
    ce_reduce((void *[]){ slot_of(shm, shm->rank) + from }, 1, shm->inputs, shm->size, ce_range_length(own_range),
              call->is.dtype, call->is.op);
    ce_shm_barrier(shm, call);
    for (int i = 0; i < shm->size; i++) {
        ce_range part = ce_range_part(count, i, shm->size);
        size_t at = (size_t)part.from * element;
        copy(data + at, slot_of(shm, i) + at, (size_t)ce_range_length(part) * element);
    }
}

void ce_shm_slots_all_reduce(ce_shm *shm, const ce_shm_call *call, void *data)
{
    size_t element = cs_dtype_bytes(call->is.dtype);
    int64_t capacity = (int64_t)(CE_SHM_SLOT / element), at = 0;
    bool alone = shm->size == 2 || call->is.count * (int64_t)element <= (int64_t)shm->small_bytes;
    shm->comm->algorithm = "slots";
    do {
        int64_t count = call->is.count - at < capacity ? call->is.count - at : capacity;
        char *piece = (char *)data + (size_t)at * element;
        if (alone)
            reduce_piece_alone(shm, call, piece, count);
        else
            reduce_piece_together(shm, call, piece, count);
        shm->slot++;
        at += count;
    } while (at < call->is.count);
}

void ce_shm_slots_reduce_scatter(ce_shm *shm, const ce_shm_call *call, void *out, const void *in, int64_t apart)
{
    size_t element = cs_dtype_bytes(call->is.dtype),
           stride = CE_SHM_SLOT / (size_t)shm->size / CE_SHM_LINE * CE_SHM_LINE;
    int64_t capacity = (int64_t)(stride / element), at = 0;
    shm->comm->algorithm = "slots";
    do {
        int64_t count = call->is.count - at < capacity ? call->is.count - at : capacity;
        for (int i = 0; i < shm->size; i++)
            if (i != shm->rank)
                fill(slot_of(shm, shm->rank) + (size_t)i * stride,
                     (const char *)in + (size_t)(i * apart + at) * element, (size_t)count * element);
        ce_shm_barrier(shm, call);
        for (int i = 0; i < shm->size; i++)
            shm->inputs[i] = slot_of(shm, i) + (size_t)shm->rank * stride;
        shm->inputs[shm->rank] = (const char *)in + (size_t)(shm->rank * apart + at) * element;
        ce_reduce((void *[]){ (char *)out + (size_t)at * element }, 1, shm->inputs, shm->size, count, call->is.dtype,
                  call->is.op);
        shm->slot++;
        at += count;
    } while (at < call->is.count);
}

void ce_shm_slots_all_gather(ce_shm *shm, const ce_shm_call *call, void *out, const void *in)
{
    size_t total = (size_t)call->is.count * cs_dtype_bytes(call->is.dtype), at = 0;
    copy((char *)out + (size_t)shm->rank * total, in, total);
    shm->comm->algorithm = "slots";
    do {
        size_t bytes = total - at < CE_SHM_SLOT ? total - at : CE_SHM_SLOT;
        fill(slot_of(shm, shm->rank), (const char *)in + at, bytes);
        ce_shm_barrier(shm, call);
        for (int i = 0; i < shm->size; i++)
            if (i != shm->rank)
                copy((char *)out + (size_t)i * total + at, slot_of(shm, i), bytes);
        shm->slot++;
        at += bytes;
    } while (at < total);
}

void ce_shm_slots_broadcast(ce_shm *shm, const ce_shm_call *call, void *data)
{
    size_t total = (size_t)call->is.count * cs_dtype_bytes(call->is.dtype), at = 0;
    shm->comm->algorithm = "slots";
    do {
        size_t bytes = total - at < CE_SHM_SLOT ? total - at : CE_SHM_SLOT;
        char *piece = (char *)data + at;
        if (shm->rank == call->is.root)
            fill(slot_of(shm, shm->rank), piece, bytes);
        ce_shm_barrier(shm, call);
        if (shm->rank != call->is.root)
            copy(piece, slot_of(shm, call->is.root), bytes);
        shm->slot++;
        at += bytes;
    } while (at < total);
}
