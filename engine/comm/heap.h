/* heap.h - the memory that cs_comm_alloc hands out where ranks share none. */
#ifndef CS_COMM_HEAP_H
#define CS_COMM_HEAP_H

#include "comm/transport.h"

cs_status cs_heap_open(cs_comm *comm, const cs_comm_settings *settings);
void cs_heap_close(cs_comm *comm);

#endif
