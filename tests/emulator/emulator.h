/* emulator.h - what the emulator's files share: device memory, streams, running a block, and ending with a sentence. */
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

/* Of the GPU that is emulated: an A100's limits, the smallest that must do. */
enum {
    EMULATOR_BLOCK_THREADS = 1024,
    EMULATOR_SHARED = 48 * 1024,       /* without asking */
    EMULATOR_SHARED_MOST = 163 * 1024, /* after asking   */
    EMULATOR_PROCESSOR_SHARED = 164 * 1024
};
constexpr size_t EMULATOR_RESERVED = (size_t)1 << 40; /* addresses of device memory */

[[noreturn]] void emulator_fatal(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* One thread is in the emulator at a time. What waits for another process lets others in meanwhile. */
extern std::recursive_mutex emulator_lock;
using emulator_guard = std::lock_guard<std::recursive_mutex>;

cudaError_t emulator_fail(cudaError_t error); /* keeps it for cudaGetLastError */

/* Not cudaSuccess: a kernel has failed, nothing runs on the device any more, and each call that concerns its memory or
 * its streams returns this. */
extern cudaError_t emulator_broken;

/* True in a process that was forked from one that has called the runtime: CUDA does not survive a fork, and every call
 * there fails with cudaErrorInitializationError. */
bool emulator_is_forked();

/* ---- memory.cc ---- */

/* Device memory can be touched while one of these lives. */
struct emulator_open {
    emulator_open();
    ~emulator_open();
};
bool emulator_is_device(const void *pointer);
bool emulator_is_pageable(const void *pointer);
const char *emulator_device_base(); /* the first of EMULATOR_RESERVED addresses */
/* The start and the size of the block of device memory that the pointer is in; NULL: it is in none. */
const char *emulator_block_of(const void *pointer, size_t *bytes);
/* Ends the process unless [pointer, pointer + bytes) is host memory, or of one block of the device's. */
void emulator_check_range(const char *what, const void *pointer, size_t bytes);
/* Copies bytes that the address sanitizer may hold to be forbidden. */
void emulator_move(void *to, const void *from, size_t bytes);
/* The host may not look at it, or may again. Device memory is passed over. */
void emulator_hide(const void *memory, size_t bytes);
void emulator_show(const void *memory, size_t bytes);

/* For tests: the most bytes that cudaHostAlloc had given out at a time. */
extern "C" uint64_t emulator_pinned_max();

/* ---- stream.cc ---- */

struct emulator_capture;

/* Where in a capture a stream stands, or an event was recorded. */
struct emulator_place {
    std::shared_ptr<emulator_capture> capture; /* empty: in none                   */
    std::set<size_t> tips;                     /* nodes that the next comes after */
};

/* How many operations of each stream, by its number, come before something. */
using emulator_clock = std::vector<uint64_t>;

struct emulator_stream {
    unsigned number = 0;
    emulator_clock clock;          /* of what is given to it next */
    bool waits_for_legacy = false; /* created without cudaStreamNonBlocking */
    std::deque<std::function<void()>> items;
    uint64_t given = 0, done = 0;
    bool running = false;
    emulator_place place;
};
using emulator_queue = std::shared_ptr<emulator_stream>;

emulator_queue emulator_stream_of(cudaStream_t stream); /* empty: no stream */
cudaError_t emulator_enqueue(cudaStream_t stream, std::function<void()> item);
void emulator_run_all();
/* For tests, who find the two by name: items in all queues, and how often the host had to wait for a stream, an event, a
 * copy or the device, with something still to do. */
extern "C" uint64_t emulator_waiting();
extern "C" uint64_t emulator_host_waits;
/* For tests: cudaMemcpyAsync from or to pageable memory of the host, which the real one makes the host wait for. */
extern "C" uint64_t emulator_pageable_copies;
/* While an item waits for another process: lets others in, a moment long. */
void emulator_pause();

/* ---- order.cc ---- */

extern emulator_clock emulator_host_clock; /* of what the host has waited for */
void emulator_join(emulator_clock &into, const emulator_clock &from);
/* The item, which is given to the stream now, so that its accesses can be compared with those of other operations. */
std::function<void()> emulator_ordered(emulator_stream &queue, std::function<void()> item);
/* A graph's node begins; before: the nodes that come before it by the graph's edges. */
void emulator_order_node(size_t node, const std::vector<bool> *before);

/* ---- graph.cc ---- */

cudaError_t emulator_capture_add(emulator_place &place, std::function<void()> item);
cudaError_t emulator_capture_wait(const emulator_queue &queue, const emulator_place &event, bool recorded);
/* An error where this thread's capture forbids what is about to be done, or the one that the stream takes part in. */
cudaError_t emulator_capture_forbids(const emulator_queue &touched);
/* The same for work that is put into the legacy stream. Stricter than the real one, which runs it outside of the graph
 * where this thread captures only streams made with cudaStreamNonBlocking. */
cudaError_t emulator_capture_forbids_legacy();

/* For tests: kernels that were launched one by one, and graphs. */
extern "C" uint64_t emulator_kernels_launched(), emulator_graphs_launched();

/* ---- blas.cc ---- */

/* For tests: multiply-adds of all products, and of those some matrix of which has rows that are not aligned to 16
 * bytes, for which the real cuBLASLt takes slower kernels. */
extern "C" uint64_t emulator_multiply_adds, emulator_unaligned_multiply_adds;

/* ---- kernels.cc ---- */

struct emulator_kernel {
    std::string name;
    size_t static_bytes; /* of shared memory */
    unsigned threads;    /* a block, of the greatest launch so far */
    size_t dynamic_bytes;
};
emulator_kernel &emulator_kernel_of(const void *kernel);
void emulator_note_launch(emulator_kernel &kernel, unsigned threads, size_t dynamic_bytes);

/* ---- block.cc ---- */

void emulator_run_grid(const char *name, dim3 grid, dim3 block, size_t shared, const std::function<void()> &thread);
/* In a kernel: "kernel NAME, block (0, 0, 0), thread (3, 0, 0)"; outside "". */
const char *emulator_where();

/* ---- background.cc ---- */

void emulator_copies_forget(); /* a block begins */

#endif
