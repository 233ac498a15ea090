/* patches.h - which element of the result of cs_op_patches reads a pixel; the CPU and the CUDA kernels find it in the same
 * way. */
#ifndef CE_DEVICE_PATCHES_H
#define CE_DEVICE_PATCHES_H

#include "base/host_device.h"
#include "cspeed/ops.h"

/* Returns the output that reads the coordinate `at` by the kernel's place `place` on an axis; -1 if there is none. */
CE_HOST_DEVICE int64_t ce_patches_reader(const cs_patches *shape, int axis, int64_t at, int64_t place)
{
    int64_t moved = at + shape->padding[axis] - place * shape->dilation[axis];
    bool reads = moved >= 0 && moved % shape->stride[axis] == 0 && moved / shape->stride[axis] < shape->outputs[axis];
    return reads ? moved / shape->stride[axis] : -1;
}

#endif
