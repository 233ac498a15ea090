/* call.h - the description of a call, by which the ranks check that all of them make the same call. */
#ifndef CE_COMM_CALL_H
#define CE_COMM_CALL_H

#include "cspeed/comm.h"

typedef struct {
    uint8_t what, dtype, op; /* `what` is the kind of call, an index into ce_beat_names */
    /* The root of the collective; for a message, the other rank; for uneven counts, a hash of the counts. */
    int32_t root;
    int64_t count;   /* number of elements; 0 for messages, whose lengths are compared separately */
    uint32_t number; /* number of collectives that this rank has called in this comm, including this one */
} ce_call;

const char *ce_call_name(int what);
bool ce_call_is_message(const ce_call *call);
/* Returns true if two ranks may make these calls together. A send and a receive count as the same call. */
bool ce_call_same(const ce_call *one, const ce_call *other);
/* Ends the process with a message that describes both calls. */
_Noreturn void ce_call_refuse(int rank, const ce_call *own_call, int peer, const ce_call *other);

#endif
