/* device.c - opens a device, and counts the device's memory and flops. All other work is done by the functions of the
 * device's table. */
#include "device/table.h"
#include "device/module.h"
#include "base/log.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Finds the table of functions of a kind of device. For the CPU, the set of instructions is chosen first, because each
 * set has its own table. */
static cs_status find(const ce_device_table **table, ce_isa *isa, const char *kind)
{
    const ce_module *module = NULL;
    *isa = CE_ISA_NONE;
    if (strcmp(kind, "cuda") == 0) {
        CE_TRY(ce_module_open(&module));
        *table = module->device;
        return CS_OK;
    }
    if (strcmp(kind, "cpu") == 0) {
        CE_TRY(ce_isa_choose(isa, ce_isa_available(), getenv("CSPEED_CPU_ISA")));
        *table = ce_isa_kernels(*isa);
        return CS_OK;
    }
    if (strcmp(kind, "dry") == 0) {
        *table = &ce_device_dry;
        return CS_OK;
    }
    return ce_fail(CS_NO_DEVICE, "device \"%s\": unknown; use \"cpu\", \"cuda\" or \"auto\"", kind);
}

static cs_status open_kind(cs_device **device, const ce_device_settings *settings, const char *kind)
{
    const ce_device_table *table = NULL;
    ce_isa isa;
    CE_TRY(find(&table, &isa, kind));
    cs_device *new = calloc(1, sizeof *new);
    if (!new)
        return ce_fail(CS_NO_MEMORY, "no memory for a device");
    new->table = table;
    new->isa = isa;
    new->threads = 1;
    pthread_mutex_init(&new->lock, NULL);
    for (int role = 0; role < CE_STREAM_ROLES; role++)
        new->streams[role] = (cs_stream){ .device = new, .role = (ce_stream_role)role };
    cs_status status = table->open(new, settings);
    if (status != CS_OK) {
        ce_device_close(new);
        return status;
    }
    *device = new;
    return CS_OK;
}

/* The kind "auto" is a GPU if the system has a driver for it. If the GPU cannot be opened, a warning says why, and the
 * CPU is used. */
cs_status ce_device_open(cs_device **device, const ce_device_settings *settings)
{
    *device = NULL;
    if (strcmp(settings->kind, "auto") != 0)
        return open_kind(device, settings, settings->kind);
    if (ce_module_has_driver() && open_kind(device, settings, "cuda") == CS_OK)
        return CS_OK;
    if (ce_module_has_driver())
        ce_log(CE_LOG_WARNING, "the CPU is used: %s", cs_error());
    return open_kind(device, settings, "cpu");
}

bool ce_device_is_gpu(const char *kind)
{
    return strcmp(kind, "cuda") == 0 || (strcmp(kind, "auto") == 0 && ce_module_has_driver());
}

int64_t ce_device_row_multiple(const char *kind)
{
    return ce_device_is_gpu(kind) ? 128 : 1;
}

/* Products on tiles read all weights of a head for each chunk of rows, and are fast only for many rows. On a machine
 * with AMX and enough memory a chunk of logits therefore has 1,024 rows of most vocabularies. */
size_t ce_device_chunk_bytes(const char *kind)
{
    const double enough = 16e9;
    ce_isa isa;
    bool tiles = ce_isa_choose(&isa, ce_isa_available(), getenv("CSPEED_CPU_ISA")) == CS_OK && isa == CE_ISA_AMX;
    if (ce_device_is_gpu(kind))
        return (size_t)1 << 30;
    return tiles && (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) > enough ? 256000000 : 32000000;
}

static void release(cs_device *device, ce_device_block block)
{
    if (block.pinned && device->table->free_pinned)
        device->table->free_pinned(device, block.memory, block.bytes);
    else
        device->table->free(device, block.memory, block.bytes);
}

void ce_device_close(cs_device *device)
{
    if (!device)
        return;
    if (device->table->close)
        device->table->close(device);
    while (device->block_count)
        release(device, device->blocks[--device->block_count]);
    free(device->blocks);
    pthread_mutex_destroy(&device->lock);
    free(device);
}

const char *ce_device_kind(const cs_device *device)
{
    return device->table->kind;
}

const char *ce_device_describe(const cs_device *device)
{
    return device->description;
}

int ce_device_threads(const cs_device *device)
{
    return device->threads;
}

bool ce_device_has_own_memory(const cs_device *device)
{
    return device->table->alloc_pinned != NULL;
}

static void note_block(cs_device *device, ce_device_block block)
{
    if (device->block_count == device->block_capacity) {
        device->block_capacity = device->block_capacity ? 2 * device->block_capacity : 64;
        device->blocks = realloc(device->blocks, device->block_capacity * sizeof *device->blocks);
        if (!device->blocks)
            ce_fatal(CS_NO_MEMORY, "no memory for a list of %zu allocations", device->block_capacity);
    }
    device->blocks[device->block_count++] = block;
    *(block.pinned ? &device->pinned : &device->allocated) += block.bytes;
}

void *ce_device_alloc(cs_device *device, size_t bytes)
{
    pthread_mutex_lock(&device->lock);
    void *memory = device->table->alloc(device, bytes);
    if (!memory)
        ce_fatal(CS_NO_MEMORY,
                 "out of memory: %zu bytes are needed; this rank has already allocated %zu bytes on its %s device",
                 bytes, device->allocated, device->table->kind);
    note_block(device, (ce_device_block){ memory, bytes, false });
    pthread_mutex_unlock(&device->lock);
    return memory;
}

void *ce_device_alloc_pinned(cs_device *device, size_t bytes)
{
    if (!ce_device_has_own_memory(device))
        return ce_device_alloc(device, bytes);
    pthread_mutex_lock(&device->lock);
    void *memory = device->table->alloc_pinned(device, bytes);
    if (!memory)
        ce_fatal(CS_NO_MEMORY,
                 "out of memory: %zu bytes of host memory that the %s device can read are needed; this rank has "
                 "already allocated %zu",
                 bytes, device->table->kind, device->pinned);
    note_block(device, (ce_device_block){ memory, bytes, true });
    pthread_mutex_unlock(&device->lock);
    return memory;
}

void ce_device_free(cs_device *device, void *memory)
{
    if (!memory)
        return;
    pthread_mutex_lock(&device->lock);
    size_t at = 0;
    while (at < device->block_count && device->blocks[at].memory != memory)
        at++;
    CE_ASSERT(at < device->block_count);
    ce_device_block block = device->blocks[at];
    device->blocks[at] = device->blocks[--device->block_count];
    *(block.pinned ? &device->pinned : &device->allocated) -= block.bytes;
    release(device, block);
    pthread_mutex_unlock(&device->lock);
}

bool ce_device_holds(cs_device *device, const void *memory)
{
    bool holds = false;
    pthread_mutex_lock(&device->lock);
    for (size_t i = 0; i < device->block_count && !holds; i++) {
        const ce_device_block *block = &device->blocks[i];
        uintptr_t from = (uintptr_t)block->memory;
        holds = !block->pinned && (uintptr_t)memory >= from && (uintptr_t)memory < from + block->bytes;
    }
    pthread_mutex_unlock(&device->lock);
    return holds;
}

size_t ce_device_allocated(const cs_device *device)
{
    return device->allocated;
}

size_t ce_device_free_bytes(cs_device *device)
{
    return device->table->free_bytes ? device->table->free_bytes(device) : 0;
}

size_t ce_device_workspace(const cs_device *device)
{
    return device->workspace;
}

void ce_device_enter(cs_device *device, const char *name)
{
    if (device->table->enter)
        device->table->enter(device, name);
}

void ce_device_leave(cs_device *device)
{
    if (device->table->leave)
        device->table->leave(device);
}

double ce_device_flops(const cs_device *device)
{
    return device->flops;
}

double ce_device_gradient_flops(const cs_device *device)
{
    return device->gradient_flops;
}

double ce_device_roof(cs_device *device, cs_dtype dtype)
{
    CE_ASSERT(dtype <= CS_F16);
    if (device->roofs[dtype] == 0 && device->table->roof)
        device->roofs[dtype] = device->table->roof(device, dtype);
    return device->roofs[dtype];
}

double ce_device_raise_roof(cs_device *device, cs_dtype dtype, double reached)
{
    double roof = ce_device_roof(device, dtype);
    if (roof > 0 && reached > roof)
        device->roofs[dtype] = reached;
    return device->roofs[dtype];
}

cs_stream *ce_device_stream(cs_device *device, ce_stream_role role)
{
    return &device->streams[role];
}

void ce_stream_call(cs_stream *stream, void (*call)(void *argument), void *argument)
{
    if (stream->device->table->call)
        stream->device->table->call(stream, call, argument);
}

ce_event ce_stream_record(cs_stream *stream)
{
    const ce_device_table *table = stream->device->table;
    return (ce_event){ table->record ? table->record(stream) : 0, stream };
}

void ce_stream_wait(cs_stream *stream, ce_event event)
{
    if (stream != event.stream && stream->device->table->wait)
        stream->device->table->wait(stream, event);
}

void ce_stream_follow(cs_stream *later, cs_stream *earlier)
{
    ce_stream_wait(later, ce_stream_record(earlier));
}

void ce_event_wait(ce_event event)
{
    if (event.stream && event.stream->device->table->wait)
        event.stream->device->table->wait(NULL, event);
}

void ce_stream_sync(cs_stream *stream)
{
    if (stream->device->table->sync)
        stream->device->table->sync(stream);
    else
        ce_event_wait(ce_stream_record(stream));
}

void ce_stream_copy(cs_stream *stream, void *to, const void *from, size_t bytes)
{
    if (stream->device->table->copy && bytes && to != from)
        stream->device->table->copy(stream, to, from, bytes);
}

void ce_stream_fetch(cs_stream *stream, void *to, const void *from, size_t bytes)
{
    ce_stream_copy(stream, to, from, bytes);
    ce_stream_sync(stream);
}

void ce_device_graph_begin(cs_device *device, uint64_t key)
{
    if (device->table->graph_begin)
        device->table->graph_begin(device, key);
}

void ce_device_graph_end(cs_device *device)
{
    if (device->table->graph_end)
        device->table->graph_end(device);
}

bool ce_device_has_graphs(const cs_device *device)
{
    return device->table->graph_begin != NULL;
}
