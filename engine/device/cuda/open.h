/* open.h - what an open CUDA device is made of; for the C files beside it. */
#ifndef CS_DEVICE_CUDA_OPEN_H
#define CS_DEVICE_CUDA_OPEN_H

#include "device/cuda/cuda.h"

/* More than a step of many units records: what waits for an older one waits for a later one, which is true but late. */
enum { CS_CUDA_EVENTS = 4096 };

/* A stream's own: its events in a ring. */
typedef struct {
    cudaStream_t stream;
    cudaEvent_t events[CS_CUDA_EVENTS];
    uint32_t places[CS_CUDA_EVENTS]; /* of number i, from 1, at i % CS_CUDA_EVENTS; later ones take its place */
    uint64_t recorded;
} cs_cuda_lane;

typedef struct cs_cuda_products cs_cuda_products; /* matmul.c */
typedef struct cs_cuda_graphs cs_cuda_graphs;     /* graph.c  */

typedef struct {
    int number; /* of the GPU, among those this process may use */
    cs_cuda_facts facts;
    cs_cuda_lane lanes[CS_STREAM_ROLES]; /* by role */
    cs_cuda_products *products;
    struct cs_cudnn *cudnn; /* cudnn.c; NULL before the first attention that it may run */
    cs_cuda_graphs *graphs;
    void *memory[CS_CUDA_WORKSPACES];
    size_t bytes[CS_CUDA_WORKSPACES];
} cs_cuda;

static inline cs_cuda *cs_cuda_of(const cs_device *device)
{
    return (cs_cuda *)device->own;
}

/* ---- stream.c ---- */
cs_status cs_cuda_streams_open(cs_device *device);
void cs_cuda_streams_close(cs_device *device); /* accepts the half-open */
uint64_t cs_cuda_record(cs_stream *stream);
void cs_cuda_wait(cs_stream *stream, cs_event event);
void cs_cuda_sync(cs_stream *stream);
void cs_cuda_copy(cs_stream *stream, void *to, const void *from, size_t bytes);
void cs_cuda_call(cs_stream *stream, void (*call)(void *argument), void *argument);

/* ---- graph.c ---- */
cs_status cs_cuda_graphs_open(cs_device *device);
void cs_cuda_graphs_close(cs_device *device); /* accepts the half-open */
void cs_cuda_graph_begin(cs_device *device, uint64_t key);
void cs_cuda_graph_end(cs_device *device);
void cs_cuda_graph_forbid(void); /* due before the caller waits */
/* False: no graph is open, and it is the stream's own to do. */
bool cs_cuda_graph_records(const cs_stream *stream);
bool cs_cuda_graph_waits(const cs_stream *stream, cs_event event);

/* ---- memory.c ---- */
void *cs_cuda_alloc(cs_device *device, size_t bytes);
void cs_cuda_free(cs_device *device, void *memory, size_t bytes);
void *cs_cuda_alloc_pinned(cs_device *device, size_t bytes);
void cs_cuda_free_pinned(cs_device *device, void *memory, size_t bytes);
size_t cs_cuda_room(cs_device *device);

/* ---- matmul.c: cuBLASLt's one door ---- */
cs_status cs_cuda_products_open(cs_device *device, const cs_device_settings *settings);
void cs_cuda_products_close(cs_device *device); /* accepts the half-open */

/* ---- trial.cu: *digest, zero before, becomes a number that tells `count` 16-bit words from others; noise ---- */
#ifdef __cplusplus
extern "C" {
#endif
void cs_cuda_digest(cudaStream_t stream, uint64_t *digest, const void *data, int64_t count);
void cs_cuda_noise(cudaStream_t stream, void *data, cs_dtype dtype, int64_t count, uint64_t seed);
#ifdef __cplusplus
}
#endif

/* ---- ranges.c ---- */
void cs_cuda_enter(cs_device *device, const char *name);
void cs_cuda_leave(cs_device *device);

/* ---- report.c ---- */
cs_status cs_cuda_count(int *count);                 /* of the GPUs this process may use, at least one */
const char *cs_cuda_driver(char *text, size_t room); /* "driver 580.65.06", or what is known of it */
char *cs_cuda_report(void);

#endif
