/* device.c - choose and open a device; its memory and streams, counted here. */
#include "device/table.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>

static cs_status find(const cs_device_table **table, const char *kind)
{
    static const cs_device_table *const known[] = { &cs_device_cpu, &cs_device_dry };
    if (strcmp(kind, "auto") == 0)
        kind = "cpu";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(kind, known[i]->kind) == 0) {
            *table = known[i];
            return CS_OK;
        }
    }
    if (strcmp(kind, "cuda") == 0)
        return cs_fail(CS_NO_DEVICE, "device \"cuda\": the module libcspeed_cuda.so is not built here; "
                                     "use \"cpu\" or \"auto\"");
    return cs_fail(CS_NO_DEVICE, "device \"%s\": unknown; use \"cpu\", \"cuda\" or \"auto\"", kind);
}

cs_status cs_device_open(cs_device **device, const cs_device_settings *settings)
{
    *device                      = NULL;
    const cs_device_table *table = NULL;
    CS_TRY(find(&table, settings->kind));
    cs_device *new = calloc(1, sizeof *new);
    if (!new)
        return cs_fail(CS_NO_MEMORY, "no memory for a device");
    new->table   = table;
    new->threads = 1;
    pthread_mutex_init(&new->lock, NULL);
    for (int role = 0; role < 2; role++)
        new->streams[role] = (cs_stream){ .device = new, .role = (cs_stream_role)role };
    cs_status status = table->open(new, settings);
    if (status != CS_OK) {
        cs_device_close(new);
        return status;
    }
    *device = new;
    return CS_OK;
}

void cs_device_close(cs_device *device)
{
    if (!device)
        return;
    if (device->table->close)
        device->table->close(device);
    for (size_t i = 0; i < device->block_count; i++)
        device->table->free(device, device->blocks[i].memory, device->blocks[i].bytes);
    free(device->blocks);
    pthread_mutex_destroy(&device->lock);
    free(device);
}

const char *cs_device_kind(const cs_device *device)
{
    return device->table->kind;
}

const char *cs_device_describe(const cs_device *device)
{
    return device->description;
}

int cs_device_threads(const cs_device *device)
{
    return device->threads;
}

bool cs_device_is_dry(const cs_device *device)
{
    return device->table == &cs_device_dry;
}

static void note_block(cs_device *device, void *memory, size_t bytes)
{
    if (device->block_count == device->block_room) {
        device->block_room = device->block_room ? 2 * device->block_room : 64;
        device->blocks     = realloc(device->blocks, device->block_room * sizeof *device->blocks);
        if (!device->blocks)
            cs_fatal(CS_NO_MEMORY, "no memory for a list of %zu allocations", device->block_room);
    }
    device->blocks[device->block_count++] = (cs_device_block){ memory, bytes };
    device->allocated += bytes;
}

void *cs_device_alloc(cs_device *device, size_t bytes)
{
    pthread_mutex_lock(&device->lock);
    void *memory = device->table->alloc(device, bytes);
    if (!memory)
        cs_fatal(CS_NO_MEMORY, "no memory for %zu bytes; this rank holds %zu bytes on its %s device already", bytes,
                 device->allocated, device->table->kind);
    note_block(device, memory, bytes);
    pthread_mutex_unlock(&device->lock);
    return memory;
}

void cs_device_free(cs_device *device, void *memory)
{
    if (!memory)
        return;
    pthread_mutex_lock(&device->lock);
    size_t at = 0;
    while (at < device->block_count && device->blocks[at].memory != memory)
        at++;
    CS_ASSERT(at < device->block_count);
    cs_device_block block = device->blocks[at];
    device->blocks[at]    = device->blocks[--device->block_count];
    device->allocated -= block.bytes;
    device->table->free(device, block.memory, block.bytes);
    pthread_mutex_unlock(&device->lock);
}

size_t cs_device_allocated(const cs_device *device)
{
    return device->allocated;
}

size_t cs_device_workspace(const cs_device *device)
{
    return device->workspace;
}

double cs_device_flops(const cs_device *device)
{
    return device->flops;
}

double cs_device_roof(cs_device *device, cs_dtype dtype)
{
    CS_ASSERT(dtype <= CS_F16);
    if (device->roofs[dtype] == 0 && device->table->roof)
        device->roofs[dtype] = device->table->roof(device, dtype);
    return device->roofs[dtype];
}

cs_stream *cs_device_stream(cs_device *device, cs_stream_role role)
{
    return &device->streams[role];
}

cs_device *cs_stream_device(cs_stream *stream)
{
    return stream->device;
}

void cs_stream_call(cs_stream *stream, void (*call)(void *argument), void *argument)
{
    if (stream->device->table->call)
        stream->device->table->call(stream, call, argument);
}

cs_event cs_stream_record(cs_stream *stream)
{
    const cs_device_table *table = stream->device->table;
    return (cs_event){ table->record ? table->record(stream) : 0, stream };
}

/* A stream whose calls the caller runs itself needs no mark of its own: it waits in the caller. */
void cs_stream_wait(cs_stream *stream, cs_event event)
{
    if (stream != event.stream && stream->device->table->wait)
        stream->device->table->wait(event.stream, event.sequence);
}

void cs_stream_sync(cs_stream *stream)
{
    if (stream->device->table->wait)
        stream->device->table->wait(stream, cs_stream_record(stream).sequence);
}

void cs_device_parallel(cs_device *device, int tasks, void (*task)(void *argument, int index), void *argument)
{
    if (device->table->parallel && tasks > 0)
        device->table->parallel(device, tasks, task, argument);
}
