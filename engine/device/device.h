/* device.h - where numbers live and move: memory, streams, events.
 *
 * A device runs operations in streams. The compute stream is the caller's own order; the comm stream
 * is for transfers and collectives, and on the CPU is a worker thread when the rank has more than one
 * core, else it runs at once in the caller. Same program, same order of collectives either way. Operations
 * on state may run in calls of the comm stream too; those of ops.h belong to the thread that opened the device.
 *
 *     cs_stream_call(cs_device_stream(device, CS_COMM), gather, &job);
 *     cs_event done = cs_stream_record(comm);       ... compute something else ...
 *     cs_stream_wait(compute, done);                 everything after sees gather's result
 */
#ifndef CS_DEVICE_DEVICE_H
#define CS_DEVICE_DEVICE_H

#include "base/status.h"

typedef struct cs_device cs_device;

/* CS_COPY, of a far device alone: copies of the state beside both others. */
typedef enum { CS_COMPUTE, CS_COMM, CS_COPY, CS_STREAM_ROLES } cs_stream_role;

typedef struct {
    const char *kind; /* "cpu", "dry" (computes nothing; for plans), "cuda", "auto"                        */
    int threads;      /* of the rank; 0: OMP_NUM_THREADS, else the cores this process may use / local_ranks */
    int local_ranks;  /* that share those cores; 1 where each rank was given its own. More than 1: no pinning */
    int local_rank;   /* which of the GPUs this process may use, modulo their number                       */
    bool tf32;        /* a GPU's products may round fp32 factors to TF32's 10 bits of mantissa             */
} cs_device_settings;

/* CS_NO_DEVICE with a sentence when the kind cannot be had here. The CPU pins its threads, the calling one among
 * them until the device is closed, when it has a core for each. The dry device hands out addresses that nobody may
 * touch, counts memory and flops, and runs neither operations nor calls nor tasks. */
cs_status cs_device_open(cs_device **device, const cs_device_settings *settings);
void cs_device_close(cs_device *device); /* accepts NULL */

const char *cs_device_kind(const cs_device *device);
const char *
cs_device_describe(const cs_device *device); /* "cpu: 1 thread, AVX2; bf16 and fp16 are stored, fp32 computed" */
int cs_device_threads(const cs_device *device);
/* A device of this kind ("cpu", "cuda", "auto") is to hold matrices whose rows are the columns of a product with zero
 * rows behind, up to a multiple of so many: 128 of a GPU, where rows of other lengths take a product's slow kernels;
 * 1 of a CPU. "auto" is what cs_device_open would take here, were it able to. */
int64_t cs_device_row_multiple(const char *kind);
/* Only operations and cs_stream_copy reach a far device's memory; the program's own code does not. */
bool cs_device_has_own_memory(const cs_device *device);

/* Zeroed, aligned to 64 bytes, from huge pages where the system grants them. Fails with cs_fatal(CS_NO_MEMORY). */
void *cs_device_alloc(cs_device *device, size_t bytes);
void cs_device_free(cs_device *device, void *memory);
/* The same of host memory that a far device reads and writes at full speed, and beside its computing; counted apart,
 * freed by cs_device_free too. Of a device that is not far it is plain memory of the device. */
void *cs_device_alloc_pinned(cs_device *device, size_t bytes);
/* Whether an address lies in memory of cs_device_alloc: of the device's own, not the host's. */
bool cs_device_holds(cs_device *device, const void *memory);
size_t cs_device_allocated(const cs_device *device); /* bytes held now, workspace of the kernels included */
size_t cs_device_room(cs_device *device);            /* bytes that are free on it now; 0: not known              */
size_t cs_device_workspace(const cs_device *device); /* the kernels' own part of that; settled after one step */

/* A named range of the caller's time, for the profiler of a device that has one; they nest. */
void cs_device_enter(cs_device *device, const char *name);
void cs_device_leave(cs_device *device);

/* Multiply-adds counted by the matrix products and attention since the device was opened, times two. */
double cs_device_flops(const cs_device *device);
/* The matrix roof of this rank in FLOP/s at `dtype`, measured on the first call (some 50 ms). */
double cs_device_roof(cs_device *device, cs_dtype dtype);
/* A step has reached this many FLOP/s. A measurement while other programs ran may have found less: then the roof is
 * this from now on. Returns the roof, as above. */
double cs_device_raise_roof(cs_device *device, cs_dtype dtype, double reached);

/* A CPU multiplies bf16 matrices either as they are, by instructions of its own that add in fp32 (native), or as fp32
 * copies, as it does until it is told otherwise. The two round differently. Another device has no such choice: it
 * is never native, the gain is 0, and setting it does nothing. */
bool cs_device_native(const cs_device *device);
bool cs_device_has_native(cs_device *device); /* the matrix library has more than its reference loops for it here */
/* How many times as fast native products are; 0 where cs_device_has_native says no. Measured once a process, on the
 * first call (some 20 ms). */
double cs_device_native_gain(cs_device *device);
/* False, and nothing is changed, where the matrix library has no bf16 products at all on this CPU. */
bool cs_device_set_native(cs_device *device, bool native);

typedef struct {
    uint64_t sequence;
    cs_stream *stream;
} cs_event;

cs_stream *cs_device_stream(cs_device *device, cs_stream_role role);
/* Runs call(argument) in the stream's order; *argument must live until then. At most 64 calls may wait. */
void cs_stream_call(cs_stream *stream, void (*call)(void *argument), void *argument);
cs_event cs_stream_record(cs_stream *stream);           /* done when all given so far is done      */
void cs_stream_wait(cs_stream *stream, cs_event event); /* the stream goes on after the event      */
void cs_event_wait(cs_event event);                     /* the caller does; at once if it is zero    */
void cs_stream_sync(cs_stream *stream);                 /* the caller goes on after all given so far */
/* In the stream's order, between memory of the device, of the host, or both. Host memory must stay as it is, and may
 * not be read, until the caller has waited for it. */
void cs_stream_copy(cs_stream *stream, void *to, const void *from, size_t bytes);
/* The same to host memory, waited for. */
void cs_stream_fetch(cs_stream *stream, void *to, const void *from, size_t bytes);

/* Between the two the calling thread gives both streams what it always gives them under this key. A device that has
 * graphs captures it when a key comes back, and is from then on given it as one; the caller's code runs all the same,
 * and may neither wait for the device nor take memory of it in between. On others they do nothing. They do not nest. */
void cs_device_graph_begin(cs_device *device, uint64_t key);
void cs_device_graph_end(cs_device *device);
bool cs_device_has_graphs(const cs_device *device);

#endif
