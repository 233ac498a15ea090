/* thread_pool.c - a pool of threads that lives for one call: it runs numbered tasks, and waits for all of them. */
#include "base/thread_pool.h"

#include "base/thread.h"

#include <stdatomic.h>
#include <stdio.h>

enum { MESSAGE_BYTES = 4096 };

typedef struct {
    cs_status (*task)(void *argument, int64_t index);
    void *argument;
    int64_t count;
    _Atomic int64_t next;
    pthread_mutex_t mutex; /* protects `status` and `why` */
    cs_status status;
    char why[MESSAGE_BYTES];
} thread_pool;

static void keep_failure(thread_pool *pool, cs_status status)
{
    pthread_mutex_lock(&pool->mutex);
    if (pool->status == CS_OK) {
        pool->status = status;
        snprintf(pool->why, sizeof pool->why, "%s", cs_error());
    }
    pthread_mutex_unlock(&pool->mutex);
    atomic_store(&pool->next, pool->count); /* ends the loops of all threads, so that no further task begins */
}

static void *work(void *argument)
{
    thread_pool *pool = argument;
    for (int64_t index; (index = atomic_fetch_add(&pool->next, 1)) < pool->count;) {
        cs_status status = pool->task(pool->argument, index);
        if (status != CS_OK)
            keep_failure(pool, status);
    }
    return NULL;
}

cs_status ce_thread_pool_run(int threads, int64_t count, cs_status (*task)(void *argument, int64_t index),
                             void *argument)
{
    pthread_t thread[CE_THREAD_POOL_MAX_THREADS - 1];
    int started = 0;
    thread_pool pool = { .task = task, .argument = argument, .count = count, .mutex = PTHREAD_MUTEX_INITIALIZER };
    while (started < CE_THREAD_POOL_MAX_THREADS - 1 && started + 1 < threads && started + 1 < count &&
           ce_thread_start(&thread[started], work, &pool) == 0)
        started++;
    work(&pool);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    return pool.status == CS_OK ? CS_OK : ce_fail(pool.status, "%s", pool.why);
}
