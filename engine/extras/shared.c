/* shared.c - what processes of one machine share: a queue of messages, a lock, a semaphore, an event. */
#include "cspeed/process.h"
#include "base/misuse.h"

#include "base/clock.h"
#include "base/must.h"
#include "base/status.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LONGEST 1e9 /* seconds, long enough to mean no limit */

/* ---- times and memory ------------------------------------------------------------------------- */

/* Returns the time of CLOCK_MONOTONIC, in seconds, at which a wait of `seconds` ends; below 0 means no limit. */
static double deadline_of(double seconds)
{
    return ce_clock_seconds() + (seconds < 0 ? LONGEST : fmin(seconds, LONGEST));
}

static struct timespec time_of(double seconds)
{
    seconds = fmax(seconds, 0);
    return (struct timespec){ .tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - floor(seconds))) };
}

static void *map_shared(size_t bytes, const char *what)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        ce_fail_errno(CS_NO_MEMORY, errno, "no shared memory for %s", what);
    return memory == MAP_FAILED ? NULL : memory;
}

static void unmap(void *memory, size_t bytes)
{
    if (memory)
        munmap(memory, bytes);
}

/* ---- queue ------------------------------------------------------------------------------------ */

struct cs_queue {
    int ends[2]; /* put writes messages to ends[0], and get reads them from ends[1] */
};

cs_status cs_queue_open(cs_queue **queue)
{
    CE_GIVEN(queue);
    *queue = calloc(1, sizeof **queue);
    if (!*queue)
        return ce_fail(CS_NO_MEMORY, "no memory for a queue");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, (*queue)->ends) == 0)
        return CS_OK;
    int reason = errno;
    free(*queue);
    *queue = NULL;
    return ce_fail_errno(CS_IO_ERROR, reason, "no sockets for a queue");
}

cs_status cs_queue_put(cs_queue *queue, const void *message, size_t bytes)
{
    CE_GIVEN(queue);
    ssize_t sent;
    if (bytes > CS_QUEUE_BYTES)
        return ce_fail(CS_MISUSE, "a message of %zu bytes: a queue takes at most %d", bytes, CS_QUEUE_BYTES);
    while ((sent = send(queue->ends[0], message, bytes, MSG_NOSIGNAL)) < 0 && errno == EINTR)
        ;
    return sent < 0 ? ce_fail_errno(CS_IO_ERROR, errno, "a message could not be put into a queue") : CS_OK;
}

/* Another process may take the message that poll has reported; then this process waits again. */
int64_t cs_queue_get(cs_queue *queue, void *message, size_t capacity, double seconds)
{
    CE_GIVEN(queue);
    double until = deadline_of(seconds);
    for (;;) {
        ssize_t length = recv(queue->ends[1], message, capacity, MSG_DONTWAIT | MSG_TRUNC);
        if (length >= 0)
            return length;
        double left = until - ce_clock_seconds();
        if (left <= 0)
            return -1;
        struct timespec wait = time_of(left);
        ppoll(&(struct pollfd){ .fd = queue->ends[1], .events = POLLIN }, 1, &wait, NULL);
    }
}

void cs_queue_close(cs_queue *queue)
{
    if (!queue)
        return;
    close(queue->ends[0]);
    close(queue->ends[1]);
    free(queue);
}

/* ---- lock ------------------------------------------------------------------------------------- */

struct cs_lock {
    pthread_mutex_t mutex;
};

cs_status cs_lock_open(cs_lock **lock)
{
    CE_GIVEN(lock);
    pthread_mutexattr_t shared;
    *lock = map_shared(sizeof **lock, "a lock");
    if (!*lock)
        return CS_NO_MEMORY;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_settype(&shared, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&(*lock)->mutex, &shared);
    pthread_mutexattr_destroy(&shared);
    return CS_OK;
}

bool cs_lock_take(cs_lock *lock)
{
    CE_GIVEN(lock);
    int reason = pthread_mutex_lock(&lock->mutex);
    if (reason == EOWNERDEAD)
        pthread_mutex_consistent(&lock->mutex);
    else if (reason != 0)
        ce_fatal(CS_MISUSE, "a thread has locked a lock that it already holds");
    return reason == 0;
}

void cs_lock_give(cs_lock *lock)
{
    CE_GIVEN(lock);
    if (pthread_mutex_unlock(&lock->mutex) != 0)
        ce_fatal(CS_MISUSE, "a thread has unlocked a lock that it does not hold");
}

void cs_lock_close(cs_lock *lock)
{
    unmap(lock, sizeof *lock);
}

/* ---- semaphore -------------------------------------------------------------------------------- */

struct cs_semaphore {
    sem_t semaphore;
};

cs_status cs_semaphore_open(cs_semaphore **semaphore, unsigned count)
{
    CE_GIVEN(semaphore);
    *semaphore = map_shared(sizeof **semaphore, "a semaphore");
    if (!*semaphore)
        return CS_NO_MEMORY;
    if (sem_init(&(*semaphore)->semaphore, 1, count) == 0)
        return CS_OK;
    unmap(*semaphore, sizeof **semaphore);
    *semaphore = NULL;
    return ce_fail(CS_MISUSE, "a semaphore counts to %d at most, not %u", SEM_VALUE_MAX, count);
}

bool cs_semaphore_take(cs_semaphore *semaphore, double seconds)
{
    CE_GIVEN(semaphore);
    struct timespec until = time_of(deadline_of(seconds));
    int failed;
    while ((failed = sem_clockwait(&semaphore->semaphore, CLOCK_MONOTONIC, &until)) < 0 && errno == EINTR)
        ;
    return !failed;
}

void cs_semaphore_give(cs_semaphore *semaphore)
{
    CE_GIVEN(semaphore);
    if (sem_post(&semaphore->semaphore) != 0)
        ce_fatal(CS_MISUSE, "a semaphore counts to %d at most", SEM_VALUE_MAX);
}

void cs_semaphore_close(cs_semaphore *semaphore)
{
    unmap(semaphore, sizeof *semaphore);
}

/* ---- event ------------------------------------------------------------------------------------ */

struct cs_event {
    _Atomic uint32_t set;
};

cs_status cs_event_open(cs_event **event)
{
    CE_GIVEN(event);
    *event = map_shared(sizeof **event, "an event");
    return *event ? CS_OK : CS_NO_MEMORY;
}

void cs_event_set(cs_event *event)
{
    CE_GIVEN(event);
    atomic_store(&event->set, 1);
    syscall(SYS_futex, &event->set, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void cs_event_clear(cs_event *event)
{
    CE_GIVEN(event);
    atomic_store(&event->set, 0);
}

bool cs_event_wait(cs_event *event, double seconds)
{
    CE_GIVEN(event);
    double until = deadline_of(seconds);
    for (double left; !atomic_load(&event->set) && (left = until - ce_clock_seconds()) > 0;) {
        struct timespec wait = time_of(left);
        syscall(SYS_futex, &event->set, FUTEX_WAIT, 0, &wait, NULL, 0);
    }
    return atomic_load(&event->set);
}

void cs_event_close(cs_event *event)
{
    unmap(event, sizeof *event);
}
