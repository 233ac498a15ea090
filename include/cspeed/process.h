/* process.h - starts further processes on this machine, and gives them queues, locks and events to work together: what
 * Python's multiprocessing offers, as a thin layer over the C library.
 *
 *     multiprocessing   here                   the C library's own
 *     Process           cs_process             fork, waitpid
 *     Pool.map          cs_pool_map            fork, shared memory
 *     Queue             cs_queue               socketpair(AF_UNIX, SOCK_SEQPACKET)
 *     Pipe              socketpair itself      both ends read and write, and a message stays whole
 *     Lock              cs_lock                a robust mutex in shared memory
 *     Semaphore         cs_semaphore           sem_t in shared memory
 *     Event             cs_event               a futex in shared memory
 *
 *     static int work(void *argument) { ... return 0; }
 *
 *     cs_process *helper;
 *     int code;
 *     CS_MUST(cs_process_start(&helper, work, NULL));
 *     cs_process_join(helper, -1, &code);
 *     cs_process_close(helper);
 *
 * A started process has a copy of the memory of the process that starts it. Both processes share the queues, locks,
 * semaphores and events that were opened before the start, and both must close these objects. A started process has one
 * thread, so start processes before cs_initialize; for ranks of a training use cs_spawn. A started process is killed
 * when the thread that started it ends.
 *
 * Times are in seconds; a negative time means no limit. Functions that return cs_status may fail with CS_NO_MEMORY, or
 * with CS_IO_ERROR if no more processes or descriptors are available, and with the codes that their comments name;
 * cs_error() has the reason. */
#ifndef CSPEED_PROCESS_H
#define CSPEED_PROCESS_H

#include "cspeed/cspeed.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- processes -------------------------------------------------------------------------------- */

typedef struct cs_process cs_process;
/* Starts a process that calls run(argument) and ends with the result of `run` as its exit code. */
cs_status cs_process_start(cs_process **process, int (*run)(void *argument), void *argument);
int64_t cs_process_id(const cs_process *process);
/* Waits until the process has ended, at most `seconds`. Returns false if the process still runs. If code is not NULL,
 * *code becomes the exit code, or -N if signal N ended the process. */
bool cs_process_join(cs_process *process, double seconds, int *code);
void cs_process_close(cs_process *process); /* kills the process if it still runs; accepts NULL */

/* Calls run(argument, i, result i) for each i from 0 to count - 1, and waits until all calls have returned. The calls
 * are made in `workers` processes: a process that is free takes the next i. `results` has room for `count` results of
 * `result_bytes` each, in the order of i. At the beginning of a call the memory of result i is filled with zeros. After
 * an error `results` is not changed. CS_NO_PEER: a worker process ended before all calls had returned. CS_MISUSE:
 * `workers` is below 1, or `count` is negative. */
cs_status cs_pool_map(int workers, int64_t count, void (*run)(void *argument, int64_t index, void *result),
                      void *argument, void *results, size_t result_bytes);

/* ---- messages --------------------------------------------------------------------------------- */

/* A queue of messages, first in, first out; any number of processes may put and get. */
typedef struct cs_queue cs_queue;
enum { CS_QUEUE_BYTES = 64 << 10 }; /* bytes of the longest message */
cs_status cs_queue_open(cs_queue **queue);
/* Puts a message into the queue, and waits while the queue is full (some hundred kilobytes). CS_MISUSE: the message is
 * longer than CS_QUEUE_BYTES. */
cs_status cs_queue_put(cs_queue *queue, const void *message, size_t bytes);
/* Waits at most `seconds` for a message, and copies its first `capacity` bytes. Returns the message's length, or -1 if
 * no message came. */
int64_t cs_queue_get(cs_queue *queue, void *message, size_t capacity, double seconds);
/* frees the queue, which may be NULL; the other close functions accept NULL too */
void cs_queue_close(cs_queue *queue);

/* ---- lock, semaphore, event ------------------------------------------------------------------- */

/* A lock that at most one process holds at a time. Only the process that holds the lock may release it. */
typedef struct cs_lock cs_lock;
cs_status cs_lock_open(cs_lock **lock);
/* Waits for the lock. If the last holder ended without releasing the lock, the function returns false, and the caller
 * holds the lock: what the lock protects may then be half changed. */
bool cs_lock_take(cs_lock *lock);
void cs_lock_give(cs_lock *lock);
void cs_lock_close(cs_lock *lock);

typedef struct cs_semaphore cs_semaphore;
cs_status cs_semaphore_open(cs_semaphore **semaphore, unsigned count);
/* Waits at most `seconds` until the count is above 0, and subtracts 1. Returns false if the count stayed 0. */
bool cs_semaphore_take(cs_semaphore *semaphore, double seconds);
void cs_semaphore_give(cs_semaphore *semaphore); /* adds 1 */
void cs_semaphore_close(cs_semaphore *semaphore);

/* An event is either set or not set. A new event is not set. */
typedef struct cs_event cs_event;
cs_status cs_event_open(cs_event **event);
void cs_event_set(cs_event *event); /* sets the event and wakes all processes that wait for it */
void cs_event_clear(cs_event *event);
/* Waits at most `seconds` until the event is set, and returns whether it is set. 0 seconds: the function does not
 * wait. */
bool cs_event_wait(cs_event *event, double seconds);
void cs_event_close(cs_event *event);

#ifdef __cplusplus
}
#endif

#endif
