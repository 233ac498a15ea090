/* columns.cuh - the second of two steps of column sums (sums over rows): adding the partial sums in a fixed order. */
#ifndef CS_DEVICE_COLUMNS_CUH
#define CS_DEVICE_COLUMNS_CUH

#include "device/cuda/kernel.cuh"

/* Adds to into[c] the sum of partial[part][c] over all parts, in the order of the parts. If `into` is fresh (tensor.h),
 * its old values are ignored. `partial` has the shape (parts, number of elements of `into`). */
void ce_columns_reduce(cs_device *device, cs_tensor into, const float *partial, int64_t parts);

#endif
