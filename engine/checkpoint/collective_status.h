/* collective_status.h - ranks that succeed or fail together, and small texts between them. All collective. */
#ifndef CS_CHECKPOINT_COLLECTIVE_STATUS_H
#define CS_CHECKPOINT_COLLECTIVE_STATUS_H

#include "cspeed/comm.h"

/* The status and sentence of the first rank that failed, on every rank. */
cs_status cs_collective_status(cs_comm *comm, cs_status status);

/* The root's text on every rank, malloc'ed for those that are not the root; NUL-terminated. */
void cs_collective_text(cs_comm *comm, char **text, size_t *length, int root);

/* Rank 0 receives every rank's bytes, in order of ranks, malloc'ed; `sizes` (one a rank) is filled on every rank. */
char *cs_collective_gather(cs_comm *comm, int64_t *sizes, const void *bytes, size_t count);

/* Memory, or the end of the process: a rank that returned early would leave the others waiting. Zeroed. */
void *cs_collective_memory(size_t bytes);

#endif
