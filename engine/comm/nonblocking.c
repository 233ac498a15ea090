/* nonblocking.c - the nonblocking calls, which return before they are done: a queue, and a thread that makes the calls.
 *
 * The thread has a comm of its own, with the same ranks, so that its messages are never confused with those of the
 * caller's thread. Collectives are made one after the other. Messages that follow each other in the queue are moved at
 * the same time: the thread tries to move each of them, and sleeps for a moment when none moves. The record of a call
 * (cs_work) is used again after the call has been waited for, so a training step allocates no new record. */
#include "comm/common.h"
#include "base/misuse.h"
#include "comm/transport.h"
#include "base/beat.h"
#include "base/clock.h"
#include "base/must.h"
#include "base/thread.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MIN_PAUSE = 20 * 1000, MAX_PAUSE = 500 * 1000 }; /* nanoseconds */
#define LOOK_SECONDS 0.2 /* seconds without progress after which the thread looks for lost ranks */

struct cs_work {
    ce_nonblocking *of;
    cs_comm *comm; /* the caller's comm, whose traffic counters are updated */
    cs_work *next;
    ce_call call; /* for a message, call.root is the peer and call.count the number of bytes */
    void *out;
    const void *in;
    bool done;
};

struct ce_nonblocking {
    cs_comm *comm; /* the thread's own comm */
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* protects the fields from here to `closing`, and `done` of every cs_work */
    pthread_cond_t queued, finished;
    cs_work *first, *last, *unused;
    double call_seconds;
    uint64_t
        between_hosts; /* bytes that the thread has sent to other hosts, and are not in the caller's counters yet */
    bool closing;
    /* The members below are used by the thread only: the messages in progress; works[i] is the call of messages[i]. */
    ce_message *messages;
    cs_work **works;
    int count, capacity;
};

/* ---- the thread ---- */

static cs_work *take(ce_nonblocking *background)
{
    cs_work *work = background->first;
    background->first = work->next;
    if (!background->first)
        background->last = NULL;
    return work;
}

static void finish(ce_nonblocking *background, cs_work *work)
{
    pthread_mutex_lock(&background->lock);
    work->done = true;
    background->between_hosts += background->comm->traffic.between_hosts;
    background->comm->traffic.between_hosts = 0;
    pthread_cond_broadcast(&background->finished);
    pthread_mutex_unlock(&background->lock);
}

static void begin(cs_comm *comm, const cs_work *work)
{
    ce_call call = work->call;
    call.number = comm->call.number + !ce_call_is_message(&call);
    if (ce_call_is_message(&call))
        call.count = 0;
    comm->begun = ce_clock_seconds();
    ce_comm_show(comm, call);
}

static void run_collective(cs_comm *comm, const cs_work *work)
{
    const ce_call *call = &work->call;
    begin(comm, work);
    switch (call->what) {
    case CE_BEAT_ALL_REDUCE:
        comm->transport->all_reduce(comm, work->out, call->count, (cs_dtype)call->dtype, (cs_reduce_op)call->op);
        break;
    case CE_BEAT_REDUCE_SCATTER:
        comm->transport->reduce_scatter(comm, work->out, work->in, call->count, (cs_dtype)call->dtype,
                                        (cs_reduce_op)call->op);
        break;
    default:
        comm->transport->all_gather(comm, work->out, work->in, call->count, (cs_dtype)call->dtype);
    }
}

static void add_message(ce_nonblocking *background, cs_work *work)
{
    if (background->count == background->capacity) {
        background->capacity = background->capacity ? 2 * background->capacity : 16;
        size_t capacity = (size_t)background->capacity;
        background->messages = realloc(background->messages, capacity * sizeof *background->messages);
        background->works = realloc(background->works, capacity * sizeof *background->works);
        if (!background->messages || !background->works)
            ce_fatal(CS_NO_MEMORY, "out of memory for %d pending messages", background->capacity);
    }
    begin(background->comm, work);
    bool incoming = work->call.what == CE_BEAT_RECEIVE;
    background->messages[background->count] = (ce_message){ .peer = work->call.root,
                                                            .incoming = incoming,
                                                            .data = incoming ? work->out : (char *)(size_t)work->in,
                                                            .bytes = (size_t)work->call.count };
    background->works[background->count++] = work;
}

/* Removes the completed messages from the list. Afterwards comm->call is the call of one of the remaining messages, or
 * no call if none remains. */
static void remove_done(ce_nonblocking *background)
{
    int kept = 0;
    for (int i = 0; i < background->count; i++) {
        cs_work *work = background->works[i];
        if (background->messages[i].done) {
            finish(background, work);
            continue;
        }
        background->messages[kept] = background->messages[i];
        background->works[kept++] = work;
    }
    if (kept == 0)
        ce_comm_show_none(background->comm);
    else if (kept < background->count)
        begin(background->comm, background->works[kept - 1]);
    background->count = kept;
}

/* This function is called when no message has moved since `idle_since`. Ends the process if a rank is lost, if the peer
 * of the first message has closed its comm, or if the time limit of a call is over. */
static void look_around(const ce_nonblocking *background, double idle_since)
{
    cs_comm *comm = background->comm;
    double limit = comm->settings.call_seconds, idle = ce_clock_seconds() - idle_since;
    bool closed = false;
    int lost = comm->transport->missing ? comm->transport->missing(comm, &closed) : -1;
    int peer = background->messages[0].peer;
    if (lost >= 0 && (!closed || lost == peer))
        comm->transport->lose(comm, lost, closed ? "has left" : "was lost");
    if (limit > 0 && idle > limit)
        comm->transport->lose(comm, peer, "did not take part within the time limit of a call");
}

static void move_messages(ce_nonblocking *background, double *idle_since, long *pause)
{
    if (background->comm->transport->move(background->comm, background->messages, background->count, false)) {
        *idle_since = ce_clock_seconds();
        *pause = MIN_PAUSE;
        remove_done(background);
        return;
    }
    if (ce_clock_seconds() - *idle_since > LOOK_SECONDS)
        look_around(background, *idle_since);
    nanosleep(&(struct timespec){ .tv_nsec = *pause }, NULL);
    *pause = *pause < MAX_PAUSE ? 2 * *pause : MAX_PAUSE;
}

/* Waits for calls in the queue. Takes the messages at the head of the queue and adds them to the messages in progress.
 * If then no message is in progress, it takes the next collective and returns it; otherwise it returns NULL. */
static cs_work *take_next(ce_nonblocking *background, bool *ends)
{
    cs_work *collective = NULL;
    pthread_mutex_lock(&background->lock);
    while (!background->first && background->count == 0 && !background->closing)
        pthread_cond_wait(&background->queued, &background->lock);
    while (background->first && ce_call_is_message(&background->first->call))
        add_message(background, take(background));
    if (background->first && background->count == 0)
        collective = take(background);
    *ends = !collective && background->count == 0;
    background->comm->settings.call_seconds = background->call_seconds;
    pthread_mutex_unlock(&background->lock);
    return collective;
}

static void *serve(void *argument)
{
    ce_nonblocking *background = argument;
    double idle_since = ce_clock_seconds();
    long pause = MIN_PAUSE;
    for (;;) {
        bool ends;
        int before = background->count;
        cs_work *collective = take_next(background, &ends);
        if (ends)
            return NULL;
        if (background->count > before) {
            idle_since = ce_clock_seconds();
            pause = MIN_PAUSE;
        }
        if (collective) {
            run_collective(background->comm, collective);
            finish(background, collective);
        } else {
            move_messages(background, &idle_since, &pause);
        }
    }
}

/* ---- opening, closing ---- */

cs_status ce_comm_open_nonblocking(cs_comm *comm)
{
    cs_comm_settings settings = comm->settings;
    ce_nonblocking *background = calloc(1, sizeof *background);
    comm->nonblocking = background;
    if (!background)
        return ce_fail(CS_NO_MEMORY, "out of memory for nonblocking calls");
    pthread_mutex_init(&background->lock, NULL);
    pthread_cond_init(&background->queued, NULL);
    pthread_cond_init(&background->finished, NULL);
    background->call_seconds = settings.call_seconds;
    settings.heap_bytes = 1; /* the smallest possible heap, because no memory is allocated from it */
    settings.device = NULL;
    settings.kind = strcmp(comm->kind, "nccl") == 0 ? "auto" : comm->kind;
    settings.nonblocking = false;
    CE_TRY(ce_split(&background->comm, comm, 0, comm->world.rank, &settings));
    int error = ce_thread_start(&background->thread, serve, background);
    background->started = error == 0;
    return error ? ce_fail_errno(CS_NO_MEMORY, error, "cannot start the thread that executes nonblocking calls")
                 : CS_OK;
}

void ce_nonblocking_close(cs_comm *comm)
{
    ce_nonblocking *background = comm->nonblocking;
    if (!background)
        return;
    pthread_mutex_lock(&background->lock);
    background->closing = true;
    pthread_cond_broadcast(&background->queued);
    pthread_mutex_unlock(&background->lock);
    if (background->started)
        pthread_join(background->thread, NULL);
    cs_comm_close(background->comm);
    for (cs_work *work = background->unused, *next; work; work = next) {
        next = work->next;
        free(work);
    }
    pthread_mutex_destroy(&background->lock);
    pthread_cond_destroy(&background->queued);
    pthread_cond_destroy(&background->finished);
    free(background->messages);
    free(background->works);
    free(background);
}

void ce_nonblocking_set_call_seconds(cs_comm *comm, double seconds)
{
    if (!comm->nonblocking)
        return;
    pthread_mutex_lock(&comm->nonblocking->lock);
    comm->nonblocking->call_seconds = seconds;
    pthread_mutex_unlock(&comm->nonblocking->lock);
}

/* ---- calls ---- */

static void check(const cs_comm *comm, const ce_call *call, const void *data)
{
    const char *name = ce_call_name(call->what);
    if (!comm->nonblocking)
        ce_fatal(CS_MISUSE, "nonblocking %s: the communicator must be opened with settings.nonblocking%s", name,
                 comm->world.rank < 0 ? ", and this rank is not a member of the group" : "");
    if (comm->device_side && call->count > 0 && ce_device_holds(comm->device_side->device, data))
        ce_fatal(CS_MISUSE,
                 "nonblocking %s works on host memory only, and its buffer is in the memory of a GPU; there the "
                 "ordinary call returns as soon as it is queued",
                 name);
    CE_ASSERT(!ce_call_is_message(call) ||
              (call->root >= 0 && call->root < comm->world.size && call->root != comm->world.rank));
}

static cs_work *queue(cs_comm *comm, ce_call call, void *out, const void *in)
{
    check(comm, &call, in);
    ce_nonblocking *background = comm->nonblocking;
    pthread_mutex_lock(&background->lock);
    cs_work *work = background->unused;
    if (work)
        background->unused = work->next;
    else if (!(work = malloc(sizeof *work)))
        ce_fatal(CS_NO_MEMORY, "out of memory for a nonblocking call");
    *work = (cs_work){ .of = background, .comm = comm, .call = call, .out = out, .in = in };
    if (background->last)
        background->last->next = work;
    else
        background->first = work;
    background->last = work;
    pthread_cond_signal(&background->queued);
    pthread_mutex_unlock(&background->lock);
    return work;
}

static cs_work *queue_collective(cs_comm *comm, int what, void *out, const void *in, int64_t count, cs_dtype dtype,
                                 cs_reduce_op op)
{
    if (comm->nonblocking) /* otherwise `check` says what is missing */
        ce_comm_check(comm, what, count, dtype, op);
    uint64_t others = (uint64_t)(comm->world.size - 1), bytes = (uint64_t)count * cs_dtype_bytes(dtype);
    cs_work *work = queue(comm, (ce_call){ (uint8_t)what, (uint8_t)dtype, (uint8_t)op, 0, count, 0 }, out, in);
    comm->traffic.calls++;
    comm->traffic.bytes +=
        what == CE_BEAT_ALL_REDUCE ? 2 * others * bytes / (uint64_t)comm->world.size : others * bytes;
    return work;
}

static cs_work *queue_message(cs_comm *comm, int what, void *out, const void *in, size_t bytes, int peer)
{
    cs_work *work = queue(comm, (ce_call){ (uint8_t)what, CS_U8, 0, peer, (int64_t)bytes, 0 }, out, in);
    comm->traffic.calls++;
    comm->traffic.bytes += what == CE_BEAT_SEND ? bytes : 0;
    return work;
}

cs_work *cs_comm_isend(cs_comm *comm, const void *data, size_t bytes, int to)
{
    CE_GIVEN(comm);
    return queue_message(comm, CE_BEAT_SEND, NULL, data, bytes, to);
}

cs_work *cs_comm_ireceive(cs_comm *comm, void *data, size_t bytes, int from)
{
    CE_GIVEN(comm);
    return queue_message(comm, CE_BEAT_RECEIVE, data, data, bytes, from);
}

cs_work *cs_comm_iall_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    CE_GIVEN(comm);
    return queue_collective(comm, CE_BEAT_ALL_REDUCE, data, data, count, dtype, op);
}

cs_work *cs_comm_ireduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype,
                                 cs_reduce_op op)
{
    CE_GIVEN(comm);
    return queue_collective(comm, CE_BEAT_REDUCE_SCATTER, out, in, count, dtype, op);
}

cs_work *cs_comm_iall_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    CE_GIVEN(comm);
    return queue_collective(comm, CE_BEAT_ALL_GATHER, out, in, count, dtype, CS_SUM);
}

bool cs_work_is_done(cs_work *work)
{
    CE_GIVEN(work);
    pthread_mutex_lock(&work->of->lock);
    bool done = work->done;
    pthread_mutex_unlock(&work->of->lock);
    return done;
}

void cs_work_wait(cs_work *work)
{
    CE_GIVEN(work);
    ce_nonblocking *background = work->of;
    int axis = work->comm->axis;
    double begun = ce_clock_seconds();
    ce_beat_enter(axis, work->call.what);
    pthread_mutex_lock(&background->lock);
    while (!work->done)
        pthread_cond_wait(&background->finished, &background->lock);
    work->comm->traffic.seconds += ce_clock_seconds() - begun;
    work->comm->traffic.between_hosts += background->between_hosts;
    background->between_hosts = 0;
    work->next = background->unused;
    background->unused = work;
    pthread_mutex_unlock(&background->lock);
    ce_beat_leave(axis);
}
