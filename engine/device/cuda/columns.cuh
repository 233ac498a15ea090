/* columns.cuh - sums over rows, in two steps: each part of the rows its own partial sums, then those, in order. */
#ifndef CS_DEVICE_COLUMNS_CUH
#define CS_DEVICE_COLUMNS_CUH

#include "device/cuda/kernel.cuh"

/* into[c] += the sum over parts of partial[part][c]; set where `into` is fresh. */
void cs_columns_join(cs_device *device, cs_tensor into, const float *partial, int64_t parts);

#endif
