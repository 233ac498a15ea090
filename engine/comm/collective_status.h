/* collective_status.h - collective status: all ranks succeed or fail together. Also gathers and broadcasts small texts.
 * All functions are collective. */
#ifndef CE_COMM_COLLECTIVE_STATUS_H
#define CE_COMM_COLLECTIVE_STATUS_H

#include "cspeed/comm.h"

/* Returns CS_OK if all ranks succeeded. Otherwise returns, on every rank, the status of the lowest rank that failed,
 * and makes the message of that rank the message of cs_error(). */
cs_status ce_collective_status(cs_comm *comm, cs_status status);

/* Broadcasts the root's text. On the other ranks *text is allocated and NUL-terminated, and the caller frees it. */
void ce_collective_text(cs_comm *comm, char **text, size_t *length, int root);

/* Gathers the bytes of all ranks on rank 0, in rank order, and returns them in memory that the caller frees; other
 * ranks get NULL. Fills sizes[], which has one element for each rank, on every rank. */
char *ce_collective_gather(cs_comm *comm, int64_t *sizes, const void *bytes, size_t count);

#endif
