/* open.h - the state of an open CUDA device; internal to the C files of this folder. */
#ifndef CE_DEVICE_CUDA_OPEN_H
#define CE_DEVICE_CUDA_OPEN_H

#include "device/cuda/cuda.h"

/* The number of events in a stream's ring. Even a step with many units records fewer events. If the ring has
 * overwritten an event, a wait for this event waits for a later event of the same stream; this is correct but takes
 * longer than necessary. */
enum { CE_CUDA_EVENTS = 4096 };

/* A CUDA stream with a ring of events. */
typedef struct {
    cudaStream_t stream;
    cudaEvent_t events[CE_CUDA_EVENTS];
    /* places[i % CE_CUDA_EVENTS] is the index in `events` of event number i, counted from 1 */
    uint32_t places[CE_CUDA_EVENTS];
    uint64_t recorded; /* number of events recorded so far */
} ce_cuda_lane;

typedef struct ce_cuda_products ce_cuda_products; /* defined in product.h */
typedef struct ce_cuda_graphs ce_cuda_graphs;     /* defined in graph.c */

typedef struct {
    int number; /* index of the GPU among the GPUs visible to this process */
    ce_cuda_facts facts;
    ce_cuda_lane lanes[CE_STREAM_ROLES]; /* the index is a ce_stream_role */
    ce_cuda_products *products;
    struct ce_cudnn *cudnn; /* the state of cudnn.c; NULL before the first attention that cuDNN may run */
    ce_cuda_graphs *graphs;
    void *memory[CE_CUDA_WORKSPACES]; /* the workspaces; the index is a ce_cuda_use */
    size_t bytes[CE_CUDA_WORKSPACES];
} ce_cuda;

static inline ce_cuda *ce_cuda_of(const cs_device *device)
{
    return (ce_cuda *)device->private_data;
}

/* ---- stream.c ---- */
cs_status ce_cuda_streams_open(cs_device *device);
void ce_cuda_streams_close(cs_device *device); /* must also be called if ce_cuda_streams_open failed */
uint64_t ce_cuda_record(cs_stream *stream);
void ce_cuda_wait(cs_stream *stream, ce_event event);
void ce_cuda_sync(cs_stream *stream);
void ce_cuda_copy(cs_stream *stream, void *to, const void *from, size_t bytes);
void ce_cuda_call(cs_stream *stream, void (*call)(void *argument), void *argument);

/* ---- graph.c ---- */
cs_status ce_cuda_graphs_open(cs_device *device);
void ce_cuda_graphs_close(cs_device *device); /* must also be called if ce_cuda_graphs_open failed */
void ce_cuda_graph_begin(cs_device *device, uint64_t key);
void ce_cuda_graph_end(cs_device *device);
/* Ends the process with an error if a graph is open; to be called before the host waits for the device. */
void ce_cuda_graph_forbid(void);
/* ce_cuda_graph_records records an event inside the open graph; ce_cuda_graph_waits waits for an event inside the open
 * graph. If this thread has no open graph, both functions return false, and the caller must record or wait itself. */
bool ce_cuda_graph_records(const cs_stream *stream);
bool ce_cuda_graph_waits(const cs_stream *stream, ce_event event);

/* ---- memory.c ---- */
void *ce_cuda_alloc(cs_device *device, size_t bytes);
void ce_cuda_free(cs_device *device, void *memory, size_t bytes);
void *ce_cuda_alloc_pinned(cs_device *device, size_t bytes);
void ce_cuda_free_pinned(cs_device *device, void *memory, size_t bytes);
size_t ce_cuda_free_bytes(cs_device *device);

/* ---- matmul.c: matrix products by cuBLASLt ---- */
cs_status ce_cuda_products_open(cs_device *device, const ce_device_settings *settings);
void ce_cuda_products_close(cs_device *device); /* must also be called if ce_cuda_products_open failed */

/* ---- trial.cu: test data and checksums for tuning matrix products ---- */
#ifdef __cplusplus
extern "C" {
#endif
/* Adds a checksum of `count` 16-bit words to *digest, which is in device memory. */
void ce_cuda_digest(cudaStream_t stream, uint64_t *digest, const void *data, int64_t count);
/* Fills `data` with uniform random numbers between -1/2 and 1/2. */
void ce_cuda_noise(cudaStream_t stream, void *data, cs_dtype dtype, int64_t count, uint64_t seed);
#ifdef __cplusplus
}
#endif

/* ---- ranges.c: NVTX ranges for profilers ---- */
void ce_cuda_enter(cs_device *device, const char *name);
void ce_cuda_leave(cs_device *device);

/* ---- report.c ---- */
/* Sets *count to the number of GPUs visible to this process; fails with a message if there is no GPU. */
cs_status ce_cuda_count(int *count);
const char *ce_cuda_driver(
    char *text,
    size_t
        capacity); /* writes "driver 580.65.06" to `text`, or a phrase if the version is unknown, and returns `text` */
/* Returns a text about GPUs, driver and libraries, with one fact in each line, or NULL if there is no memory. The
 * caller frees the text. */
char *ce_cuda_report(void);

#endif
