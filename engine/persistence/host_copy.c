/* host_copy.c - a far device's state in host memory: what checkpoints write from and read into.
 *
 * The copies run in the comm stream, beside the computing; host memory is kept from save to save. On a device that is
 * not far the pieces stay where they are and nothing is copied. */
#include "engine.h"
#include "base/range.h"

#include <stdlib.h>

enum { ALIGNMENT = 64 };

struct cs_mirror {
    cs_device *device;
    char *memory;
    size_t bytes;
    void **far; /* where each piece lies on the device */
    cs_event copied;
};

static size_t room_of(const cs_piece *piece)
{
    return (size_t)cs_round_up((int64_t)cs_piece_bytes(piece), ALIGNMENT);
}

static cs_status take_memory(cs_mirror *mirror, const cs_piece *pieces, int64_t count)
{
    size_t bytes = ALIGNMENT;
    for (int64_t i = 0; i < count; i++)
        bytes += room_of(&pieces[i]);
    free(mirror->far);
    mirror->far = calloc((size_t)count + 1, sizeof *mirror->far);
    if (!mirror->far)
        return cs_fail(CS_NO_MEMORY, "out of memory for a checkpoint's list of tensors");
    if (bytes <= mirror->bytes)
        return CS_OK;
    cs_device_free(mirror->device, mirror->memory);
    mirror->memory = cs_device_alloc_pinned(mirror->device, bytes);
    mirror->bytes = bytes;
    return CS_OK;
}

cs_status cs_mirror_take(cs_engine *engine, cs_piece *pieces, int64_t count)
{
    cs_stream *stream = cs_device_stream(engine->device, CS_COMM);
    size_t at = 0;
    if (!cs_device_has_own_memory(engine->device))
        return CS_OK;
    if (!engine->mirror)
        engine->mirror = calloc(1, sizeof *engine->mirror);
    cs_mirror *mirror = engine->mirror;
    if (!mirror)
        return cs_fail(CS_NO_MEMORY, "out of memory for a checkpoint's copy of the state");
    mirror->device = engine->device;
    CS_TRY(take_memory(mirror, pieces, count));
    for (int64_t i = 0; i < count; i++) {
        mirror->far[i] = pieces[i].data;
        pieces[i].data = mirror->memory + at;
        cs_stream_copy(stream, pieces[i].data, mirror->far[i], cs_piece_bytes(&pieces[i]));
        at += room_of(&pieces[i]);
    }
    mirror->copied = cs_stream_record(stream);
    return CS_OK;
}

void cs_mirror_await(void *mirror)
{
    if (mirror)
        cs_event_wait(((cs_mirror *)mirror)->copied);
}

void cs_mirror_put(cs_engine *engine, const cs_piece *pieces, int64_t count)
{
    cs_stream *stream = cs_device_stream(engine->device, CS_COMM);
    if (!engine->mirror)
        return;
    for (int64_t i = 0; i < count; i++)
        cs_stream_copy(stream, engine->mirror->far[i], pieces[i].data, cs_piece_bytes(&pieces[i]));
    cs_stream_sync(stream);
}

void cs_mirror_close(cs_mirror *mirror)
{
    if (!mirror)
        return;
    cs_device_free(mirror->device, mirror->memory);
    free(mirror->far);
    free(mirror);
}
