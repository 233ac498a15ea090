/* rendezvous.h - rendezvous of the ranks of one host, which exchange file descriptors over a Unix socket.
 *
 * Rank 0 listens on a Unix socket in the abstract name space, which has no file and disappears with the process. The
 * name contains the user, MASTER_PORT and the job id. Every rank sends two file descriptors; when all ranks have
 * connected, rank 0 sends the descriptors of all ranks to each. Only processes of the same user are accepted. */
#ifndef CS_COMM_SHM_RENDEZVOUS_H
#define CS_COMM_SHM_RENDEZVOUS_H

#include "base/status.h"
#include "cspeed/comm.h"

typedef struct {
    int memory; /* a memfd: the rank's memory, which all ranks map */
    int life;   /* becomes readable, or is hung up, when the rank's process ends */
} ce_shm_handles;

/* handles[world->size]: the caller sets this rank's element, and on success all are set. *bytes becomes the minimum of
 * the ranks' *bytes. CS_NO_PEER after `seconds`; the message names the missing ranks. After an error `handles` has the
 * descriptors that were received, and -1 for the others. */
cs_status ce_shm_rendezvous(const cs_world *world, double seconds, uint64_t *bytes, ce_shm_handles *handles);

#endif
