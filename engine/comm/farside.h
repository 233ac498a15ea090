/* farside.h - the device side of a comm, which handles GPU memory. For comm.c. */
#ifndef CS_COMM_FARSIDE_H
#define CS_COMM_FARSIDE_H

#include "comm/transport.h"

/* Opens the device side, with NCCL or staging through pinned host memory; all ranks make the same choice. The host's
 * side must be open. Collective. */
cs_status ce_farside_open(cs_comm *comm, const cs_comm_settings *settings);
void ce_farside_close(cs_comm *comm); /* accepts a comm without a device side */
const char *ce_farside_kind(const cs_comm *comm);
void *ce_farside_alloc(cs_comm *far, size_t bytes);

#endif
