/* dry.c - a device that computes nothing: the same requests, the same counts, no work.
 *
 * Memory is address space nobody may touch, so that the plan of a large model costs nothing. Calls given to
 * its streams and tasks given to its threads are not run. */
#include "device/table.h"
#include "base/range.h"

#include <stdio.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

static size_t whole_pages(size_t bytes)
{
    return (size_t)cs_round_up((int64_t)bytes + 1, PAGE);
}

static cs_status dry_open(cs_device *device, const cs_device_settings *settings)
{
    device->threads = settings->threads > 0 ? settings->threads : 1;
    snprintf(device->description, sizeof device->description, "dry: plans, computes nothing");
    return CS_OK;
}

static void *dry_alloc(cs_device *device, size_t bytes)
{
    (void)device;
    void *memory = mmap(NULL, whole_pages(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static void dry_free(cs_device *device, void *memory, size_t bytes)
{
    (void)device;
    munmap(memory, whole_pages(bytes));
}

const cs_device_table cs_device_dry = { .kind = "dry", .open = dry_open, .alloc = dry_alloc, .free = dry_free };
