/* stream.c - the worker thread of the comm stream. It runs the calls of a short queue in order, and sleeps when the
 * queue is empty. */
#include "device/cpu/cpu.h"

#include "base/thread.h"

#include <stdlib.h>

enum { WAITING = 64 }; /* WAITING: the greatest number of calls in the queue */

typedef struct {
    void (*call)(void *argument);
    void *argument;
} job;

struct ce_worker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t given_more, done_more;
    job queue[WAITING];
    uint64_t given, done; /* calls are counted from 1; call i is at queue[(i - 1) % WAITING] until it has run */
    bool closing;
};

static void *serve(void *argument)
{
    ce_worker *worker = argument;
    pthread_mutex_lock(&worker->lock);
    for (;;) {
        while (worker->done == worker->given && !worker->closing)
            pthread_cond_wait(&worker->given_more, &worker->lock);
        if (worker->done == worker->given)
            break;
        job next = worker->queue[worker->done % WAITING];
        pthread_mutex_unlock(&worker->lock);
        next.call(next.argument);
        pthread_mutex_lock(&worker->lock);
        worker->done++;
        pthread_cond_broadcast(&worker->done_more);
    }
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

cs_status ce_worker_open(ce_worker **worker)
{
    *worker = calloc(1, sizeof **worker);
    if (!*worker)
        return ce_fail(CS_NO_MEMORY, "out of memory for the queue of collectives");
    pthread_mutex_init(&(*worker)->lock, NULL);
    pthread_cond_init(&(*worker)->given_more, NULL);
    pthread_cond_init(&(*worker)->done_more, NULL);
    int error = ce_thread_start(&(*worker)->thread, serve, *worker);
    if (error) {
        free(*worker);
        *worker = NULL;
        return ce_fail_errno(CS_NO_MEMORY, error, "cannot start the thread that executes collectives");
    }
    return CS_OK;
}

void ce_worker_close(ce_worker *worker)
{
    if (!worker)
        return;
    pthread_mutex_lock(&worker->lock);
    worker->closing = true;
    pthread_cond_signal(&worker->given_more);
    pthread_mutex_unlock(&worker->lock);
    pthread_join(worker->thread, NULL);
    pthread_cond_destroy(&worker->given_more);
    pthread_cond_destroy(&worker->done_more);
    pthread_mutex_destroy(&worker->lock);
    free(worker);
}

void ce_worker_give(ce_worker *worker, void (*call)(void *argument), void *argument)
{
    pthread_mutex_lock(&worker->lock);
    while (worker->given - worker->done == WAITING)
        pthread_cond_wait(&worker->done_more, &worker->lock);
    worker->queue[worker->given++ % WAITING] = (job){ call, argument };
    pthread_cond_signal(&worker->given_more);
    pthread_mutex_unlock(&worker->lock);
}

uint64_t ce_worker_given(ce_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    uint64_t given = worker->given;
    pthread_mutex_unlock(&worker->lock);
    return given;
}

void ce_worker_await(ce_worker *worker, uint64_t sequence)
{
    pthread_mutex_lock(&worker->lock);
    while (worker->done < sequence)
        pthread_cond_wait(&worker->done_more, &worker->lock);
    pthread_mutex_unlock(&worker->lock);
}
