/* side.h - the device side of a comm, which moves GPU memory. Only comm.c and collectives.c use it. */
#ifndef CE_COMM_DEVICE_SIDE_H
#define CE_COMM_DEVICE_SIDE_H

#include "comm/transport.h"

/* Opens the device side, with NCCL or with staging through pinned host memory; all ranks make the same choice. The
 * transport of host memory must be open. The call is collective. */
cs_status ce_device_side_open(cs_comm *comm, const cs_comm_settings *settings);
void ce_device_side_close(cs_comm *comm); /* closes the device side; does nothing if the comm has none */
const char *ce_device_side_kind(const cs_comm *comm);
void *ce_device_side_alloc(cs_comm *side, size_t bytes);

#endif
