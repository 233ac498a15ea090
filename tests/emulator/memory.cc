/* memory.cc - emulated device memory, which the host cannot access, and pinned host memory.
 *
 * One range of addresses is reserved. Blocks are allocated from the range in ascending order, and no address is used
 * twice, so that an access to freed memory never reaches another block. The range is accessible only while an operation
 * of a stream runs. New memory is filled with NaN, and each block is followed by guard bytes. The environment variable
 * CSPEED_EMULATOR_MEMORY sets the bytes of device memory. */
#include "shadow.h"

#include <map>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGNMENT = 256, GUARD = 256, MARK = 0xa5, EMPTY = 0xff, PAGE = 2 << 20 };

static const size_t reserved = EMULATOR_RESERVED;
static char *range;
static size_t used, held; /* bytes of the range; bytes of blocks in use */
static int openings;
static std::map<char *, size_t> blocks, pinned;
static uint64_t pinned_now, pinned_max; /* bytes */

static size_t capacity()
{
    const char *given = getenv("CSPEED_EMULATOR_MEMORY");
    return given ? strtoull(given, nullptr, 10) : (size_t)8 << 30;
}

static size_t padded_bytes(size_t bytes)
{
    return (bytes + GUARD + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Changes the protection of the range. Where huge pages are available, a change costs much less. */
static void protect(int protection)
{
    if (used && mprotect(range, (used + PAGE - 1) / PAGE * PAGE, protection) != 0)
        emulator_fatal("device memory cannot be opened or shut: %s", strerror(errno));
}

emulator_open::emulator_open()
{
    emulator_guard guard(emulator_lock);
    if (openings++ == 0)
        protect(PROT_READ | PROT_WRITE);
}

emulator_open::~emulator_open()
{
    emulator_guard guard(emulator_lock);
    if (--openings == 0)
        protect(PROT_NONE);
}

bool emulator_is_device(const void *pointer)
{
    return range && (const char *)pointer >= range && (const char *)pointer < range + reserved;
}

const char *emulator_device_base()
{
    return range;
}

const char *emulator_block_of(const void *pointer, size_t *bytes)
{
    auto after = blocks.upper_bound((char *)pointer);
    if (!emulator_is_device(pointer) || after == blocks.begin())
        return nullptr;
    *bytes = (--after)->second;
    return after->first;
}

void emulator_check_range(const char *what, const void *pointer, size_t bytes)
{
    if (!emulator_is_device(pointer))
        return;
    size_t size = 0;
    const char *start = emulator_block_of(pointer, &size);
    if (!start)
        emulator_fatal("%s: %p is no device memory", what, pointer);
    if ((const char *)pointer + bytes > start + size)
        emulator_fatal("%s: %zu bytes at %p pass the end of the block of %zu bytes at %p", what, bytes, pointer, size,
                       (const void *)start);
}

/* Copies without instrumentation by sanitizers. */
void emulator_move(void *to, const void *from, size_t bytes)
{
#if defined(__x86_64__)
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
    volatile char *into = (volatile char *)to;
    const volatile char *out = (const volatile char *)from;
    for (size_t i = 0; i < bytes; i++)
        into[i] = out[i];
#endif
}

void emulator_hide(const void *memory, size_t bytes)
{
    if (!emulator_is_device(memory))
        ASAN_POISON_MEMORY_REGION(memory, bytes);
}

void emulator_show(const void *memory, size_t bytes)
{
    if (!emulator_is_device(memory))
        ASAN_UNPOISON_MEMORY_REGION(memory, bytes);
}

static void reserve()
{
    void *memory = mmap(nullptr, reserved + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        emulator_fatal("no addresses for device memory: %s", strerror(errno));
    range = (char *)(((uintptr_t)memory + PAGE - 1) / PAGE * PAGE);
    madvise(range, reserved, MADV_HUGEPAGE);
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    emulator_guard guard(emulator_lock);
    if (cudaError_t refused = emulator_capture_forbids(nullptr); refused != cudaSuccess)
        return refused;
    if (!range)
        reserve();
    *memory = nullptr;
    if (bytes == 0)
        return cudaSuccess;
    if (bytes > capacity() - held || used + padded_bytes(bytes) > reserved)
        return emulator_fail(cudaErrorMemoryAllocation);
    char *start = range + used;
    used += padded_bytes(bytes);
    protect(openings ? PROT_READ | PROT_WRITE : PROT_NONE);
    emulator_open open;
    memset(start, EMPTY, bytes);
    memset(start + bytes, MARK, padded_bytes(bytes) - bytes);
    ASAN_POISON_MEMORY_REGION(start + bytes, padded_bytes(bytes) - bytes);
    blocks[start] = bytes;
    held += bytes;
    *memory = start;
    return cudaSuccess;
}

static void check_guard(char *start, size_t bytes)
{
    emulator_open open;
    ASAN_UNPOISON_MEMORY_REGION(start + bytes, padded_bytes(bytes) - bytes);
    for (size_t i = bytes; i < padded_bytes(bytes); i++)
        if ((unsigned char)start[i] != MARK)
            emulator_fatal("byte %zu behind the block of %zu bytes at %p was written", i - bytes, bytes, (void *)start);
}

/* Gives the pages that contain nothing but this block back to the operating system. */
static void give_back(char *memory, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)memory + page - 1) / page * page, to = ((uintptr_t)memory + bytes) / page * page;
    if (from < to)
        madvise((void *)from, to - from, MADV_DONTNEED);
}

/* Waits for the whole device, as a real runtime does. */
cudaError_t cudaFree(void *memory)
{
    emulator_guard guard(emulator_lock);
    if (cudaError_t refused = emulator_capture_forbids(nullptr); refused != cudaSuccess)
        return refused;
    if (!memory)
        return cudaSuccess;
    auto found = blocks.find((char *)memory);
    if (found == blocks.end())
        return emulator_fail(cudaErrorInvalidValue);
    if (emulator_waiting())
        fprintf(stderr, "emulator: cudaFree waits for %llu operations that nobody waited for\n",
                (unsigned long long)emulator_waiting());
    emulator_run_all();
    check_guard(found->first, found->second);
    ASAN_POISON_MEMORY_REGION(memory, padded_bytes(found->second));
    give_back((char *)memory, found->second);
    shadow_forget(memory, found->second);
    held -= found->second;
    blocks.erase(found);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    emulator_guard guard(emulator_lock);
    *total = capacity();
    *available = *total - held;
    return cudaSuccess;
}

/* ---- memory of the host ---- */

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned)
{
    emulator_guard guard(emulator_lock);
    if (cudaError_t refused = emulator_capture_forbids(nullptr); refused != cudaSuccess)
        return refused;
    *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (!*memory)
        return emulator_fail(cudaErrorMemoryAllocation);
    memset(*memory, EMPTY, bytes);
    pinned[(char *)*memory] = bytes;
    pinned_now += bytes;
    pinned_max = pinned_now > pinned_max ? pinned_now : pinned_max;
    return cudaSuccess;
}

uint64_t emulator_pinned_max()
{
    emulator_guard guard(emulator_lock);
    return pinned_max;
}

cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    return cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *memory)
{
    emulator_guard guard(emulator_lock);
    if (cudaError_t refused = emulator_capture_forbids(nullptr); refused != cudaSuccess)
        return refused;
    if (!memory)
        return cudaSuccess;
    auto found = pinned.find((char *)memory);
    if (found == pinned.end())
        return emulator_fail(cudaErrorInvalidValue);
    pinned_now -= found->second;
    pinned.erase(found);
    emulator_run_all();
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned)
{
    emulator_guard guard(emulator_lock);
    bool fresh = pinned.emplace((char *)memory, bytes).second;
    return fresh ? cudaSuccess : emulator_fail(cudaErrorHostMemoryAlreadyRegistered);
}

cudaError_t cudaHostUnregister(void *memory)
{
    emulator_guard guard(emulator_lock);
    return pinned.erase((char *)memory) ? cudaSuccess : emulator_fail(cudaErrorHostMemoryNotRegistered);
}

static bool is_pinned(const void *pointer)
{
    auto after = pinned.upper_bound((char *)pointer);
    return after != pinned.begin() && (const char *)pointer < std::prev(after)->first + std::prev(after)->second;
}

bool emulator_is_pageable(const void *pointer)
{
    return !emulator_is_device(pointer) && !is_pinned(pointer);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *pointer)
{
    emulator_guard guard(emulator_lock);
    *attributes = {};
    if (emulator_is_device(pointer))
        attributes->type = cudaMemoryTypeDevice;
    else if (is_pinned(pointer))
        attributes->type = cudaMemoryTypeHost;
    attributes->devicePointer = attributes->type ? (void *)pointer : nullptr;
    attributes->hostPointer = attributes->type == cudaMemoryTypeHost ? (void *)pointer : nullptr;
    return cudaSuccess;
}
