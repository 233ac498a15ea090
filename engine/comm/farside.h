/* farside.h - the side of a comm that moves a far device's memory. For comm.c. */
#ifndef CS_COMM_FARSIDE_H
#define CS_COMM_FARSIDE_H

#include "comm/transport.h"

/* The host's side is open. Chooses among NCCL and the host's transport, the same on all ranks. Collective. */
cs_status cs_farside_open(cs_comm *comm, const cs_comm_settings *settings);
void cs_farside_close(cs_comm *comm); /* of one without it: nothing */
const char *cs_farside_kind(const cs_comm *comm);
void *cs_farside_alloc(cs_comm *far, size_t bytes);

#endif
