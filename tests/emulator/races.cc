/* races.cc - race detector: hooks that instrumented kernels call at every load and store. It finds data races within a
 * block, between blocks of a launch and between operations of streams, and reads of uninitialised shared memory.
 *
 * Shadow memory has a cell for each byte of shared memory, and a cell for every two bytes of device memory. A cell
 * stores the last writer and the readers since the last write. Two accesses are ordered if they are of one thread; if a
 * barrier of their block is between them; if both are of one warp that has synchronized between them; or if their
 * operations are ordered (order.cc). */
#include "shadow.h"

#include <string>
#include <sys/mman.h>

#include "device/cuda/tensor.cuh"

/* A moment identifies an access: the span (shadow.h) of the access, the index of the thread in the thread's block, and
 * flags. 0: no access. */
enum { FLAG_BITS = 2, SPAN_SHIFT = 12, FLAGS = 3 };
/* Flags of a reader. BY_LANES: several lanes have read in the reader's span. BY_WARPS: several warps have read since
 * the last barrier. */
enum { BY_LANES = 1, BY_WARPS = 2 };
enum { ATOMIC = 1 }; /* flag of a writer */
using moment = uint64_t;

struct cell {
    /* `other`: a second reader, whose operation is not ordered with the operation of `reader`. */
    moment writer, reader, other;
};

/* A sector of 32 bytes in device memory. by[0] is the span (shadow.h) that last read the sector, by[1] the span that
 * last wrote it. */
struct sector {
    shadow_span by[2];
};

enum { GRANULE = 2, SECTOR = 32 };

static shadow_span last; /* the span that began last */
/* The first span of the running operation, of the running block, and since the last barrier. */
static shadow_span operation_first, block_first, interval_first;
static shadow_span span_of[EMULATOR_BLOCK_THREADS / 32];
static std::vector<shadow_span> blocks; /* the first span of each block of this launch */

/* The range of static shared memory. */
extern char __bss_start[] __attribute__((visibility("hidden")));
extern char _end[] __attribute__((visibility("hidden")));

template <typename T> static T *reserved(size_t count)
{
    void *memory =
        mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        emulator_fatal("no addresses for shadow memory: %s", strerror(errno));
    return (T *)memory;
}

static cell *device_cells()
{
    static cell *const cells = reserved<cell>(EMULATOR_RESERVED / GRANULE);
    return cells;
}

static sector *device_sectors()
{
    static sector *const sectors = reserved<sector>(EMULATOR_RESERVED / SECTOR);
    return sectors;
}

/* ---- spans ---- */

void shadow_operation()
{
    if (!shadow_on)
        return;
    traffic_begin();
    operation_first = block_first = interval_first = span_of[0] = ++last;
    blocks.clear();
    order_begin(last);
}

void shadow_barrier(unsigned warps)
{
    interval_first = last + 1;
    for (unsigned warp = 0; warp < warps; warp++)
        span_of[warp] = ++last;
}

void shadow_block(unsigned warps)
{
    block_first = last + 1;
    shadow_barrier(warps);
    if (shadow_on)
        blocks.push_back(block_first);
}

void shadow_warp(unsigned warp)
{
    span_of[warp] = ++last;
}

/* ---- findings ---- */

static unsigned thread_of(moment at)
{
    return (unsigned)(at >> FLAG_BITS) % EMULATOR_BLOCK_THREADS;
}

static const char *place_of(const void *at)
{
    static char text[160];
    size_t bytes = 0;
    const char *start = emulator_block_of(at, &bytes), *dynamic = (const char *)ce_shared_memory();
    if (start)
        snprintf(text, sizeof text, "byte %zu of the %zu bytes of device memory at %p",
                 (size_t)((const char *)at - start), bytes, (const void *)start);
    else if ((const char *)at >= dynamic && (const char *)at < dynamic + EMULATOR_SHARED_MAX)
        snprintf(text, sizeof text, "byte %zu of dynamic shared memory", (size_t)((const char *)at - dynamic));
    else
        snprintf(text, sizeof text, "static shared memory at %p", at);
    return text;
}

/* Describes the other access, and the synchronization that is missing. */
static const char *culprit(moment then)
{
    static char text[640];
    shadow_span span = then >> SPAN_SHIFT;
    if (span < operation_first)
        snprintf(text, sizeof text, "%s, and no event, wait or edge of a graph orders the two", order_describe(span));
    else if (span < block_first)
        snprintf(text, sizeof text, "thread %u of block %zu of the same launch", thread_of(then),
                 (size_t)(std::upper_bound(blocks.begin(), blocks.end(), span) - blocks.begin() - 1));
    else
        snprintf(text, sizeof text, "thread %u of the same block, with no barrier between", thread_of(then));
    return text;
}

[[noreturn]] static void race(const void *at, const char *does, const char *did, moment then)
{
    std::string who = emulator_self ? "" : std::string(order_describe(last)) + " ";
    emulator_fatal("race: %s%s %s, which was %s by %s", who.c_str(), does, place_of(at), did, culprit(then));
}

/* ---- the order of two accesses ---- */

template <bool shared> static inline bool unordered(moment then, moment me)
{
    shadow_span span = then >> SPAN_SHIFT;
    if (span >= interval_first) {
        if (then & BY_WARPS)
            return true;
        if (span == me >> SPAN_SHIFT)
            return then & BY_LANES || thread_of(then) != thread_of(me);
        return thread_of(then) / 32 != thread_of(me) / 32;
    }
    if (shared || span == 0 || span >= block_first)
        return false;
    return span >= operation_first || !order_is_before(span);
}

/* Stores a reader. An earlier reader in another block is kept, because it is not ordered with any writer of this
 * launch. */
template <bool shared> static inline void note_reader(cell &c, moment me)
{
    shadow_span span = c.reader >> SPAN_SHIFT;
    if (span >= interval_first) {
        if (span == me >> SPAN_SHIFT)
            c.reader |= BY_LANES;
        else if (!(c.reader & BY_WARPS) && thread_of(c.reader) / 32 == thread_of(me) / 32)
            c.reader = me;
        else
            c.reader |= BY_WARPS;
        return;
    }
    if (!shared && span >= operation_first && span < block_first)
        return;
    if (!shared && span && span < operation_first && !order_is_before(span))
        c.other = c.reader;
    c.reader = me;
}

template <bool shared> static inline void check_set(const cell &c, const void *at)
{
    if (shared && c.writer >> SPAN_SHIFT < block_first)
        emulator_fatal("reads %s, which nobody has written since the block began", place_of(at));
}

template <bool shared> static void read(cell &c, moment me, const void *at)
{
    if (c.reader == me)
        return;
    check_set<shared>(c, at);
    if (unordered<shared>(c.writer & ~(moment)FLAGS, me))
        race(at, "reads", "written", c.writer);
    if (!shared && c.reader >> SPAN_SHIFT < operation_first)
        traffic_now[0].distinct += GRANULE;
    note_reader<shared>(c, me);
}

template <bool shared> static void write(cell &c, moment me, const void *at, bool atomic)
{
    if (c.writer == me && !c.reader)
        return;
    bool both = atomic && c.writer & ATOMIC;
    if (atomic)
        check_set<shared>(c, at);
    if (!both && unordered<shared>(c.writer & ~(moment)FLAGS, me))
        race(at, "writes", "written", c.writer);
    if (unordered<shared>(c.reader, me))
        race(at, "writes", "read", c.reader);
    if (c.other && unordered<shared>(c.other, me))
        race(at, "writes", "read", c.other);
    if (!shared && c.writer >> SPAN_SHIFT < operation_first)
        traffic_now[1].distinct += GRANULE;
    c = { me | (atomic ? (moment)ATOMIC : 0), 0, 0 };
}

template <bool shared>
static inline void visit(cell *cells, size_t first, size_t count, const char *start, moment me, emulator_access access)
{
    for (size_t i = first; i < first + count; i++) {
        const char *at = start + i * (shared ? 1 : GRANULE);
        if (access == EMULATOR_READ)
            read<shared>(cells[i], me, at);
        else
            write<shared>(cells[i], me, at, access == EMULATOR_ATOMIC);
    }
}

/* ---- accesses ---- */

static void visit_device(size_t offset, size_t bytes, moment me, emulator_access access)
{
    bool writes = access != EMULATOR_READ;
    traffic_counts &counts = traffic_now[writes];
    sector *sectors = device_sectors();
    counts.requested += bytes;
    for (size_t i = offset / SECTOR; i <= (offset + bytes - 1) / SECTOR; i++) {
        counts.sectors += sectors[i].by[writes] != me >> SPAN_SHIFT;
        sectors[i].by[writes] = me >> SPAN_SHIFT;
    }
    size_t first = offset / GRANULE;
    visit<false>(device_cells(), first, (offset + bytes - 1) / GRANULE - first + 1, emulator_device_base(), me, access);
}

void emulator_saw(const void *memory, size_t bytes, emulator_access access)
{
    static cell *const dynamic_cells = reserved<cell>(EMULATOR_SHARED_MAX);
    static cell *const static_cells = reserved<cell>((size_t)(_end - __bss_start));
    const char *at = (const char *)memory, *dynamic = (const char *)ce_shared_memory();
    if (!shadow_on || !emulator_self)
        return;
    moment me = span_of[emulator_self->number / 32] << SPAN_SHIFT | (moment)emulator_self->number << FLAG_BITS;
    if (size_t offset = (size_t)(at - emulator_device_base()); offset < EMULATOR_RESERVED)
        visit_device(offset, bytes, me, access);
    else if (offset = (size_t)(at - dynamic); offset < EMULATOR_SHARED_MAX)
        visit<true>(dynamic_cells, offset, bytes, dynamic, me, access);
    else if (offset = (size_t)(at - __bss_start); offset < (size_t)(_end - __bss_start))
        visit<true>(static_cells, offset, bytes, __bss_start, me, access);
}

void shadow_touch(const char *what, const void *memory, size_t bytes, emulator_access access)
{
    if (!shadow_on || !emulator_is_device(memory) || !bytes)
        return;
    order_name(what);
    traffic_name(what);
    visit_device((size_t)((const char *)memory - emulator_device_base()), bytes, span_of[0] << SPAN_SHIFT, access);
}

void shadow_forget(const void *memory, size_t bytes)
{
    const size_t page = 4096;
    if (!shadow_on)
        return;
    size_t first = (size_t)((const char *)memory - emulator_device_base()) / GRANULE;
    uintptr_t from = ((uintptr_t)(device_cells() + first) + page - 1) / page * page;
    uintptr_t to = (uintptr_t)(device_cells() + first + bytes / GRANULE) / page * page;
    if (from < to)
        madvise((void *)from, to - from, MADV_DONTNEED);
}

/* ---- the names that -fsanitize=thread calls ---- */

#define HOOK(name, bytes, access)                                                                                      \
    extern "C" void __tsan_##name(void *at)                                                                            \
    {                                                                                                                  \
        emulator_saw(at, bytes, access);                                                                               \
    }
#define HOOKS(bytes)                                                                                                   \
    HOOK(read##bytes, bytes, EMULATOR_READ)                                                                            \
    HOOK(write##bytes, bytes, EMULATOR_WRITE)                                                                          \
    HOOK(unaligned_read##bytes, bytes, EMULATOR_READ)                                                                  \
    HOOK(unaligned_write##bytes, bytes, EMULATOR_WRITE)
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)

extern "C" void __tsan_read_range(void *at, long bytes)
{
    emulator_saw(at, (size_t)bytes, EMULATOR_READ);
}

extern "C" void __tsan_write_range(void *at, long bytes)
{
    emulator_saw(at, (size_t)bytes, EMULATOR_WRITE);
}

extern "C" void __tsan_init()
{
}
extern "C" void __tsan_func_entry(void *)
{
}
extern "C" void __tsan_func_exit(void *)
{
}
extern "C" void __tsan_vptr_update(void *, void *)
{
}
extern "C" void __tsan_vptr_read(void *)
{
}
