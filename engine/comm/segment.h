/* segment.h - shared memory of the ranks of one host: creates, exchanges, maps and unmaps the segments. */
#ifndef CS_COMM_SEGMENT_H
#define CS_COMM_SEGMENT_H

#include "comm/transport.h"

cs_status cs_segment_open(cs_comm *comm, const cs_comm_settings *settings);
void cs_segment_close(cs_comm *comm);

#endif
