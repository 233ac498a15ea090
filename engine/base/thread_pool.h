/* thread_pool.h - runs numbered tasks on several threads. */
#ifndef CS_CHECKPOINT_CREW_H
#define CS_CHECKPOINT_CREW_H

#include "base/status.h"

/* Calls task(argument, index) once for each index from 0 to count - 1, on `threads` threads including the calling one
 * (0 and 1: on the calling thread only). After the first failure no further task begins; its status and message are
 * returned. */
cs_status cs_crew_run(int threads, int64_t count, cs_status (*task)(void *argument, int64_t index), void *argument);

#endif
