/* messages.c - messages between two ranks of one host. Each pair of ranks has one channel for each direction; a channel
 * has space for two chunks.
 *
 * An empty message is sent as one empty chunk, so that it is also matched in order. A rank that moves several messages
 * sleeps until any of its channels changes: a rank that fills or empties a chunk changes the signal `news` of the other
 * rank. */
#include "comm/shm/shm.h"
#include "comm/shm/copy.h"
#include "base/must.h"

static void check_chunk(const ce_shm *shm, const ce_shm_channel *channel, const ce_message *message, uint32_t side)
{
    const cs_comm *comm = shm->comm;
    int own_name = ce_comm_name(comm, shm->rank), from = ce_comm_name(comm, message->peer);
    if (!ce_call_same(&channel->call[side], &comm->call))
        ce_call_refuse(own_name, &comm->call, from, &channel->call[side]);
    if (channel->bytes[side] != message->bytes)
        ce_fatal(CS_DISAGREE, "rank %d sent %llu bytes, but rank %d receives %zu: both must name the same length", from,
                 (unsigned long long)channel->bytes[side], own_name, message->bytes);
}

static size_t next_bytes(const ce_message *message)
{
    size_t left = message->bytes - message->moved;
    return left < CE_SHM_CHUNK ? left : CE_SHM_CHUNK;
}

static bool send_chunk(ce_shm *shm, ce_message *message)
{
    ce_shm_channel *channel = ce_shm_channel_of(shm, shm->rank, message->peer);
    uint32_t number = shm->sent[message->peer], side = number % 2;
    size_t part = next_bytes(message);
    if (number - atomic_load_explicit(&channel->emptied, memory_order_acquire) == 2)
        return false; /* both chunks of the channel are full: the receiver has not taken the older one */
    channel->call[side] = shm->comm->call;
    channel->bytes[side] = message->bytes;
    if (part)
        ce_copy_for_others(channel->chunk[side], message->data + message->moved, part);
    shm->sent[message->peer]++;
    atomic_store(&channel->filled, number + 1);
    return true;
}

static bool receive_chunk(ce_shm *shm, ce_message *message)
{
    ce_shm_channel *channel = ce_shm_channel_of(shm, message->peer, shm->rank);
    uint32_t number = shm->received[message->peer], side = number % 2;
    size_t part = next_bytes(message);
    if (atomic_load_explicit(&channel->filled, memory_order_acquire) == number)
        return false;
    check_chunk(shm, channel, message, side);
    if (part)
        ce_copy_cached(message->data + message->moved, channel->chunk[side], part);
    shm->received[message->peer]++;
    atomic_store(&channel->emptied, number + 1);
    return true;
}

/* Returns true if an earlier message with the same peer and direction is not done. */
static bool has_earlier(const ce_message *messages, int index)
{
    for (int i = 0; i < index; i++)
        if (!messages[i].done && messages[i].peer == messages[index].peer &&
            messages[i].incoming == messages[index].incoming)
            return true;
    return false;
}

/* Moves at most one chunk of each message. Returns the index of a message that is not done, or -1 if all messages are
 * done. */
static int move_once(ce_shm *shm, ce_message *messages, int count, bool *moved)
{
    int left = -1;
    *moved = false;
    for (int i = count - 1; i >= 0; i--) {
        ce_message *message = &messages[i];
        if (message->done)
            continue;
        if (!has_earlier(messages, i) && (message->incoming ? receive_chunk(shm, message) : send_chunk(shm, message))) {
            message->moved += next_bytes(message);
            message->done = message->moved == message->bytes;
            ce_shm_signal_change(&ce_shm_header_of(shm, message->peer)->news);
            *moved = true;
        }
        left = message->done ? left : i;
    }
    return left;
}

static void sleep_until_news(ce_shm *shm, ce_message *messages, int count)
{
    ce_shm_signal *news = &ce_shm_header_of(shm, shm->rank)->news;
    const char *how;
    bool moved;
    uint32_t seen = atomic_load(&news->value);
    int left = move_once(shm, messages, count, &moved);
    if (moved || left < 0)
        return;
    ce_shm_signal_sleep(news, seen);
    if (atomic_load(&news->value) != seen)
        return;
    int lost = ce_shm_look_around(shm, messages[left].peer, &how);
    move_once(shm, messages, count, &moved);
    if (lost >= 0 && !moved)
        ce_shm_lose(shm, lost, how);
}

bool ce_shm_messages_move(cs_comm *comm, ce_message *messages, int count, bool wait)
{
    ce_shm *shm = comm->private_data;
    bool moved;
    int idle = 0;
    while (move_once(shm, messages, count, &moved) >= 0 && wait) {
        idle = moved ? 0 : idle + 1;
        if (idle > shm->spins + shm->yields)
            sleep_until_news(shm, messages, count);
        else if (idle > shm->spins)
            sched_yield();
        else
            ce_shm_pause();
    }
    return moved;
}
