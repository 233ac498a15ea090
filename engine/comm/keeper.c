/* keeper.c - the server of the key-value store on rank 0: one thread that polls all connections.
 *
 * A connection is unauthenticated until the handshake is complete. An unauthenticated connection is closed when it is
 * refused, when its time is over, or when there are too many (the oldest first), so it cannot block the ranks. */
#include "comm/letters.h"
#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { MOST_STRANGERS = 256, NAME_SECONDS = 10, REST_SECONDS = 1, TICK_MILLISECONDS = 200 };

/* ---- guests ----------------------------------------------------------------------------------- */

static void log_refusal(const ce_letters_guest *who)
{
    ce_log(CS_LOG_WARNING, "refused %s at the meeting of the ranks: %s", who->from, cs_error());
}

static void dismiss(ce_keeper *keeper, ce_letters_guest *leaving)
{
    if (leaving->over)
        return;
    leaving->over = true;
    if (leaving->rank < 0) {
        keeper->strangers--;
    } else if (!keeper->complete) {
        keeper->here[leaving->rank] = false; /* its process ended, and another process may take its rank */
        keeper->missing++;
    }
}

static void dismiss_strangers(ce_keeper *keeper)
{
    for (ce_letters_guest *one = keeper->guests; one; one = one->next)
        if (one->rank < 0)
            dismiss(keeper, one);
}

/* The rank of a peer that completed the handshake, or -1 with an error message if its rank is invalid or taken. */
static int place_of(const ce_keeper *keeper, const ce_join *join)
{
    const cs_world *world = &keeper->world;
    ce_keeper_name name = { -1, 0 };
    if (join->peer_bytes == sizeof name)
        memcpy(&name, join->peer, sizeof name);
    if (name.size != world->size)
        ce_fail(CS_NO_PEER, "rank %d has WORLD_SIZE %d, but rank 0 has %d", name.rank, name.size, world->size);
    else if (name.rank < 0 || name.rank >= world->size)
        ce_fail(CS_NO_PEER, "rank %d has no place in a world of %d", name.rank, world->size);
    else if (keeper->here[name.rank])
        ce_fail(CS_NO_PEER, "there are two ranks %d at MASTER_PORT %d, job \"%s\": give each job its own port or id",
                name.rank, world->port, world->job);
    else
        return name.rank;
    return -1;
}

/* When all ranks are connected the listener is closed; later connections belong to another rendezvous. */
static bool seat(ce_keeper *keeper, ce_letters_guest *newcomer)
{
    int rank = place_of(keeper, &newcomer->join);
    ce_seal_open(&newcomer->seal, newcomer->join.session, false);
    if (rank < 0) {
        ce_letters_fail(newcomer);
        send(newcomer->socket, newcomer->out, newcomer->out_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        log_refusal(newcomer);
        return false;
    }
    newcomer->rank = rank;
    keeper->here[rank] = true;
    keeper->strangers--;
    if (--keeper->missing == 0) {
        keeper->complete = true;
        close(keeper->listener);
        keeper->listener = -1;
        dismiss_strangers(keeper);
    }
    return true;
}

static void attend(ce_keeper *keeper, ce_letters_guest *one)
{
    if (one->rank < 0) {
        ce_join_state state = ce_join_advance(&one->join, one->socket);
        if (state == CS_JOIN_REFUSED)
            log_refusal(one);
        if (state == CS_JOIN_REFUSED || (state == CS_JOIN_DONE && !seat(keeper, one)))
            dismiss(keeper, one);
        return;
    }
    if (!ce_letters_flush(one) || (!one->out_bytes && !ce_letters_hear(keeper, one)) || !ce_letters_flush(one))
        dismiss(keeper, one);
}

/* The oldest connection without a hello of this job; if there is none, the oldest. */
static void dismiss_oldest_stranger(ce_keeper *keeper)
{
    ce_letters_guest *oldest = NULL;
    for (ce_letters_guest *one = keeper->guests; one; one = one->next) /* the newest come first */
        if (one->rank < 0 && !one->over && (!oldest || !ce_join_heard(&one->join) || ce_join_heard(&oldest->join)))
            oldest = one;
    if (oldest)
        dismiss(keeper, oldest);
}

/* The connection stays pending, so poll would return at once: for a while the listener is not polled. */
static void close_door(ce_keeper *keeper, int error)
{
    if (error == EAGAIN || error == ECONNABORTED || error == EINTR)
        return;
    if (keeper->rests_until == 0)
        ce_log(CS_LOG_WARNING, "ranks cannot come to their meeting: %s", ce_reason(error));
    keeper->rests_until = ce_clock_seconds() + REST_SECONDS;
}

static void open_door(ce_keeper *keeper)
{
    ce_address address = { .bytes = sizeof address.name };
    ce_keeper_name identity = { 0, keeper->world.size };
    int came = accept4(keeper->listener, (struct sockaddr *)(void *)&address.name, &address.bytes,
                       SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (came < 0) {
        close_door(keeper, errno);
        return;
    }
    ce_letters_guest *made = calloc(1, sizeof *made);
    if (!made) {
        close(came);
        return;
    }
    if (keeper->strangers == MOST_STRANGERS)
        dismiss_oldest_stranger(keeper);
    made->socket = came;
    made->rank = -1;
    made->next = keeper->guests;
    ce_dial_text(&address, made->from);
    ce_dial_tune(came);
    ce_join_begin(&made->join, false, keeper->keyed ? keeper->key : NULL, keeper->world.job, keeper->world.attempt,
                  &identity, sizeof identity);
    keeper->guests = made;
    keeper->strangers++;
}

static void free_guest(ce_letters_guest *leaving)
{
    close(leaving->socket);
    ce_seal_close(&leaving->seal);
    free(leaving);
}

static void sweep(ce_keeper *keeper)
{
    for (ce_letters_guest **at = &keeper->guests; *at;) {
        ce_letters_guest *one = *at;
        if (one->over) {
            *at = one->next;
            free_guest(one);
        } else {
            at = &one->next;
        }
    }
}

/* ---- the thread ------------------------------------------------------------------------------- */

static bool make_polls(ce_keeper *keeper, size_t wanted)
{
    if (wanted <= keeper->poll_room)
        return true;
    struct pollfd *more = realloc(keeper->polls, 2 * wanted * sizeof *more);
    if (more) {
        keeper->polls = more;
        keeper->poll_room = 2 * wanted;
    }
    return more != NULL;
}

static short events_of(const ce_letters_guest *one)
{
    if (one->rank < 0)
        return ce_join_events(&one->join);
    return one->out_bytes ? POLLOUT : POLLIN;
}

/* Rank 0 wants to close: no further request will succeed. */
static void wind_up(ce_keeper *keeper)
{
    dismiss_strangers(keeper);
    for (ce_letters_guest *one = keeper->guests; one; one = one->next)
        one->deadline = 0;
}

/* Handles everything that is possible now, then what depends on time. */
static bool turn(ce_keeper *keeper)
{
    size_t count = 2, at = 2;
    for (ce_letters_guest *one = keeper->guests; one; one = one->next)
        count++;
    if (!make_polls(keeper, count))
        return false;
    struct pollfd *polls = keeper->polls;
    polls[0] = (struct pollfd){ keeper->wake, POLLIN, 0 };
    bool rests = ce_clock_seconds() < keeper->rests_until;
    polls[1] = (struct pollfd){ rests ? -1 : keeper->listener, POLLIN, 0 };
    for (ce_letters_guest *one = keeper->guests; one; one = one->next)
        polls[at++] = (struct pollfd){ one->socket, events_of(one), 0 };
    poll(polls, (nfds_t)count, TICK_MILLISECONDS);
    at = 2;
    for (ce_letters_guest *one = keeper->guests; one; one = one->next, at++)
        if (polls[at].revents || one->rank < 0)
            attend(keeper, one);
    if (polls[1].revents && keeper->listener >= 0)
        open_door(keeper);
    ce_letters_answer_waiting(keeper);
    for (ce_letters_guest *one = keeper->guests; one; one = one->next)
        if (one->out_bytes && !ce_letters_flush(one))
            dismiss(keeper, one);
    if (polls[0].revents)
        wind_up(keeper);
    sweep(keeper);
    return !polls[0].revents || (keeper->guests && ce_clock_seconds() < keeper->close_by);
}

static void name_missing(ce_keeper *keeper)
{
    char names[256];
    double time = ce_clock_seconds();
    if (keeper->missing == 0 || time < keeper->named + NAME_SECONDS)
        return;
    keeper->named = time;
    ce_letters_list_missing(keeper, names, sizeof names);
    ce_log(CS_LOG_INFO, "waiting for %s of %d for %.0f s now, at %s:%d", names, keeper->world.size,
           time - keeper->begun, keeper->world.address, keeper->world.port);
}

static void *serve(void *argument)
{
    ce_keeper *keeper = argument;
    while (turn(keeper))
        name_missing(keeper);
    return NULL;
}

/* Signals are for the threads of the program. */
static int start(ce_keeper *keeper)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&keeper->thread, NULL, serve, keeper);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static void forget(ce_keeper *keeper)
{
    for (ce_letters_guest *next, *one = keeper->guests; one; one = next) {
        next = one->next;
        free_guest(one);
    }
    for (ce_letters_entry *next, *one = keeper->entries; one; one = next) {
        next = one->next;
        free(one);
    }
    if (keeper->listener >= 0)
        close(keeper->listener);
    if (keeper->wake >= 0)
        close(keeper->wake);
    free(keeper->here);
    free(keeper->polls);
    ce_mac_forget(keeper->key, sizeof keeper->key);
    free(keeper);
}

cs_status ce_keeper_open(ce_keeper **keeper, int listener, const cs_world *world, const unsigned char *key)
{
    ce_keeper *made = calloc(1, sizeof *made);
    *keeper = NULL;
    if (!made) {
        close(listener);
        return ce_fail(CS_NO_MEMORY, "no memory for %d ranks to meet", world->size);
    }
    made->world = *world;
    made->keyed = key != NULL;
    made->listener = listener;
    made->missing = world->size;
    made->begun = made->named = ce_clock_seconds();
    made->here = calloc((size_t)world->size, sizeof *made->here);
    made->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (key)
        memcpy(made->key, key, sizeof made->key);
    int error = made->here && made->wake >= 0 ? start(made) : ENOMEM;
    if (error) {
        forget(made);
        return ce_fail_errno(CS_NO_MEMORY, error, "no thread to keep the meeting of %d ranks", world->size);
    }
    *keeper = made;
    return CS_OK;
}

void ce_keeper_close(ce_keeper *keeper, double seconds)
{
    if (!keeper)
        return;
    keeper->close_by = ce_clock_seconds() + seconds;
    eventfd_write(keeper->wake, 1);
    pthread_join(keeper->thread, NULL);
    forget(keeper);
}
