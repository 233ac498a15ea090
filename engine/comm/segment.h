/* segment.h - the memory that the ranks of one host share: made, met over, mapped, given back. */
#ifndef CS_COMM_SEGMENT_H
#define CS_COMM_SEGMENT_H

#include "comm/transport.h"

cs_status cs_segment_open(cs_comm *comm, const cs_comm_settings *settings);
void cs_segment_close(cs_comm *comm);

#endif
