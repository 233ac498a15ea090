/* thread_pool.h - numbered tasks shared by a few threads. */
#ifndef CS_BASE_THREAD_POOL_H
#define CS_BASE_THREAD_POOL_H

#include "base/status.h"

/* Runs task(argument, 0 to count - 1), each once, by `threads` threads, the caller's among them (0 and 1: the caller
 * alone). The first failure in time ends the others before their next task, and is returned with its sentence. */
cs_status cs_thread_pool_run(int threads, int64_t count, cs_status (*task)(void *argument, int64_t index),
                             void *argument);

#endif
