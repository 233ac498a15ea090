/* farside.h - the far side of a comm, which moves a device's memory. For comm.c. */
#ifndef CS_COMM_FARSIDE_H
#define CS_COMM_FARSIDE_H

#include "comm/transport.h"

/* Collective; the host's side must be open. Chooses NCCL or staging through the host's transport, the same on all
 * ranks. */
cs_status cs_farside_open(cs_comm *comm, const cs_comm_settings *settings);
void cs_farside_close(cs_comm *comm); /* accepts a comm without a far side */
const char *cs_farside_kind(const cs_comm *comm);
void *cs_farside_alloc(cs_comm *far, size_t bytes);

#endif
