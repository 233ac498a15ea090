/* heap.h - memory for cs_comm_alloc in transports without shared memory: an anonymous mapping. */
#ifndef CE_COMM_HEAP_H
#define CE_COMM_HEAP_H

#include "comm/transport.h"

cs_status ce_heap_open(cs_comm *comm, const cs_comm_settings *settings);
void ce_heap_close(cs_comm *comm);

#endif
