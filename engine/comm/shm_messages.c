/* shm_messages.c - point-to-point messages between two ranks of one host: one channel for each pair and direction, with
 * two chunks in flight.
 *
 * An empty message is sent as one empty chunk, so that it is also matched in order. */
#include "comm/shm.h"
#include "comm/copy.h"
#include "base/must.h"

static size_t chunk_count(size_t bytes)
{
    return bytes ? (bytes + CS_SHM_CHUNK - 1) / CS_SHM_CHUNK : 1;
}

static size_t chunk_bytes(size_t bytes, size_t index)
{
    size_t left = bytes - index * CS_SHM_CHUNK;
    return left < CS_SHM_CHUNK ? left : CS_SHM_CHUNK;
}

void ce_shm_messages_send(cs_comm *comm, const void *data, size_t bytes, int to)
{
    ce_shm *shm = comm->private_data;
    ce_shm_channel *channel = ce_shm_channel_of(shm, shm->rank, to);
    for (size_t i = 0; i < chunk_count(bytes); i++) {
        uint32_t number = shm->sent[to]++, side = number % 2;
        size_t part = chunk_bytes(bytes, i);
        ce_shm_signal_wait(shm, &channel->emptied, number - 1, to); /* the chunk two before this one has been taken */
        channel->bytes[side] = bytes;
        if (part)
            ce_copy_cached(channel->chunk[side], (const char *)data + i * CS_SHM_CHUNK, part);
        ce_shm_signal_set(&channel->filled, number + 1);
    }
}

void ce_shm_messages_receive(cs_comm *comm, void *data, size_t bytes, int from)
{
    ce_shm *shm = comm->private_data;
    ce_shm_channel *channel = ce_shm_channel_of(shm, from, shm->rank);
    for (size_t i = 0; i < chunk_count(bytes); i++) {
        uint32_t number = shm->received[from]++, side = number % 2;
        size_t part = chunk_bytes(bytes, i);
        ce_shm_signal_wait(shm, &channel->filled, number + 1, from);
        if (channel->bytes[side] != bytes)
            ce_fatal(CS_DISAGREE, "rank %d sent %llu bytes, but rank %d receives %zu: both must name the same length",
                     shm->first + from, (unsigned long long)channel->bytes[side], shm->first + shm->rank, bytes);
        if (part)
            ce_copy_cached((char *)data + i * CS_SHM_CHUNK, channel->chunk[side], part);
        ce_shm_signal_set(&channel->emptied, number + 1);
    }
}
