/* device.h - a device: memory, streams, events, and measurements of the device's speed.
 *
 * A device runs operations in streams. Work in the compute stream runs in the order in which the caller gives it. The
 * comm stream is for transfers and collectives. On the CPU, a worker thread runs the calls of the comm stream if the
 * rank has more than one core; otherwise the caller runs these calls at once. In both cases collectives run in the same
 * order. Operations of state.h may also run in calls of the comm stream; operations of ops.h belong to the thread that
 * opened the device.
 *
 *     ce_stream_call(ce_device_stream(device, CE_COMM), gather, &job);
 *     ce_event done = ce_stream_record(comm);       ... compute something else ...
 *     ce_stream_wait(compute, done);                everything after this line sees the result of gather */
#ifndef CE_DEVICE_DEVICE_H
#define CE_DEVICE_DEVICE_H

#include "base/status.h"
#include "device/isa.h"

typedef struct cs_device cs_device;

/* CE_COMPUTE runs operations, and CE_COMM runs collectives. CE_COPY exists only on a device with its own memory: it
 * copies parameters and optimizer state between that memory and host memory while the other two streams work. */
typedef enum { CE_COMPUTE, CE_COMM, CE_COPY, CE_STREAM_ROLES } ce_stream_role;

typedef struct {
    const char *kind; /* the kind of device: "cpu", "cuda", "dry" (for plans of memory; computes nothing) or "auto" */
    /* number of threads of this rank; 0: OMP_NUM_THREADS if it is set, otherwise the number of cores of this process
     * divided by local_ranks */
    int threads;
    /* number of ranks that share the cores of this process; if it is more than 1, threads are not pinned */
    int local_ranks;
    int local_rank; /* this rank uses GPU number local_rank modulo the number of GPUs of this process */
    bool tf32;      /* tf32: whether a GPU may round fp32 factors of matrix products to TF32's 10 bits of mantissa */
} ce_device_settings;

/* Opens a device. Returns CS_NO_DEVICE, with a message, if the device does not exist. If local_ranks is at most 1 and
 * there is a core for each thread, the CPU device pins its threads, and the calling thread too, until the device is
 * closed. The dry device returns addresses that must not be accessed, counts memory and flops, and runs no operation,
 * call or task. */
cs_status ce_device_open(cs_device **device, const ce_device_settings *settings);
void ce_device_close(cs_device *device); /* accepts NULL */

const char *ce_device_kind(const cs_device *device);
const char *
ce_device_describe(const cs_device *device); /* e.g. "cpu: 1 thread, avx2; bf16 and fp16 are stored, fp32 computed" */
int ce_device_threads(const cs_device *device);
/* Returns whether a device of this kind is a GPU. "auto" means the device that ce_device_open would try first. */
bool ce_device_is_gpu(const char *kind);
/* Returns a number m. A matrix whose rows become the columns of a product, such as the weight of a language model's
 * head, should be padded with zero rows to a multiple of m. m is 1 on a CPU, and 128 on a GPU, where products with
 * other numbers of columns use slower kernels. "auto" means the device that ce_device_open would try first. */
int64_t ce_device_row_multiple(const char *kind);
/* Returns the greatest number of bytes of a large intermediate matrix that should exist at a time (cs_pass_chunk): 32
 * MB on a CPU, and 1 GiB on a GPU, whose products need more rows to be fast. "auto" means the device that
 * ce_device_open would try first. */
size_t ce_device_chunk_bytes(const char *kind);
/* Returns whether the device has its own memory, which only operations and ce_stream_copy can access. */
bool ce_device_has_own_memory(const cs_device *device);

/* Allocates memory that is zeroed and aligned to 64 bytes, in huge pages where the system grants them. If no memory is
 * left, ends the process with ce_fatal(CS_NO_MEMORY). */
void *ce_device_alloc(cs_device *device, size_t bytes);
void ce_device_free(cs_device *device, void *memory);
/* Allocates pinned host memory, which a device with its own memory reads and writes at full speed while it computes.
 * Pinned memory is counted separately and is freed by ce_device_free. On a device without its own memory, this function
 * is ce_device_alloc. */
void *ce_device_alloc_pinned(cs_device *device, size_t bytes);
/* Returns whether the address is in memory of ce_device_alloc that is not pinned host memory. */
bool ce_device_holds(cs_device *device, const void *memory);
/* Returns the bytes that are allocated now, including the workspace of kernels. */
size_t ce_device_allocated(const cs_device *device);
size_t ce_device_free_bytes(cs_device *device); /* returns the free bytes on the device; 0: the number is not known */
/* host_memory.c: returns the number of bytes of host memory that this process can still allocate, or 0 if it is not
 * known. If `pinned` is true, free swap is not counted, because pinned memory cannot be swapped. `root` is a prefix for
 * the paths of /proc and /sys; it is "" except in tests. */
size_t ce_host_free_bytes(const char *root, bool pinned);
/* Returns the bytes of the kernels' workspace, which ce_device_allocated includes. The workspace grows when a kernel
 * needs more than before. After the first step the workspace does not grow while the shapes of the steps stay the
 * same. */
size_t ce_device_workspace(const cs_device *device);

/* Begin and end a named range of the caller's time for the device's profiler, if the device has a profiler. Ranges may
 * be nested. */
void ce_device_enter(cs_device *device, const char *name);
void ce_device_leave(cs_device *device);

/* Returns the floating-point operations of matrix products and attention since the device was opened. A multiply-add
 * counts as two operations. */
double ce_device_flops(const cs_device *device);
/* Returns the part of ce_device_flops that computed gradients. */
double ce_device_gradient_flops(const cs_device *device);
/* Returns the greatest rate at which this rank computes matrix products of type `dtype`, in FLOP/s. The first call
 * measures the rate (about 50 to 100 ms). */
double ce_device_roof(cs_device *device, cs_dtype dtype);
/* Reports that a step has reached the rate `reached`, in FLOP/s. If the measured peak rate is lower than `reached`, the
 * peak rate is set to `reached`: other programs may have run during the measurement. Returns the peak rate. */
double ce_device_raise_roof(cs_device *device, cs_dtype dtype, double reached);

/* Returns the set of instructions that the kernels of a CPU use; CE_ISA_NONE for other devices. */
ce_isa ce_device_isa(const cs_device *device);
/* Makes an open CPU device use the set of instructions `isa` in its kernels and in oneDNN; `isa` is lower than the
 * present set of the device (isa.h). Must be called before the device computes: oneDNN accepts a limit only once in a
 * process, and only before oneDNN's first use. Fails with CS_UNSUPPORTED if oneDNN already uses a higher set, if the
 * CPU lacks the set `isa`, or if `isa` is higher than the present set. */
cs_status ce_device_lower_isa(cs_device *device, ce_isa isa);

typedef struct {
    uint64_t sequence;
    cs_stream *stream;
} ce_event;

cs_stream *ce_device_stream(cs_device *device, ce_stream_role role);
/* Puts a call into a stream: call(argument) runs after the earlier work of the stream. *argument must live until the
 * call has run. At most 64 calls may wait in a stream. */
void ce_stream_call(cs_stream *stream, void (*call)(void *argument), void *argument);
/* Returns an event that is complete when all work put into the stream so far is complete. */
ce_event ce_stream_record(cs_stream *stream);
void ce_stream_wait(cs_stream *stream, ce_event event); /* makes later work of the stream run after the event */
/* Orders two streams: work put into `later` from now on runs after all work put into `earlier` so far. */
void ce_stream_follow(cs_stream *later, cs_stream *earlier);
/* Blocks the caller until the event is complete; returns at once if the event is zero. */
void ce_event_wait(ce_event event);
void ce_stream_sync(cs_stream *stream); /* blocks the caller until all work put into the stream so far is complete */
/* Puts a copy of `bytes` bytes into the stream. Each address is in device memory or in host memory. The caller must
 * wait for the copy before it reads or changes the host memory. */
void ce_stream_copy(cs_stream *stream, void *to, const void *from, size_t bytes);
/* Copies from device memory to host memory, and waits for the copy. */
void ce_stream_fetch(cs_stream *stream, void *to, const void *from, size_t bytes);

/* Between ce_device_graph_begin and ce_device_graph_end the calling thread puts work into the compute stream and the
 * comm stream. The work must be the same each time the same key is used. A device with graphs (CUDA graphs) captures
 * the work when a key is used for the second time, and replays the work at each later use. The caller's code between
 * the two calls always runs; this code must not wait for the device or allocate device memory. On other devices the two
 * functions have no effect. One graph must not begin inside another. */
void ce_device_graph_begin(cs_device *device, uint64_t key);
void ce_device_graph_end(cs_device *device);
bool ce_device_has_graphs(const cs_device *device);

#endif
