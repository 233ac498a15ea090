/* ranges.c - named ranges of the host's time, which Nsight shows beside the GPU's. */
#include "device/cuda/open.h"

#include <nvtx3/nvToolsExt.h>

void cs_cuda_enter(cs_device *device, const char *name)
{
    (void)device;
    nvtxRangePushA(name);
}

void cs_cuda_leave(cs_device *device)
{
    (void)device;
    nvtxRangePop();
}
