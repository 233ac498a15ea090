/* thread_pool.h - a pool of threads that lives for one call: it runs numbered tasks, and waits for all of them. */
#ifndef CE_BASE_THREAD_POOL_H
#define CE_BASE_THREAD_POOL_H

#include "base/status.h"

enum { CE_THREAD_POOL_MAX_THREADS = 256 };

/* Calls task(argument, index) once for each index from 0 to count - 1, on at most `threads` threads. The calling thread
 * is one of them, and the only one if `threads` is 0 or 1. Returns after the last task. If a thread cannot be started,
 * the other threads run all tasks. When a task fails, no further task begins, and the status and message of the first
 * failure are returned. */
cs_status ce_thread_pool_run(int threads, int64_t count, cs_status (*task)(void *argument, int64_t index),
                             void *argument);

#endif
