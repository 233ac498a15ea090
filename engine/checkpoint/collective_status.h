/* collective_status.h - collective status: all ranks succeed or fail together. Also gathers and broadcasts small texts.
 * All functions but ce_collective_memory are collective. */
#ifndef CS_CHECKPOINT_COLLECTIVE_STATUS_H
#define CS_CHECKPOINT_COLLECTIVE_STATUS_H

#include "cspeed/comm.h"

/* Returns, on every rank, the status of the first rank that failed, and sets that rank's message; CS_OK if all
 * succeeded. */
cs_status ce_collective_status(cs_comm *comm, cs_status status);

/* Broadcasts the root's text; on the other ranks *text is malloc'ed and NUL-terminated. */
void ce_collective_text(cs_comm *comm, char **text, size_t *length, int root);

/* Gathers every rank's bytes on rank 0 in rank order, into memory that the caller frees; other ranks get NULL. Fills
 * sizes[size of comm] on every rank. */
char *ce_collective_gather(cs_comm *comm, int64_t *sizes, const void *bytes, size_t count);

/* Returns zeroed memory; the caller frees it with free(). If there is no memory the process ends, because a rank that
 * returned early would leave the other ranks waiting in a collective. */
void *ce_collective_memory(size_t bytes);

#endif
