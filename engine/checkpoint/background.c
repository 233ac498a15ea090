/* background.c - asynchronous checkpoint save: copies the state and writes the copy in a thread while training
 * continues. */
#include "checkpoint/background.h"
#include "base/must.h"
#include "base/thread.h"
#include "comm/collective_status.h"
#include "checkpoint/save.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SENTENCE = 4096, HUGE_PAGE = 2 << 20, ALIGNMENT = 64 };

typedef enum { IDLE, WRITING, COMMITTING } stage;

struct ce_background {
    ce_save save;
    stage stage;
    char *dir;
    ce_checkpoint_content content; /* a copy of the caller's content; the elements of its pieces are in `memory` */
    ce_piece *pieces;
    ce_piece *sources; /* the caller's pieces, from which the elements are copied; their names are not used */
    /* Copy functions for `sources`; NULL if the sources are in host memory. */
    const ce_checkpoint_device_copy *device_copy;
    char *memory;
    size_t bytes;

    pthread_t thread;
    bool running;          /* true while `thread` is started and not joined */
    pthread_mutex_t mutex; /* protects `copied` */
    pthread_cond_t changed;
    bool copied;
    /* The thread sets this at its end by a release store, so that `status` and `why` can be read when it is true. */
    atomic_bool done;
    cs_status status;
    char why[SENTENCE];
};

/* ---- the copy ---- */

size_t ce_background_piece_bytes(size_t elements_bytes)
{
    return (size_t)ce_round_up((int64_t)elements_bytes, ALIGNMENT);
}

size_t ce_background_bytes(size_t sum)
{
    return (size_t)ce_round_up((int64_t)sum + ALIGNMENT, HUGE_PAGE);
}

static size_t piece_bytes(const ce_piece *piece)
{
    return ce_background_piece_bytes(ce_piece_bytes(piece));
}

static char *copy_of(const char *text)
{
    return text ? ce_must_copy(text) : NULL;
}

/* Allocates memory for the elements of all pieces; later saves reuse it. */
static cs_status take_memory(ce_background *b, size_t bytes)
{
    if (bytes <= b->bytes)
        return CS_OK;
    free(b->memory);
    b->bytes = bytes;
    b->memory = aligned_alloc(HUGE_PAGE, b->bytes);
    if (!b->memory) {
        b->bytes = 0;
        return ce_fail(CS_NO_MEMORY,
                       "out of memory: cspeed.async_save keeps a copy of this rank's state, which needs %.1f MB; "
                       "turn it off, or use more ranks",
                       1e-6 * (double)bytes);
    }
    madvise(b->memory, b->bytes, MADV_HUGEPAGE); /* an error is ignored: without huge pages the copy is only slower */
    return CS_OK;
}

static void copy_pieces(ce_background *b, const ce_checkpoint_content *content)
{
    size_t at = 0;
    b->pieces = ce_must_alloc((size_t)content->piece_count * sizeof *b->pieces);
    b->sources = ce_must_alloc((size_t)content->piece_count * sizeof *b->sources);
    for (int64_t i = 0; i < content->piece_count; i++) {
        b->pieces[i] = content->pieces[i];
        b->pieces[i].name = copy_of(content->pieces[i].name);
        b->sources[i] = content->pieces[i];
        b->pieces[i].data = b->memory + at;
        b->pieces[i].pitch = 0;
        at += piece_bytes(&content->pieces[i]);
    }
}

static cs_status copy_content(ce_background *b, const char *dir, const ce_checkpoint_content *content)
{
    size_t bytes = 0;
    CE_TRY(ce_write_plan_check(content->pieces, content->piece_count));
    for (int64_t i = 0; i < content->piece_count; i++)
        bytes += piece_bytes(&content->pieces[i]);
    CE_TRY(take_memory(b, ce_background_bytes(bytes)));
    copy_pieces(b, content);
    b->dir = copy_of(dir);
    b->content = *content;
    b->content.tag = copy_of(content->tag);
    b->content.client_state = copy_of(content->client_state);
    b->content.config_text = copy_of(content->config_text);
    b->content.engine = json_deep_copy(content->engine);
    b->content.aliases = json_deep_copy(content->aliases);
    b->content.provenance = json_deep_copy(content->provenance);
    b->content.damaged = json_deep_copy(content->damaged);
    b->content.pieces = b->pieces;
    b->content.device_copy = NULL; /* the copied pieces are in host memory and need no copy functions */
    b->device_copy = content->device_copy;
    return CS_OK;
}

static void forget_content(ce_background *b)
{
    for (int64_t i = 0; b->pieces && i < b->content.piece_count; i++)
        free((void *)(uintptr_t)b->pieces[i].name);
    free(b->pieces);
    free(b->sources);
    free(b->dir);
    free((void *)(uintptr_t)b->content.tag);
    free((void *)(uintptr_t)b->content.client_state);
    free((void *)(uintptr_t)b->content.config_text);
    json_decref((json_t *)(uintptr_t)b->content.engine);
    json_decref((json_t *)(uintptr_t)b->content.aliases);
    json_decref((json_t *)(uintptr_t)b->content.provenance);
    json_decref((json_t *)(uintptr_t)b->content.damaged);
    b->pieces = NULL;
    b->sources = NULL;
    b->dir = NULL;
    b->content = (ce_checkpoint_content){ 0 };
}

/* ---- the thread ---- */

static void end_work(ce_background *b, cs_status status)
{
    b->status = status;
    snprintf(b->why, sizeof b->why, "%s", status == CS_OK ? "" : cs_error());
    atomic_store(&b->done, true);
}

static void *copy_and_write(void *argument)
{
    ce_background *b = argument;
    for (int64_t i = 0; i < b->content.piece_count; i++)
        ce_piece_fetch(b->pieces[i].data, &b->sources[i], b->sources[i].range, b->device_copy);
    pthread_mutex_lock(&b->mutex);
    b->copied = true;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->mutex);
    end_work(b, ce_save_write(&b->save));
    return NULL;
}

static void *commit(void *argument)
{
    ce_background *b = argument;
    end_work(b, ce_save_commit(&b->save));
    return NULL;
}

/* Runs `work` in a new thread; if no thread can be started, runs it on the caller's thread. */
static void start(ce_background *b, void *(*work)(void *))
{
    atomic_store(&b->done, false);
    b->running = ce_thread_start(&b->thread, work, b) == 0;
    if (!b->running)
        work(b);
}

/* ---- the stages ---- */

static void end_save(ce_background *b, cs_status status)
{
    char why[SENTENCE]; /* the message of cs_error() is copied, because the cleanup below may overwrite it */
    snprintf(why, sizeof why, "%s", cs_error());
    ce_save_close(&b->save);
    forget_content(b);
    b->stage = IDLE;
    if (status != CS_OK)
        ce_fail(status, "%s", why);
}

static ce_background *make(void)
{
    ce_background *b = ce_must_alloc(sizeof *b);
    pthread_mutex_init(&b->mutex, NULL);
    pthread_cond_init(&b->changed, NULL);
    return b;
}

cs_status ce_background_save(ce_background **background, cs_comm *comm, const char *dir,
                             const ce_checkpoint_content *content)
{
    if (!*background)
        *background = make();
    ce_background *b = *background;
    CE_ASSERT(b->stage == IDLE);
    b->save = (ce_save){ .rank = cs_comm_rank(comm), .staging.lock = -1 };
    cs_status status = ce_collective_status(comm, copy_content(b, dir, content));
    if (status == CS_OK)
        status = ce_save_open(&b->save, comm, b->dir, &b->content);
    if (status != CS_OK) {
        end_save(b, status);
        return status;
    }
    b->stage = WRITING;
    b->copied = false;
    start(b, copy_and_write);
    return CS_OK;
}

bool ce_background_busy(const ce_background *b)
{
    return b && b->stage != IDLE;
}

void ce_background_hold(ce_background *b)
{
    if (!ce_background_busy(b))
        return;
    pthread_mutex_lock(&b->mutex);
    while (!b->copied)
        pthread_cond_wait(&b->changed, &b->mutex);
    pthread_mutex_unlock(&b->mutex);
}

bool ce_background_ready(const ce_background *b)
{
    return ce_background_busy(b) && atomic_load(&b->done);
}

cs_status ce_background_advance(ce_background *b)
{
    CE_ASSERT(b->stage != IDLE);
    if (b->running)
        pthread_join(b->thread, NULL);
    b->running = false;
    cs_status status = b->status == CS_OK ? CS_OK : ce_fail(b->status, "%s", b->why);
    status = ce_collective_status(b->save.comm, status);
    if (status != CS_OK || b->stage == COMMITTING) {
        end_save(b, status);
        return status;
    }
    ce_save_gather(&b->save);
    b->stage = COMMITTING;
    if (b->save.rank == 0)
        start(b, commit);
    return CS_OK;
}

cs_status ce_background_finish(ce_background *b)
{
    cs_status status = CS_OK;
    while (ce_background_busy(b))
        status = ce_background_advance(b);
    return status;
}

size_t ce_background_held(const ce_background *b)
{
    return b ? b->bytes : 0;
}

void ce_background_close(ce_background *b)
{
    if (!b)
        return;
    CE_ASSERT(b->stage == IDLE);
    pthread_mutex_destroy(&b->mutex);
    pthread_cond_destroy(&b->changed);
    free(b->memory);
    free(b);
}
