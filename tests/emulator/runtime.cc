/* runtime.cc - errors and device properties of the emulated CUDA runtime. */
#include "emulator.h"

#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static thread_local cudaError_t last_error;
static thread_local int current;

cudaError_t emulator_broken;

static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
    { cudaSuccess, "cudaSuccess", "no error" },
    { cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument" },
    { cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error" },
    { cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory" },
    { cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument" },
    { cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy" },
    { cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver", "CUDA driver version is insufficient" },
    { cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected" },
    { cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal" },
    { cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle" },
    { cudaErrorNotReady, "cudaErrorNotReady", "device not ready" },
    { cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported" },
    { cudaErrorIllegalState, "cudaErrorIllegalState", "the operation cannot be performed in the present state" },
    { cudaErrorAssert, "cudaErrorAssert", "device-side assert triggered" },
    { cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
      "operation not permitted when capturing" },
    { cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
      "operation failed due to a previous error during capture" },
    { cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge",
      "operation would result in a merge of separate capture sequences" },
    { cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched",
      "capture was not ended in the same stream as it began" },
    { cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work" },
    { cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
      "dependency created on uncaptured work in another stream" },
    { cudaErrorStreamCaptureImplicit, "cudaErrorStreamCaptureImplicit",
      "operation would make the legacy stream depend on a capturing blocking stream" },
    { cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
      "operation not permitted on an event last recorded in a capturing stream" },
    { cudaErrorStreamCaptureWrongThread, "cudaErrorStreamCaptureWrongThread",
      "attempt to terminate a thread-local capture sequence from another thread" },
    { cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered", "memory is registered already" },
    { cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered", "memory is not registered" },
};

cudaError_t emulator_fail(cudaError_t error)
{
    last_error = error;
    return error;
}

bool emulator_is_forked()
{
    static const pid_t opened = getpid();
    return getpid() != opened;
}

const char *cudaGetErrorString(cudaError_t error)
{
    for (const auto &known : errors)
        if (known.error == error)
            return known.text;
    return "unrecognized error code";
}

const char *cudaGetErrorName(cudaError_t error)
{
    for (const auto &known : errors)
        if (known.error == error)
            return known.name;
    return "unrecognized error code";
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = cudaPeekAtLastError();
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return emulator_broken != cudaSuccess ? emulator_broken : last_error;
}

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    switch (status) {
    case CUBLAS_STATUS_SUCCESS:
        return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
        return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
        return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
        return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
    }
    return "unknown";
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return cublasLtGetStatusName(status);
}

/* ---- devices: CSPEED_EMULATOR_DEVICES sets their number (1 if unset), CSPEED_EMULATOR_PROCESSORS the multiprocessors
 * of each ---- */

/* The default number of multiprocessors is small, so that grids are small. */
static int processors()
{
    const char *given = getenv("CSPEED_EMULATOR_PROCESSORS");
    return given ? atoi(given) : 4;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    const char *given = getenv("CSPEED_EMULATOR_DEVICES");
    *count = 0;
    if (emulator_is_forked())
        return emulator_fail(cudaErrorInitializationError);
    *count = given ? atoi(given) : 1;
    return *count > 0 ? cudaSuccess : emulator_fail(cudaErrorNoDevice);
}

static bool exists(int device)
{
    int count = 0;
    return cudaGetDeviceCount(&count) == cudaSuccess && device >= 0 && device < count;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = current;
    return emulator_is_forked() ? emulator_fail(cudaErrorInitializationError) : cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    if (!exists(device))
        return emulator_fail(cudaErrorInvalidDevice);
    current = device;
    return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned)
{
    return cudaSuccess;
}

cudaError_t cudaDeviceReset(void)
{
    return cudaDeviceSynchronize();
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *properties, int device)
{
    size_t available = 0;
    if (!exists(device))
        return emulator_fail(cudaErrorInvalidDevice);
    *properties = {};
    snprintf(properties->name, sizeof properties->name, "Emulated GPU");
    cudaMemGetInfo(&available, &properties->totalGlobalMem);
    properties->major = 8;
    properties->minor = 0;
    properties->multiProcessorCount = processors();
    properties->sharedMemPerBlock = EMULATOR_SHARED;
    properties->sharedMemPerBlockOptin = EMULATOR_SHARED_MAX;
    properties->sharedMemPerMultiprocessor = EMULATOR_PROCESSOR_SHARED;
    properties->reservedSharedMemPerBlock = 1024;
    properties->regsPerBlock = 65536;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = EMULATOR_BLOCK_THREADS;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->maxBlocksPerMultiProcessor = 32;
    properties->maxThreadsDim[0] = properties->maxThreadsDim[1] = 1024;
    properties->maxThreadsDim[2] = 64;
    properties->maxGridSize[0] = 0x7fffffff;
    properties->maxGridSize[1] = properties->maxGridSize[2] = 65535;
    properties->l2CacheSize = 1 << 20;
    properties->pciBusID = device;
    properties->unifiedAddressing = 1;
    properties->canMapHostMemory = 1;
    properties->concurrentKernels = 1;
    properties->asyncEngineCount = 2;
    properties->memoryBusWidth = 128;
    properties->streamPrioritiesSupported = 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
    if (!exists(device))
        return emulator_fail(cudaErrorInvalidDevice);
    *value = 0;
    switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
        *value = EMULATOR_BLOCK_THREADS;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        *value = EMULATOR_SHARED;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = EMULATOR_SHARED_MAX;
        break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
        *value = EMULATOR_PROCESSOR_SHARED;
        break;
    case cudaDevAttrWarpSize:
        *value = 32;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = processors();
        break;
    case cudaDevAttrL2CacheSize:
        *value = 1 << 20;
        break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        *value = 2048;
        break;
    case cudaDevAttrAsyncEngineCount:
        *value = 2;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = 8;
        break;
    case cudaDevAttrClockRate:
        *value = 1000000;
        break;
    case cudaDevAttrMemoryClockRate:
        *value = 1000000;
        break;
    case cudaDevAttrGlobalMemoryBusWidth:
        *value = 128;
        break;
    case cudaDevAttrPciBusId:
        *value = device;
        break;
    case cudaDevAttrComputeCapabilityMinor:
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId:
    case cudaDevAttrEccEnabled:
    case cudaDevAttrIntegrated:
    case cudaDevAttrComputeMode:
        break;
    }
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *name, int capacity, int device)
{
    if (!exists(device))
        return emulator_fail(cudaErrorInvalidDevice);
    snprintf(name, (size_t)capacity, "0000:%02x:00.0", (unsigned)device);
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *min, int *greatest)
{
    *min = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int, int)
{
    *can = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, cudaDeviceP2PAttr, int, int)
{
    *value = 0;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}
