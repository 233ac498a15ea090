/* rendezvous.h - rendezvous of the ranks of one host, which exchange file descriptors over a Unix socket.
 *
 * Rank 0 listens on a Unix socket in the abstract name space, which has no file and disappears with the process. The
 * name contains the user, MASTER_PORT and the job id. Every rank sends two file descriptors. When all ranks have
 * connected, rank 0 sends the descriptors of all ranks to each rank. Only processes of the same user are accepted. */
#ifndef CE_COMM_SHM_RENDEZVOUS_H
#define CE_COMM_SHM_RENDEZVOUS_H

#include "base/status.h"
#include "cspeed/comm.h"

typedef struct {
    int memory; /* memfd of the rank's memory, which all ranks map */
    int life;   /* a descriptor that becomes readable, or is hung up, when the rank's process ends */
} ce_shm_handles;

/* Exchanges the descriptors of all ranks. `handles` has one element for each rank: the caller sets the element of this
 * rank, and on success the function sets all others. *bytes is the segment size that this rank asks for; the function
 * sets it to the minimum over all ranks. Returns CS_NO_PEER if ranks are missing after `seconds`; the message names
 * them. After an error `handles` has the descriptors that were received, and -1 for the others. */
cs_status ce_shm_rendezvous(const cs_world *world, double seconds, uint64_t *bytes, ce_shm_handles *handles);

#endif
