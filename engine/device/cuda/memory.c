/* memory.c - device memory, pinned host memory, the kernels' workspace, and the check of CUDA errors. */
#include "device/cuda/open.h"

#include <string.h>

/* Returns advice for an error message. An error inside a kernel is reported by a later call, so an earlier operation
 * may be the cause. */
static const char *advice(cudaError_t error)
{
    if (error >= cudaErrorStreamCaptureUnsupported && error <= cudaErrorStreamCaptureWrongThread)
        return "; it cannot be captured in a graph: set cspeed.cuda_graphs to false";
    if (error < cudaErrorIllegalAddress || error > cudaErrorLaunchFailure)
        return "";
    return "; the error was noticed here, but an earlier operation may have caused it: CUDA_LAUNCH_BLOCKING=1 shows "
           "which";
}

void ce_cuda_check(cudaError_t error, const char *call, const char *file, int line)
{
    if (error != cudaSuccess)
        ce_fatal(error == cudaErrorMemoryAllocation ? CS_NO_MEMORY : CS_NO_DEVICE, "%s:%d: %s: %s (%s)%s",
                 basename(file), line, call, cudaGetErrorString(error), cudaGetErrorName(error), advice(error));
}

/* Returns true for success, and false if the error says that there is no memory. Other errors are fatal. */
static bool is_given(cudaError_t error, const char *call, int line)
{
    if (error == cudaErrorMemoryAllocation) {
        (void)cudaGetLastError();
        return false;
    }
    ce_cuda_check(error, call, __FILE__, line);
    return true;
}

/* Returns zeroed device memory, or NULL if no memory is left. For 0 bytes the function allocates 1 byte, so that each
 * block has its own address. The memory is zeroed in the compute stream. The function waits until the memory is zeroed,
 * because the next user of the memory may be any stream. */
void *ce_cuda_alloc(cs_device *device, size_t bytes)
{
    void *memory = NULL;
    /* set in each call, because each thread has its own current device */
    CE_CUDA(cudaSetDevice(ce_cuda_of(device)->number));
    if (!is_given(cudaMalloc(&memory, bytes ? bytes : 1), "cudaMalloc", __LINE__))
        return NULL;
    if (bytes) {
        CE_CUDA(cudaMemsetAsync(memory, 0, bytes, ce_cuda_compute(device)));
        CE_CUDA(cudaStreamSynchronize(ce_cuda_compute(device)));
    }
    return memory;
}

void ce_cuda_free(cs_device *device, void *memory, size_t bytes)
{
    (void)device;
    (void)bytes;
    CE_CUDA(cudaFree(memory));
}

void *ce_cuda_alloc_pinned(cs_device *device, size_t bytes)
{
    void *memory = NULL;
    CE_CUDA(cudaSetDevice(ce_cuda_of(device)->number));
    if (!is_given(cudaHostAlloc(&memory, bytes ? bytes : 1, cudaHostAllocPortable), "cudaHostAlloc", __LINE__))
        return NULL;
    return memset(memory, 0, bytes);
}

void ce_cuda_free_pinned(cs_device *device, void *memory, size_t bytes)
{
    (void)device;
    (void)bytes;
    CE_CUDA(cudaFreeHost(memory));
}

size_t ce_cuda_free_bytes(cs_device *device)
{
    size_t unused = 0, whole = 0;
    CE_CUDA(cudaSetDevice(ce_cuda_of(device)->number));
    CE_CUDA(cudaMemGetInfo(&unused, &whole));
    return unused;
}

/* Before a workspace grows, the host waits for the streams, because running kernels may use the old workspace. */
void *ce_cuda_workspace(cs_device *device, ce_cuda_use use, size_t bytes)
{
    ce_cuda *cuda = ce_cuda_of(device);
    if (cuda->bytes[use] < bytes) {
        ce_cuda_graphs_drop(device);
        for (int role = 0; role < 2; role++)
            CE_CUDA(cudaStreamSynchronize(cuda->lanes[role].stream));
        ce_device_free(device, cuda->memory[use]);
        device->workspace += bytes - cuda->bytes[use];
        cuda->memory[use] = ce_device_alloc(device, bytes);
        cuda->bytes[use] = bytes;
    }
    return cuda->memory[use];
}
