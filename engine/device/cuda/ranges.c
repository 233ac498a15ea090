/* ranges.c - NVTX ranges: named spans of the host's time, which Nsight shows beside the GPU's kernels. */
#include "device/cuda/open.h"

#include <nvtx3/nvToolsExt.h>

void ce_cuda_enter(cs_device *device, const char *name)
{
    (void)device;
    nvtxRangePushA(name);
}

void ce_cuda_leave(cs_device *device)
{
    (void)device;
    nvtxRangePop();
}
