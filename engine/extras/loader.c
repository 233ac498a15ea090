/* loader.c - threads that fill batches ahead of the program. Batch i uses slot i % slots. A free worker takes the
 * lowest batch that no worker has taken, as soon as the slot of that batch is free. */
#include "cspeed/loader.h"
#include "base/misuse.h"

#include "base/must.h"
#include "base/status.h"
#include "base/thread.h"

#include <stdlib.h>
#include <string.h>

struct cs_loader {
    cs_loader_settings settings;
    char *memory; /* memory of `slots` batches; slot i begins at byte i * `apart` */
    size_t apart;
    int64_t slots;
    int64_t given; /* number of batches that cs_loader_next has returned; the last of them is in use */
    pthread_t *threads;
    int started;
    pthread_mutex_t lock; /* protects `given` and the members below */
    /* `filled` is signalled when a batch is complete, `released` when a slot becomes free */
    pthread_cond_t filled, released;
    int64_t taken; /* number of batches that workers have taken */
    bool *ready;   /* for each slot: true if it has a complete batch that cs_loader_next has not returned yet */
    bool closing;
};

static void *slot(cs_loader *loader, int64_t index)
{
    return loader->memory + (size_t)(index % loader->slots) * loader->apart;
}

/* Returns true if a worker may take another batch: there is another batch, and its slot is not used by the program. */
static bool may_take(const cs_loader *loader)
{
    int64_t count = loader->settings.count;
    return (count == 0 || loader->taken < count) && loader->taken < loader->given - 1 + loader->slots;
}

static void *work(void *argument)
{
    cs_loader *loader = argument;
    pthread_mutex_lock(&loader->lock);
    while (!loader->closing) {
        if (!may_take(loader)) {
            pthread_cond_wait(&loader->released, &loader->lock);
            continue;
        }
        int64_t index = loader->taken++;
        pthread_mutex_unlock(&loader->lock);
        loader->settings.fill(loader->settings.argument, index, slot(loader, index));
        pthread_mutex_lock(&loader->lock);
        loader->ready[index % loader->slots] = true;
        pthread_cond_signal(&loader->filled);
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

static cs_status start(cs_loader *loader)
{
    const cs_loader_settings *settings = &loader->settings;
    loader->apart = (settings->bytes + 63) / 64 * 64;
    loader->memory = aligned_alloc(64, (size_t)loader->slots * loader->apart);
    loader->ready = calloc((size_t)loader->slots, sizeof *loader->ready);
    loader->threads = calloc((size_t)settings->workers + 1, sizeof *loader->threads);
    if (!loader->memory || !loader->ready || !loader->threads)
        return ce_fail(CS_NO_MEMORY, "cs_loader_open: no memory for %lld batches of %zu bytes",
                       (long long)loader->slots, settings->bytes);
    memset(loader->memory, 0, (size_t)loader->slots * loader->apart);
    for (; loader->started < settings->workers; loader->started++) {
        int error = ce_thread_start(&loader->threads[loader->started], work, loader);
        if (error)
            return ce_fail_errno(CS_NO_MEMORY, error, "cs_loader_open: cannot start worker %d of %d", loader->started,
                                 settings->workers);
    }
    return CS_OK;
}

cs_status cs_loader_open(cs_loader **loader, const cs_loader_settings *settings)
{
    CE_GIVEN(loader);
    *loader = NULL;
    if (!settings->fill || settings->bytes == 0 || settings->workers < 0 || settings->prefetch < 0 ||
        settings->count < 0)
        return ce_fail(CS_MISUSE, "cs_loader_open: fill and bytes must be given, and no number may be negative");
    cs_loader *self = calloc(1, sizeof *self);
    if (!self)
        return ce_fail(CS_NO_MEMORY, "cs_loader_open: no memory");
    self->settings = *settings;
    self->slots = settings->workers == 0 ? 1 : 1 + (settings->prefetch ? settings->prefetch : settings->workers);
    pthread_mutex_init(&self->lock, NULL);
    pthread_cond_init(&self->filled, NULL);
    pthread_cond_init(&self->released, NULL);
    cs_status status = start(self);
    if (status == CS_OK)
        *loader = self;
    else
        cs_loader_close(self);
    return status;
}

void *cs_loader_next(cs_loader *loader)
{
    CE_GIVEN(loader);
    const cs_loader_settings *settings = &loader->settings;
    if (settings->count > 0 && loader->given == settings->count)
        ce_fatal(CS_MISUSE, "cs_loader_next: the loader has %lld batches, and all of them have been returned",
                 (long long)settings->count);
    int64_t index = loader->given;
    if (settings->workers == 0) {
        loader->given++;
        settings->fill(settings->argument, index, loader->memory);
        return loader->memory;
    }
    pthread_mutex_lock(&loader->lock);
    loader->given++; /* This releases the slot of the previous batch. */
    pthread_cond_broadcast(&loader->released);
    while (!loader->ready[index % loader->slots])
        pthread_cond_wait(&loader->filled, &loader->lock);
    loader->ready[index % loader->slots] = false;
    pthread_mutex_unlock(&loader->lock);
    return slot(loader, index);
}

void cs_loader_close(cs_loader *loader)
{
    if (!loader)
        return;
    pthread_mutex_lock(&loader->lock);
    loader->closing = true;
    pthread_cond_broadcast(&loader->released);
    pthread_mutex_unlock(&loader->lock);
    for (int i = 0; i < loader->started; i++)
        pthread_join(loader->threads[i], NULL);
    pthread_mutex_destroy(&loader->lock);
    pthread_cond_destroy(&loader->filled);
    pthread_cond_destroy(&loader->released);
    free(loader->memory);
    free(loader->ready);
    free(loader->threads);
    free(loader);
}
