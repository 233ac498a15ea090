/* block.cc - executes a grid: blocks one after another, the threads of a block as fibers of one host thread.
 *
 * A fiber runs until its thread waits for others or ends; then the next thread of its warp continues, then the next
 * warp. A thread that ends passes its stack to a thread that has not begun, so that a kernel without synchronization
 * never switches stacks. */
#include "shadow.h"
#include "switch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <vector>

#ifdef EMULATOR_SANITIZED
#include <sanitizer/common_interface_defs.h>
enum { STACK = 512 * 1024 };
#else
static void __sanitizer_start_switch_fiber(void **, const void *, size_t)
{
}
static void __sanitizer_finish_switch_fiber(void *, const void **, size_t *)
{
}
enum { STACK = 256 * 1024 };
#endif

enum { WARP = 32, WARPS = EMULATOR_BLOCK_THREADS / WARP, MARGIN = 1024, MARK = 0xa5 };

struct fiber {
    void *top = nullptr; /* saved stack pointer */
    char *stack = nullptr;
    void *fake = nullptr; /* AddressSanitizer's fake stack */
};

struct thread : emulator_thread {
    fiber *on = nullptr; /* NULL: the thread has not begun, or has ended */
};

struct warp {
    /* In each mask, one bit for each lane. `ready`: the thread can run, and is not the running one. */
    uint32_t present, ready, ended, arrived;
    unsigned meeting; /* index of the exchange buffer in use, 0 or 1 */
    const char *what, *file;
    int line;
    alignas(64) unsigned char slots[2][WARP][EMULATOR_SLOT];
};

/* Puts a variable into a section of its own: the instrumented module takes everything in .bss for static shared
 * memory. */
#define NOT_SHARED __attribute__((section("emulator_threads")))
NOT_SHARED emulator_thread *emulator_self;
NOT_SHARED uint3 blockIdx;
NOT_SHARED dim3 blockDim, gridDim;

static std::vector<thread> threads(EMULATOR_BLOCK_THREADS);
static std::vector<warp> warps(WARPS);
static std::deque<fiber> fibers;
static std::vector<fiber *> resting;
static fiber outside; /* the stack that executes the grid */
static const std::function<void()> *body;
static const char *kernel_name;
static unsigned thread_count, warp_count, ended, waiting, gathered[2], meeting;
static const char *barrier_file;
static int barrier_line;
static bool reversed, from_outside;
static const void *outside_stack;
static size_t outside_bytes;

alignas(128) static unsigned char shared_memory[EMULATOR_SHARED_MAX + MARGIN];

unsigned char *ce_shared_memory()
{
    return shared_memory;
}

long long clock64()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (long long)now.tv_sec * 1000000000 + now.tv_nsec;
}

const char *emulator_where()
{
    static char text[512];
    text[0] = 0;
    if (emulator_self)
        snprintf(text, sizeof text, "kernel %s, block (%u, %u, %u), thread (%u, %u, %u): ", kernel_name, blockIdx.x,
                 blockIdx.y, blockIdx.z, emulator_self->index.x, emulator_self->index.y, emulator_self->index.z);
    return text;
}

void emulator_fatal(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "emulator: %s", emulator_where());
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

void emulator_trap(const char *file, int line)
{
    emulator_fatal("__trap at %s:%d", file, line);
}

/* ---- fibers ---- */

/* Tells AddressSanitizer that a switch is complete, and stores the bounds of the grid's stack. */
static void arrive(void *fake)
{
    bool first = from_outside;
    from_outside = false;
    __sanitizer_finish_switch_fiber(fake, first ? &outside_stack : nullptr, first ? &outside_bytes : nullptr);
}

static void switch_to(fiber *from, fiber *to)
{
    if (to == &outside)
        __sanitizer_start_switch_fiber(&from->fake, outside_stack, outside_bytes);
    else
        __sanitizer_start_switch_fiber(&from->fake, to->stack, STACK);
    emulator_switch_stack(&from->top, to->top);
    arrive(from->fake);
}

static void run_threads();

static fiber *new_fiber()
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *memory = mmap(nullptr, STACK + page, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0)
        emulator_fatal("no memory for a thread's stack");
    fiber *made = &fibers.emplace_back();
    made->stack = (char *)memory + page;
    made->top = emulator_new_stack(made->stack + STACK, run_threads);
    return made;
}

static fiber *rested()
{
    if (resting.empty())
        return new_fiber();
    fiber *last = resting.back();
    resting.pop_back();
    return last;
}

/* ---- scheduling ---- */

static thread *thread_of(unsigned number)
{
    return &threads[number];
}

/* Returns the number of the set bit of `mask` that follows bit `after`, cyclically, in the order of execution. `mask`
 * must not be 0. */
static unsigned next_bit(uint32_t mask, unsigned after)
{
    uint32_t behind = reversed ? mask & ((1u << after) - 1) : mask & ~((2u << after) - 1);
    uint32_t from = behind ? behind : mask;
    return reversed ? 31 - (unsigned)__builtin_clz(from) : (unsigned)__builtin_ctz(from);
}

static thread *begin(unsigned number)
{
    warps[number / WARP].ready &= ~(1u << number % WARP);
    return thread_of(number);
}

static void stuck(unsigned w)
{
    const warp &it = warps[w];
    uint32_t missing = it.present & ~it.arrived;
    unsigned lane = (unsigned)__builtin_ctz(missing);
    emulator_fatal("lane %u of warp %u is not in %s at %s:%d, where others of its warp wait: it has %s", lane, w,
                   it.what, it.file, it.line, it.ended >> lane & 1 ? "ended" : "gone into __syncthreads");
}

/* Releases the barrier; called when no thread can run. Aborts if a thread waits in a warp-wide call instead, or has
 * ended. */
static void release_barrier()
{
    for (unsigned w = 0; w < warp_count; w++)
        if (warps[w].arrived)
            stuck(w);
    if (ended)
        emulator_fatal("%u of %u threads ended while the others wait in __syncthreads at %s:%d", ended, thread_count,
                       barrier_file, barrier_line);
    for (unsigned w = 0; w < warp_count; w++)
        warps[w].ready = warps[w].present;
    waiting = 0;
    barrier_file = nullptr;
    gathered[++meeting % 2] = 0;
    shadow_barrier(warp_count);
}

/* Returns the thread to run next, or NULL if all threads have ended. After a failed assertion only the threads of the
 * same warp still run, until each of them has ended, waits for others or has failed too. */
static thread *choose(const emulator_thread *after)
{
    unsigned w = after->number / WARP;
    if (warps[w].ready)
        return begin(w * WARP + next_bit(warps[w].ready, after->number % WARP));
    if (emulator_broken != cudaSuccess)
        return nullptr;
    for (;;) {
        for (unsigned i = 1; i <= warp_count; i++) {
            unsigned other = (w + (reversed ? warp_count - i : i)) % warp_count;
            if (warps[other].ready)
                return begin(other * WARP + next_bit(warps[other].ready, reversed ? 0 : 31));
        }
        if (ended == thread_count)
            return nullptr;
        release_barrier();
    }
}

/* Switches from the fiber of a thread that must wait to the fiber of the next thread, or out of the grid if there is no
 * next thread. */
static void leave(thread *self)
{
    thread *next = choose(self);
    if (next == self) {
        emulator_self = self;
        return;
    }
    if (next && !next->on)
        next->on = rested();
    emulator_self = next;
    switch_to(self->on, next ? next->on : &outside);
}

/* Prints a line for each thread that fails, as a GPU does. The thread never continues. */
extern "C" void __assertfail(const char *condition, const char *file, unsigned line, const char *function, size_t)
{
    fprintf(stderr, "emulator: %s%s:%u: %s: assertion `%s` failed\n", emulator_where(), file, line, function,
            condition);
    emulator_broken = cudaErrorAssert;
    leave((thread *)emulator_self);
}

/* The function of a fiber: executes threads one after another. */
static void run_threads()
{
    arrive(nullptr);
    for (;;) {
        (*body)();
        thread *self = (thread *)emulator_self;
        fiber *mine = self->on;
        self->on = nullptr;
        warps[self->number / WARP].ended |= 1u << self->number % WARP;
        ended++;
        thread *next = choose(self);
        emulator_self = next;
        if (next && !next->on) {
            next->on = mine;
            continue;
        }
        resting.push_back(mine);
        switch_to(mine, next ? next->on : &outside);
    }
}

/* ---- synchronization ---- */

unsigned emulator_exchange_block(unsigned brought, const char *file, int line)
{
    thread *self = (thread *)emulator_self;
    unsigned mine = meeting;
    if (!barrier_file) {
        barrier_file = file;
        barrier_line = line;
    } else if (barrier_line != line || strcmp(barrier_file, file) != 0) {
        emulator_fatal("is in __syncthreads at %s:%d while others of its block wait in that at %s:%d", file, line,
                       barrier_file, barrier_line);
    }
    gathered[mine % 2] += brought;
    waiting++;
    leave(self);
    return gathered[mine % 2];
}

const unsigned char *emulator_exchange_warp(const char *what, unsigned mask, const void *brought, size_t bytes,
                                            const char *file, int line)
{
    thread *self = (thread *)emulator_self;
    warp *mine = &warps[self->number / WARP];
    unsigned lane = self->number % WARP, row = mine->meeting % 2;
    if (mask != 0xffffffffu)
        emulator_fatal("%s at %s:%d with the mask %08x: kernels here call it with the full one", what, file, line,
                       mask);
    if (mine->present != 0xffffffffu)
        emulator_fatal("%s at %s:%d in a warp that is not whole: the block has %u threads", what, file, line,
                       thread_count);
    if (mine->arrived && strcmp(mine->what, what) != 0)
        emulator_fatal("is in %s at %s:%d while others of its warp wait in %s at %s:%d", what, file, line, mine->what,
                       mine->file, mine->line);
    mine->what = what;
    mine->file = file;
    mine->line = line;
    if (bytes)
        memcpy(mine->slots[row][lane], brought, bytes);
    mine->arrived |= 1u << lane;
    if (mine->arrived == mine->present) {
        mine->arrived = 0;
        mine->meeting++;
        mine->ready = mine->present & ~(1u << lane);
        shadow_warp(self->number / WARP);
    } else {
        leave(self);
    }
    return mine->slots[row][0];
}

/* ---- blocks ---- */

static void set_up(dim3 block)
{
    ended = waiting = meeting = gathered[0] = gathered[1] = 0;
    barrier_file = nullptr;
    emulator_copies_forget();
    shadow_block(warp_count);
    for (unsigned w = 0; w < warp_count; w++) {
        unsigned lanes = thread_count - w * WARP;
        warps[w].present = lanes >= WARP ? 0xffffffffu : (1u << lanes) - 1;
        warps[w].ready = warps[w].present;
        warps[w].ended = warps[w].arrived = warps[w].meeting = 0;
    }
    for (unsigned i = 0; i < thread_count; i++) {
        threads[i].number = i;
        threads[i].index = { i % block.x, i / block.x % block.y, i / block.x / block.y };
    }
}

static void run_block(dim3 block, size_t shared)
{
    set_up(block);
    memset(shared_memory, 0xff, shared);
    memset(shared_memory + shared, MARK, MARGIN);
    ASAN_POISON_MEMORY_REGION(shared_memory + shared, sizeof shared_memory - shared);
    thread *first = begin(reversed ? thread_count - 1 : 0);
    first->on = rested();
    emulator_self = first;
    from_outside = true;
    switch_to(&outside, first->on);
    ASAN_UNPOISON_MEMORY_REGION(shared_memory, sizeof shared_memory);
    for (size_t i = shared; i < shared + MARGIN; i++)
        if (shared_memory[i] != MARK)
            emulator_fatal("kernel %s wrote behind its %zu bytes of shared memory", kernel_name, shared);
}

void emulator_run_grid(const char *name, dim3 grid, dim3 block, size_t shared, const std::function<void()> &thread)
{
    const char *order = getenv("CSPEED_EMULATOR_ORDER");
    uint64_t count = (uint64_t)grid.x * grid.y * grid.z;
    reversed = order && strcmp(order, "reverse") == 0;
    kernel_name = name;
    order_name(name);
    traffic_name(name);
    body = &thread;
    gridDim = grid;
    blockDim = block;
    thread_count = block.x * block.y * block.z;
    warp_count = (thread_count + WARP - 1) / WARP;
    for (uint64_t i = 0; i < count && emulator_broken == cudaSuccess; i++) {
        uint64_t number = reversed ? count - 1 - i : i;
        blockIdx = { (unsigned)(number % grid.x), (unsigned)(number / grid.x % grid.y),
                     (unsigned)(number / grid.x / grid.y) };
        run_block(block, shared);
    }
}
