/* emulator.h - internal header of the CUDA emulator: device memory, streams, execution of blocks, fatal errors.
 *
 * CSPEED_CUDA_MODULE=PATH makes a program open the emulated module. These variables change the emulator:
 *
 *     CSPEED_EMULATOR_DEVICES         number of emulated GPUs (1)
 *     CSPEED_EMULATOR_PROCESSORS      multiprocessors of one GPU (4)
 *     CSPEED_EMULATOR_MEMORY          bytes of memory of one GPU
 *     CSPEED_EMULATOR_ORDER=reverse   blocks run from the last to the first, captured operations as late as their graph
 *                                     allows, and streams for which nothing waits run first
 *     CSPEED_EMULATOR_EAGER=1         operations run as soon as they are put into a stream
 *     CSPEED_EMULATOR_LAUNCHES=FILE   the largest launch of each kernel is written to FILE */
#ifndef CS_EMULATOR_EMULATOR_H
#define CS_EMULATOR_EMULATOR_H

#include <cuda_runtime.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define EMULATOR_SANITIZED
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) ((void)(memory), (void)(bytes))
#endif

/* Limits of the emulated GPU: those of an A100, the smallest of the GPUs that kernels must run on. */
enum {
    EMULATOR_BLOCK_THREADS = 1024,
    EMULATOR_SHARED = 48 * 1024,      /* bytes of shared memory of a block if the kernel has requested none */
    EMULATOR_SHARED_MAX = 163 * 1024, /* the maximum of bytes that a kernel may request */
    EMULATOR_PROCESSOR_SHARED = 164 * 1024
};
constexpr size_t EMULATOR_RESERVED = (size_t)1 << 40; /* bytes of address space reserved for device memory */

/* Prints a message and aborts the process. */
[[noreturn]] void emulator_fatal(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Held while a thread executes code of the emulator. An operation that waits for another process releases the lock
 * meanwhile. */
extern std::recursive_mutex emulator_lock;
using emulator_guard = std::lock_guard<std::recursive_mutex>;

cudaError_t emulator_fail(cudaError_t error); /* stores the error for cudaGetLastError and returns it */

/* A value other than cudaSuccess means that a kernel has failed. Then nothing runs on the device any more, and each
 * call that uses the device's memory or streams returns the value. */
extern cudaError_t emulator_broken;

/* Returns true in a process that was forked after its parent had called the runtime. CUDA does not survive a fork:
 * every call in such a process fails with cudaErrorInitializationError. */
bool emulator_is_forked();

/* ---- memory.cc ---- */

/* The host can access device memory while an object of this type exists. */
struct emulator_open {
    emulator_open();
    ~emulator_open();
};
bool emulator_is_device(const void *pointer);
bool emulator_is_pageable(const void *pointer);
const char *emulator_device_base(); /* the first of EMULATOR_RESERVED addresses */
/* Returns the start and the size of the block of device memory that contains the pointer, or NULL if no block contains
 * it. */
const char *emulator_block_of(const void *pointer, size_t *bytes);
/* Aborts unless [pointer, pointer + bytes) is host memory or is inside one block of device memory. */
void emulator_check_range(const char *what, const void *pointer, size_t bytes);
/* Copies bytes that AddressSanitizer may consider poisoned. */
void emulator_move(void *to, const void *from, size_t bytes);
/* Forbids (hide) or allows (show) the host to access host memory; device memory is ignored. */
void emulator_hide(const void *memory, size_t bytes);
void emulator_show(const void *memory, size_t bytes);

/* For tests: the highest number of bytes of cudaHostAlloc that were allocated at the same time. */
extern "C" uint64_t emulator_pinned_max();

/* ---- stream.cc ---- */

struct emulator_capture;

/* The position of a stream, or of a recorded event, in a capture. */
struct emulator_place {
    std::shared_ptr<emulator_capture> capture; /* empty: not in a capture */
    std::set<size_t> tips;                     /* nodes that must precede the next node */
};

/* A vector clock: for each stream, by its number, how many of its operations precede the operation or event that has
 * the clock. */
using emulator_clock = std::vector<uint64_t>;

struct emulator_stream {
    unsigned number = 0;
    emulator_clock clock;          /* the next operation that is put into the stream gets this clock */
    bool waits_for_legacy = false; /* created without cudaStreamNonBlocking */
    std::deque<std::function<void()>> items;
    uint64_t given = 0, done = 0;
    bool running = false;
    emulator_place place;
};
using emulator_queue = std::shared_ptr<emulator_stream>;

emulator_queue emulator_stream_of(cudaStream_t stream); /* returns an empty pointer if there is no such stream */
cudaError_t emulator_enqueue(cudaStream_t stream, std::function<void()> item);
void emulator_run_all();
/* For tests, which find the two counters by name with dlsym. emulator_waiting: the number of unfinished items in all
 * queues. emulator_host_waits: how often the host waited for a stream, an event, a copy or the device that had
 * unfinished work. */
extern "C" uint64_t emulator_waiting();
extern "C" uint64_t emulator_host_waits;
/* For tests: the number of calls of cudaMemcpyAsync from or to pageable host memory, for which a real runtime makes the
 * host wait. */
extern "C" uint64_t emulator_pageable_copies;
/* Releases the lock for a moment, while an item waits for another process. */
void emulator_pause();

/* ---- order.cc ---- */

extern emulator_clock emulator_host_clock; /* counts the operations that the host has waited for */
void emulator_join(emulator_clock &into, const emulator_clock &from);
/* Wraps an item that is put into the stream now, so that its memory accesses can be compared with those of other
 * operations. */
std::function<void()> emulator_ordered(emulator_stream &queue, std::function<void()> item);
/* Notes that node number `node` of a graph begins. before[i] says whether the graph's edges order node i before it. */
void emulator_order_node(size_t node, const std::vector<bool> *before);

/* ---- graph.cc ---- */

cudaError_t emulator_capture_add(emulator_place &place, std::function<void()> item);
cudaError_t emulator_capture_wait(const emulator_queue &queue, const emulator_place &event, bool recorded);
/* Returns an error if the next operation is forbidden by this thread's capture or by the capture that the stream is
 * in. */
cudaError_t emulator_capture_forbids(const emulator_queue &touched);
/* Returns an error if a capture forbids work in the legacy stream. The emulator is stricter than a real runtime. If
 * this thread captures only streams that were made with cudaStreamNonBlocking, a real runtime runs the work outside of
 * the graph. */
cudaError_t emulator_capture_forbids_legacy();

/* For tests: the number of kernels launched outside of graphs, and the number of graphs launched. */
extern "C" uint64_t emulator_kernels_launched(), emulator_graphs_launched();

/* ---- blas.cc ---- */

/* For tests: multiply-adds of all products, and multiply-adds of the products that have a matrix whose rows are not
 * aligned to 16 bytes. cuBLASLt uses slower kernels for these products. */
extern "C" uint64_t emulator_multiply_adds, emulator_unaligned_multiply_adds;

/* ---- kernels.cc ---- */

struct emulator_kernel {
    std::string name;
    size_t static_bytes; /* bytes of static shared memory */
    unsigned threads;    /* threads of a block in the largest launch so far */
    size_t dynamic_bytes;
};
emulator_kernel &emulator_kernel_of(const void *kernel);
void emulator_note_launch(emulator_kernel &kernel, unsigned threads, size_t dynamic_bytes);

/* ---- block.cc ---- */

void emulator_run_grid(const char *name, dim3 grid, dim3 block, size_t shared, const std::function<void()> &thread);
/* Returns "kernel NAME, block (0, 0, 0), thread (3, 0, 0): " inside a kernel, and "" outside. */
const char *emulator_where();

/* ---- background.cc ---- */

void emulator_copies_forget(); /* forgets asynchronous copies; called when a block begins */

#endif
