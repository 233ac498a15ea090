/* thread_pool.c - runs numbered tasks on several threads. */
#include "base/thread_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { MOST_THREADS = 64, SENTENCE = 4096 };

typedef struct {
    cs_status (*task)(void *argument, int64_t index);
    void *argument;
    int64_t count;
    _Atomic int64_t next;
    pthread_mutex_t mutex; /* protects the members below */
    cs_status status;
    char why[SENTENCE];
} crew;

static void keep_failure(crew *c, cs_status status)
{
    pthread_mutex_lock(&c->mutex);
    if (c->status == CS_OK) {
        c->status = status;
        snprintf(c->why, sizeof c->why, "%s", cs_error());
    }
    pthread_mutex_unlock(&c->mutex);
    atomic_store(&c->next, c->count); /* no thread begins another task */
}

static void *work(void *argument)
{
    crew *c = argument;
    for (int64_t index; (index = atomic_fetch_add(&c->next, 1)) < c->count;) {
        cs_status status = c->task(c->argument, index);
        if (status != CS_OK)
            keep_failure(c, status);
    }
    return NULL;
}

cs_status cs_crew_run(int threads, int64_t count, cs_status (*task)(void *argument, int64_t index), void *argument)
{
    pthread_t thread[MOST_THREADS];
    int started = 0;
    crew c = { .task = task, .argument = argument, .count = count, .mutex = PTHREAD_MUTEX_INITIALIZER };
    while (started < MOST_THREADS && started + 1 < threads && started + 1 < count &&
           pthread_create(&thread[started], NULL, work, &c) == 0) /* if a thread cannot be created, fewer threads do the
                                                                   * work */
        started++;
    work(&c);
    for (int i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    return c.status == CS_OK ? CS_OK : cs_fail(c.status, "%s", c.why);
}
