/* cuda.c - the CUDA device: selecting a GPU, the device table, and the symbol that the module exports. */
#include "device/cuda/open.h"
#include "device/module.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

static cs_status refuse(cudaError_t error, const char *what)
{
    return ce_fail(CS_NO_DEVICE, "device \"cuda\": %s: %s (%s)", what, cudaGetErrorString(error),
                   cudaGetErrorName(error));
}

/* Refuses a driver that supports only an older CUDA than the one with which the module was built. Without this check a
 * missing function would fail in the middle of a run. */
cs_status ce_cuda_count(int *count)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int driver = 0, runtime = 0;
    cudaError_t error = cudaGetDeviceCount(count);
    (void)cudaGetLastError();
    if (error != cudaSuccess)
        *count = 0;
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    if (driver == 0)
        return ce_fail(CS_NO_DEVICE,
                       "device \"cuda\": there is no NVIDIA driver here (libcuda.so.1): install one for CUDA %d.%d, "
                       "or use \"cpu\"",
                       runtime / 1000, runtime % 1000 / 10);
    if (error == cudaErrorInsufficientDriver)
        return ce_fail(CS_NO_DEVICE,
                       "device \"cuda\": the NVIDIA driver here is for CUDA %d.%d, and %d.%d is needed: "
                       "install a newer driver, or use \"cpu\"",
                       driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    if (error == cudaErrorInitializationError)
        return ce_fail(CS_NO_DEVICE,
                       "device \"cuda\": CUDA cannot be used in this process: it was forked from one that "
                       "had used CUDA. Open the device only in the child, or start the child by exec");
    if (error != cudaSuccess && error != cudaErrorNoDevice)
        return refuse(error, "GPUs cannot be counted");
    if (*count == 0 && visible)
        return ce_fail(CS_NO_DEVICE, "device \"cuda\": CUDA_VISIBLE_DEVICES=\"%s\" excludes all GPUs of this machine",
                       visible);
    if (*count == 0)
        return ce_fail(CS_NO_DEVICE, "device \"cuda\": there is a driver here but no GPU; use \"cpu\"");
    return CS_OK;
}

static int attribute(int number, enum cudaDeviceAttr which)
{
    int value = 0;
    CE_CUDA(cudaDeviceGetAttribute(&value, which, number));
    return value;
}

/* Makes the GPU the current device and reads its properties. The kernels need compute capability 8.0, because they use
 * bf16 tensor cores and asynchronous copies. */
static cs_status select_gpu(ce_cuda *cuda, struct cudaDeviceProp *properties)
{
    cudaError_t error = cudaGetDeviceProperties(properties, cuda->number);
    if (error != cudaSuccess)
        return refuse(error, "a GPU's properties cannot be read");
    if (properties->major < 8)
        return ce_fail(CS_NO_DEVICE,
                       "device \"cuda\": GPU %d, %s, has compute capability %d.%d; 8.0 or newer is "
                       "needed: choose another by CUDA_VISIBLE_DEVICES, or use \"cpu\"",
                       cuda->number, properties->name, properties->major, properties->minor);
    error = cudaSetDevice(cuda->number);
    if (error != cudaSuccess)
        return refuse(error, "the GPU cannot be selected");
    cuda->facts = (ce_cuda_facts){
        .major = properties->major,
        .minor = properties->minor,
        .processors = attribute(cuda->number, cudaDevAttrMultiProcessorCount),
        .shared = attribute(cuda->number, cudaDevAttrMaxSharedMemoryPerBlockOptin),
    };
    return CS_OK;
}

static void describe(cs_device *device, const struct cudaDeviceProp *properties)
{
    int runtime = 0;
    char driver[64];
    CE_CUDA(cudaRuntimeGetVersion(&runtime));
    snprintf(device->description, sizeof device->description, "cuda: %.80s (sm_%d%d), %.0f GiB; CUDA %d.%d, %s",
             properties->name, properties->major, properties->minor, (double)properties->totalGlobalMem / (1 << 30),
             runtime / 1000, runtime % 1000 / 10, ce_cuda_driver(driver, sizeof driver));
}

static cs_status cuda_open(cs_device *device, const ce_device_settings *settings)
{
    struct cudaDeviceProp properties;
    ce_cuda *cuda = device->private_data = calloc(1, sizeof *cuda);
    int count;
    if (!cuda)
        return ce_fail(CS_NO_MEMORY, "no memory for the CUDA device");
    CE_TRY(ce_cuda_count(&count));
    cuda->number = settings->local_rank % count;
    CE_TRY(select_gpu(cuda, &properties));
    CE_TRY(ce_cuda_graphs_open(device));
    CE_TRY(ce_cuda_streams_open(device));
    CE_TRY(ce_cuda_products_open(device, settings));
    describe(device, &properties);
    return CS_OK;
}

static void cuda_close(cs_device *device)
{
    if (!device->private_data)
        return;
    ce_cuda_graphs_close(device); /* graphs are closed before the libraries whose kernels they contain */
    if (ce_cudnn_close)
        ce_cudnn_close(device);
    ce_cuda_products_close(device);
    ce_cuda_streams_close(device);
    free(device->private_data);
    device->private_data = NULL;
}

const ce_cuda_facts *ce_cuda_facts_of(const cs_device *device)
{
    return &ce_cuda_of(device)->facts;
}

static const ce_device_table ce_device_cuda = {
    .kind = "cuda",
    .open = cuda_open,
    .close = cuda_close,
    .alloc = ce_cuda_alloc,
    .free = ce_cuda_free,
    .alloc_pinned = ce_cuda_alloc_pinned,
    .free_pinned = ce_cuda_free_pinned,
    .copy = ce_cuda_copy,
    .free_bytes = ce_cuda_free_bytes,
    .roof = ce_cuda_roof,
    .enter = ce_cuda_enter,
    .leave = ce_cuda_leave,
    .call = ce_cuda_call,
    .record = ce_cuda_record,
    .wait = ce_cuda_wait,
    .sync = ce_cuda_sync,
    .graph_begin = ce_cuda_graph_begin,
    .graph_end = ce_cuda_graph_end,
#define OPERATION(name, parameters) .name = ce_cuda_##name,
#include "device/ops_list.h"
};

/* This symbol is weak: its address is NULL if the module was built without NCCL. */
extern const struct ce_transport ce_comm_nccl __attribute__((weak));
extern const ce_module ce_module_cuda;

const ce_module ce_module_cuda = {
    .edition = CE_MODULE_EDITION,
    .release = CS_VERSION,
    .built = CE_CUDA_BUILT,
    .device = &ce_device_cuda,
    .nccl = &ce_comm_nccl,
    .report = ce_cuda_report,
};
