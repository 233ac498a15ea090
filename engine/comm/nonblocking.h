/* nonblocking.h - the nonblocking calls, which return before they are done. A thread makes them in a second comm of the
 * same ranks, in the order in which the caller made them. */
#ifndef CE_COMM_NONBLOCKING_H
#define CE_COMM_NONBLOCKING_H

#include "comm/transport.h"

cs_status ce_nonblocking_open(cs_comm *comm); /* starts the thread; the call is collective */
void ce_nonblocking_close(cs_comm *comm);     /* waits for the calls in progress; comm->nonblocking may be NULL */
/* Sets the time limit of nonblocking calls, as cs_comm_set_call_seconds does for other calls. */
void ce_nonblocking_set_call_seconds(cs_comm *comm, double seconds);

#endif
