/* slot.h - the expert of a slot, which the CPU and the CUDA kernels find in the same way. */
#ifndef CE_DEVICE_SLOT_H
#define CE_DEVICE_SLOT_H

#include "base/host_device.h"

#include <stdint.h>

/* Returns the last expert whose first slot, bounds[expert], does not come after this slot. `bounds` has experts + 1
 * elements (cs_routing in cspeed/ops.h). */
CE_HOST_DEVICE int ce_slot_expert(const int32_t *bounds, int experts, int32_t slot)
{
    int low = 0, high = experts - 1;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (bounds[middle] <= slot)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

#endif
