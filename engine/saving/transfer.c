/* transfer.c - copies state between GPU memory and checkpoint files through two pinned host buffers.
 *
 * Pinning memory takes some 0.4 s for each GB, and the system limits how much may be pinned. Therefore only these two
 * buffers are pinned for a checkpoint, however large the state is. The device fills one buffer in its copy stream,
 * concurrently with computation, while the host empties the other. The host itself copies offloaded state, which is in
 * host memory, without the buffers. If the device is the CPU, nothing is copied. */
#include "base/must.h"
#include "saving/saving.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFERS = 2, BUFFER = 16 << 20 };

struct ce_transfer {
    cs_device *device;
    ce_checkpoint_device_copy device_copy;
    pthread_mutex_t mutex; /* protects the members below, because several threads write files */
    char *buffers[BUFFERS];
    ce_event done[BUFFERS]; /* for each buffer, the end of the last copy that used it */
    /* complete when all operations that were queued before the transfer are complete; these operations may change the
     * state */
    ce_event begun;
    int current;   /* index of the buffer that the function `send` fills */
    size_t filled; /* number of bytes in the buffer `current` */
};

static cs_stream *copying(const ce_transfer *transfer)
{
    return ce_device_stream(transfer->device, CE_COPY);
}

static size_t part_bytes(size_t bytes, size_t part)
{
    return bytes - part * BUFFER < BUFFER ? bytes - part * BUFFER : BUFFER;
}

/* Copies from the device to the host in blocks of BUFFER bytes: the device copies block i + 1 into one buffer while the
 * host copies block i out of the other buffer. */
static void fetch_blocks(ce_transfer *transfer, void *to, const void *from, size_t bytes)
{
    size_t parts = (bytes + BUFFER - 1) / BUFFER;
    for (size_t i = 0; i <= parts; i++) {
        if (i < parts) {
            ce_stream_copy(copying(transfer), transfer->buffers[i % 2], (const char *)from + i * BUFFER,
                           part_bytes(bytes, i));
            transfer->done[i % 2] = ce_stream_record(copying(transfer));
        }
        if (i > 0) {
            ce_event_wait(transfer->done[(i - 1) % 2]);
            memcpy((char *)to + (i - 1) * BUFFER, transfer->buffers[(i - 1) % 2], part_bytes(bytes, i - 1));
        }
    }
}

static void fetch(void *argument, void *to, const void *from, size_t bytes)
{
    ce_transfer *transfer = argument;
    pthread_mutex_lock(&transfer->mutex);
    ce_event_wait(transfer->begun); /* ce_event_wait also makes this GPU the current GPU of the calling thread. */
    if (ce_device_holds(transfer->device, from))
        fetch_blocks(transfer, to, from, bytes);
    else
        memcpy(to, from, bytes);
    pthread_mutex_unlock(&transfer->mutex);
}

/* Switches to the other buffer, and waits until the device has read the old contents of that buffer. */
static void switch_buffer(ce_transfer *transfer)
{
    transfer->done[transfer->current] = ce_stream_record(copying(transfer));
    transfer->current = (transfer->current + 1) % BUFFERS;
    transfer->filled = 0;
    ce_event_wait(transfer->done[transfer->current]);
}

/* Copies from the host to the device. ce_transfer_end waits for the last copies. */
static void send_blocks(ce_transfer *transfer, void *to, const void *from, size_t bytes)
{
    for (size_t sent = 0, now; sent < bytes; sent += now) {
        if (transfer->filled == BUFFER)
            switch_buffer(transfer);
        size_t left = BUFFER - transfer->filled;
        char *buffer = transfer->buffers[transfer->current] + transfer->filled;
        now = bytes - sent < left ? bytes - sent : left;
        memcpy(buffer, (const char *)from + sent, now);
        ce_stream_copy(copying(transfer), (char *)to + sent, buffer, now);
        transfer->filled += now;
    }
}

static void send(void *argument, void *to, const void *from, size_t bytes)
{
    ce_transfer *transfer = argument;
    pthread_mutex_lock(&transfer->mutex);
    ce_event_wait(transfer->begun);
    if (ce_device_holds(transfer->device, to))
        send_blocks(transfer, to, from, bytes);
    else
        memcpy(to, from, bytes);
    pthread_mutex_unlock(&transfer->mutex);
}

static void open_transfer(cs_engine *engine)
{
    ce_transfer *transfer = engine->transfer = ce_must_alloc(sizeof *transfer);
    transfer->device = engine->device;
    transfer->device_copy = (ce_checkpoint_device_copy){ .fetch = fetch, .send = send, .argument = transfer };
    pthread_mutex_init(&transfer->mutex, NULL);
    for (int i = 0; i < BUFFERS; i++)
        transfer->buffers[i] = ce_device_alloc_pinned(engine->device, BUFFER);
}

void ce_transfer_begin(cs_engine *engine, const ce_checkpoint_device_copy **device_copy)
{
    *device_copy = NULL;
    if (!ce_device_has_own_memory(engine->device))
        return;
    if (!engine->transfer)
        open_transfer(engine);
    cs_stream *copy = copying(engine->transfer);
    ce_stream_follow(copy, ce_device_stream(engine->device, CE_COMPUTE));
    ce_stream_follow(copy, ce_device_stream(engine->device, CE_COMM));
    engine->transfer->begun = ce_stream_record(copy);
    *device_copy = &engine->transfer->device_copy;
}

void ce_transfer_end(cs_engine *engine)
{
    if (!engine->transfer)
        return;
    ce_stream_sync(copying(engine->transfer));
    engine->transfer->filled = 0;
}

size_t ce_transfer_bytes(void)
{
    return (size_t)BUFFERS * BUFFER;
}

void ce_transfer_close(ce_transfer *transfer)
{
    if (!transfer)
        return;
    for (int i = 0; i < BUFFERS; i++)
        ce_device_free(transfer->device, transfer->buffers[i]);
    pthread_mutex_destroy(&transfer->mutex);
    free(transfer);
}
