/* thread.h - the start of a thread of the library. */
#ifndef CE_BASE_THREAD_H
#define CE_BASE_THREAD_H

#include <pthread.h>

/* As pthread_create with default attributes, but the thread blocks all signals except those of faults, so that the
 * program's own threads handle them. The library starts no thread in another way: while code that oneDNN generates runs
 * in a thread, the stack pointer may point into the heap, where the frame of a signal would overwrite other data; only
 * the main thread has a stack for signals (ce_beat_use_signal_stack). */
int ce_thread_start(pthread_t *thread, void *(*work)(void *argument), void *argument);

#endif
