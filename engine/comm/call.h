/* call.h - the description of a collective call, by which ranks check that all make the same call. */
#ifndef CS_COMM_CALL_H
#define CS_COMM_CALL_H

#include "cspeed/comm.h"

typedef struct {
    uint8_t what, dtype, op; /* what: index into ce_beat_names */
    int32_t root;
    int64_t count;
} ce_call;

const char *ce_call_name(int what);
bool ce_call_same(const ce_call *one, const ce_call *other);
/* Ends the process with a sentence that has both calls. */
_Noreturn void ce_call_refuse(int rank, const ce_call *own_call, int peer, const ce_call *other);

#endif
