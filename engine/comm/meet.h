/* meet.h - how the ranks of one host first meet.
 *
 * Rank 0 listens on a Unix socket in the abstract name space (it has no file, and goes with its process); its name is
 * made of the user, MASTER_PORT and the job id. Every rank brings two descriptors, and when all have come rank 0 hands
 * everybody everyone's. Only processes of the same user are let in. */
#ifndef CS_COMM_MEET_H
#define CS_COMM_MEET_H

#include "comm/world.h"

typedef struct {
    int memory; /* a memfd: the rank's memory that all may map                 */
    int life;   /* becomes readable, or hangs up, when the rank's process ends */
} cs_guest;

/* guests[world->size]: this rank's own is filled in; on success all are. *bytes becomes the least that any rank
 * brought. CS_NO_PEER after `seconds`, naming who is missing. On failure the descriptors got so far are in `guests`,
 * others -1. */
cs_status cs_meet(const cs_world *world, double seconds, uint64_t *bytes, cs_guest *guests);

#endif
