/* call.h - the description of a collective call, by which ranks check that all make the same call. */
#ifndef CS_COMM_CALL_H
#define CS_COMM_CALL_H

#include "cspeed/comm.h"

typedef struct {
    uint8_t what, dtype, op; /* what: index into cs_beat_names */
    int32_t root;
    int64_t count;
} cs_call;

const char *cs_call_name(int what);
bool cs_call_same(const cs_call *one, const cs_call *other);
/* Ends the process with a sentence that has both calls. */
_Noreturn void cs_call_refuse(int rank, const cs_call *own, int peer, const cs_call *other);

#endif
