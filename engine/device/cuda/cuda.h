/* cuda.h - the CUDA device's own: its streams, its memory, and the kernels' signatures; for the files beside it and
 * comm/nccl.c.
 *
 * Every operation is put into a stream and the caller goes on; nothing of a step allocates or waits, but where the host
 * wants a number (cs_stream_sync). Calls of the comm stream (cs_stream_call) run at once in the caller: what they put
 * into the comm stream is what is ordered. What an error code says is fatal, with file and line. */
#ifndef CS_DEVICE_CUDA_H
#define CS_DEVICE_CUDA_H

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "base/must.h"
#include "device/table.h"

/* A call of the CUDA runtime that must succeed. */
#define CS_CUDA(call) cs_cuda_check((call), #call, __FILE__, __LINE__)
void cs_cuda_check(cudaError_t error, const char *call, const char *file, int line);

/* Uses of workspace that may be alive at the same time. Memory that a kernel needs beside its tensors; it settles in
 * the first step. Valid until the next request for the same use, in the order of the stream that asks. */
typedef enum {
    CS_CUDA_PRODUCT,   /* cuBLASLt's                                   */
    CS_CUDA_REDUCTION, /* partial sums of weight gradients             */
    CS_CUDA_SORT,      /* of an embedding's tokens                     */
    CS_CUDA_ATTENTION, /* backward's row sums; cuDNN's                 */
    CS_CUDA_WORKSPACES
} cs_cuda_use;
void *cs_cuda_workspace(cs_device *device, cs_cuda_use use, size_t bytes);

typedef struct {
    int major, minor; /* compute capability */
    int processors;   /* multiprocessors    */
    int shared;       /* bytes of shared memory that a block may have */
} cs_cuda_facts;

cudaStream_t cs_cuda_stream(const cs_stream *stream);
cudaStream_t cs_cuda_compute(cs_device *device); /* the compute stream, in which models' operations work */
const cs_cuda_facts *cs_cuda_facts_of(const cs_device *device);

/* Asked before anything is put into a stream; cs_launch and cs_stream_copy ask themselves. True: it is left out, as a
 * graph does it that is being replayed. `what` tells it from other things that may be put in. */
bool cs_cuda_replays(uint64_t what);
/* What graphs there are go: memory that they use, or a communicator that they were captured in, is about to. */
void cs_cuda_graphs_drop(cs_device *device);
/* Sets bytes to zero in the compute stream. */
void cs_cuda_clear(cs_device *device, void *memory, size_t bytes);
/* Whether the stream has something left to do, for other threads than the device's own. */
bool cs_cuda_is_busy(const cs_stream *stream);

/* ---- the kernels ---- */
#define OPERATION(name, parameters) void cs_cuda_##name parameters;
#include "device/ops_list.h"

double cs_cuda_roof(cs_device *device, cs_dtype dtype);
/* Forward, or backward where dqkv is there, by cuDNN. False, and nothing is done: it does not run that. Both are absent,
 * so NULL, where this was built without cuDNN's header. */
bool cs_cudnn_attention(cs_device *device, const cs_attention_args *attention) __attribute__((weak));
void cs_cudnn_close(cs_device *device) __attribute__((weak));

#ifdef __cplusplus
}
#endif
#endif
