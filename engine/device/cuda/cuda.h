/* cuda.h - the internal header of the CUDA device: streams, workspace, and the host functions that launch kernels. This
 * folder and comm/device/nccl.c include it.
 *
 * Operations are asynchronous: a call puts the operation into a stream and returns at once. A training step allocates
 * nothing and does not wait, except where the host needs a number (ce_stream_sync). ce_stream_call on the comm stream
 * calls the given function at once in the caller's thread; that function puts its work into the comm stream. CUDA
 * errors are fatal and are reported with file and line. */
#ifndef CE_DEVICE_CUDA_CUDA_H
#define CE_DEVICE_CUDA_CUDA_H

#include <cuda_runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "base/must.h"
#include "device/table.h"

/* Returns whether kernels can copy 16 bytes at once from or to this address. */
static inline bool ce_is_aligned(const void *address)
{
    return (uintptr_t)address % 16 == 0;
}

/* Checks a call of the CUDA runtime; an error is fatal. */
#define CE_CUDA(call) ce_cuda_check((call), #call, __FILE__, __LINE__)
void ce_cuda_check(cudaError_t error, const char *call, const char *file, int line);

/* The uses of workspaces. A workspace is device memory that kernels need besides their tensors. Uses that may be needed
 * at the same time have separate workspaces. After the first step the sizes do not change. */
typedef enum {
    CE_CUDA_PRODUCT,   /* cuBLASLt's workspace */
    CE_CUDA_REDUCTION, /* partial sums of weight gradients */
    CE_CUDA_SORT,      /* the sorted tokens of the backward of an embedding; the sort of slots in route.cu */
    CE_CUDA_ATTENTION, /* the row sums (delta) of attention backward; partial results of extend.cu; cuDNN's workspace */
    CE_CUDA_WORKSPACES
} ce_cuda_use;
/* Returns at least `bytes` bytes of device memory, which is valid until the next request for the same use, in stream
 * order. */
void *ce_cuda_workspace(cs_device *device, ce_cuda_use use, size_t bytes);

typedef struct {
    int major, minor; /* the GPU's compute capability */
    int processors;   /* number of streaming multiprocessors */
    int shared;       /* bytes of shared memory that a block may request */
} ce_cuda_facts;

cudaStream_t ce_cuda_stream(const cs_stream *stream);
cudaStream_t ce_cuda_compute(cs_device *device); /* returns the compute stream, which runs the operations of models */
const ce_cuda_facts *ce_cuda_facts_of(const cs_device *device);

/* Must be called before an operation is put into a stream; ce_launch and ce_stream_copy call this function themselves.
 * If the function returns true, the caller must skip the operation, because a CUDA graph that contains the operation is
 * being replayed. `what` is a hash that identifies the operation. */
bool ce_cuda_replays(uint64_t what);
/* Destroys all captured CUDA graphs. Must be called before memory or a communicator is freed that the graphs use. */
void ce_cuda_graphs_drop(cs_device *device);
/* Sets `bytes` bytes to zero in the compute stream. */
void ce_cuda_clear(cs_device *device, void *memory, size_t bytes);
/* Returns whether the stream has unfinished work; returns false while a graph is captured (graph.c). Any thread may
 * call this function. */
bool ce_cuda_is_busy(const cs_stream *stream);

/* ---- operations: the functions of the device table; device/table.h documents them ---- */
#define OPERATION(name, parameters) void ce_cuda_##name parameters;
#include "device/ops_list.h"

double ce_cuda_roof(cs_device *device, cs_dtype dtype);
/* ce_cudnn_attention computes attention by cuDNN: backward if dqkv is present, otherwise forward. It returns false, and
 * does nothing, if cuDNN cannot compute this attention. ce_cudnn_close frees the state of cuDNN. Both are weak symbols:
 * their addresses are NULL if the module was built without cuDNN's header. */
bool ce_cudnn_attention(cs_device *device, const ce_attention_args *attention) __attribute__((weak));
void ce_cudnn_close(cs_device *device) __attribute__((weak));

#ifdef __cplusplus
}
#endif
#endif
