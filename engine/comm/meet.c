/* meet.c - rendezvous of the ranks of one host over a Unix socket: the side of rank 0 and that of the others. */
#include "comm/meet.h"
#include "base/clock.h"
#include "comm/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- rank 0 ----------------------------------------------------------------------------------- */

typedef struct {
    int socket, rank; /* rank -1: not known yet */
} visitor;

typedef struct {
    const cs_world *world;
    ce_guest *guests;
    uint64_t *bytes;
    int listener, missing;
    int visitor_count, visitor_room;
    visitor *visitors;
    struct pollfd *polls; /* the listener, then the visitors in their order */
} party;

static void dismiss(party *host, int index)
{
    visitor *leaving = &host->visitors[index];
    if (leaving->rank >= 0) {
        ce_wire_drop(&host->guests[leaving->rank]);
        host->missing++;
    }
    close(leaving->socket);
    *leaving = host->visitors[--host->visitor_count];
}

static void refuse(int socket, const char *sentence)
{
    ce_wire_message message = { .sort = CS_WIRE_REFUSAL };
    snprintf(message.text, sizeof message.text, "%s", sentence);
    ce_wire_send(socket, &message, NULL); /* a failure means that the process ended and needs no reply */
}

static void admit(party *host, int index)
{
    const cs_world *world = host->world;
    visitor *guest = &host->visitors[index];
    ce_wire_message hello;
    ce_guest brought;
    char sentence[512] = "";
    if (guest->rank >= 0 || !ce_wire_receive(guest->socket, &hello, &brought)) {
        dismiss(host, index); /* its process ended, and another process may take its rank */
        return;
    }
    if (hello.size != world->size)
        snprintf(sentence, sizeof sentence, "rank %d has WORLD_SIZE %d, but rank 0 has %d", hello.rank, hello.size,
                 world->size);
    else if (hello.rank <= 0 || hello.rank >= world->size || brought.memory < 0 || brought.life < 0)
        snprintf(sentence, sizeof sentence, "rank %d has no place in a world of %d", hello.rank, world->size);
    else if (host->guests[hello.rank].memory >= 0)
        snprintf(sentence, sizeof sentence,
                 "there are two ranks %d at MASTER_PORT %d, job \"%s\": give each job its own", hello.rank, world->port,
                 world->job);
    if (sentence[0]) {
        refuse(guest->socket, sentence);
        ce_wire_drop(&brought);
        dismiss(host, index);
        return;
    }
    guest->rank = hello.rank;
    host->guests[hello.rank] = brought;
    *host->bytes = hello.bytes < *host->bytes ? hello.bytes : *host->bytes;
    host->missing--;
}

static void open_door(party *host)
{
    while (host->visitor_count < host->visitor_room) {
        int came = accept4(host->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (came < 0)
            return;
        if (ce_wire_same_user(came))
            host->visitors[host->visitor_count++] = (visitor){ came, -1 };
        else
            close(came);
    }
}

static cs_status name_missing(const party *host, double seconds)
{
    char names[256] = "";
    size_t length = 0;
    for (int i = 1; i < host->world->size && length < sizeof names - 16; i++)
        if (host->guests[i].memory < 0)
            length += (size_t)snprintf(names + length, sizeof names - length, "%s%d", length ? ", " : "", i);
    return ce_fail(CS_NO_PEER,
                   "%s %s did not come within %g seconds: start all ranks of this host with the same "
                   "MASTER_PORT (here %d) and CSPEED_JOB_ID (here \"%s\")",
                   host->missing > 1 ? "ranks" : "rank", names, seconds, host->world->port, host->world->job);
}

static cs_status await_all(party *host, double seconds)
{
    double end = ce_clock_seconds() + seconds;
    while (host->missing > 0) {
        double left = end - ce_clock_seconds();
        if (left <= 0)
            return name_missing(host, seconds);
        int count = host->visitor_count;
        host->polls[0] = (struct pollfd){ count < host->visitor_room ? host->listener : -1, POLLIN, 0 };
        for (int i = 0; i < count; i++)
            host->polls[i + 1] = (struct pollfd){ host->visitors[i].socket, POLLIN, 0 };
        poll(host->polls, (nfds_t)(1 + count), left > 1 ? 1000 : (int)(left * 1000) + 1);
        for (int i = count - 1; i >= 0; i--) /* downwards: dismissing moves the last into the gap */
            if (host->polls[i + 1].revents)
                admit(host, i);
        if (host->polls[0].revents)
            open_door(host);
    }
    return CS_OK;
}

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/* The kernel limits the number of descriptors in flight; beyond it, the ranks need time to receive theirs. */
static cs_status hand_over(const party *host, const visitor *guest, double end)
{
    for (int i = 0; i < host->world->size; i++) {
        ce_wire_message message = { .sort = CS_WIRE_GUEST, .rank = i, .bytes = *host->bytes };
        while (i != guest->rank && !ce_wire_send(guest->socket, &message, &host->guests[i])) {
            if ((errno != EAGAIN && errno != ETOOMANYREFS) || ce_clock_seconds() > end)
                return ce_fail_errno(CS_NO_PEER, errno, "rank %d was lost while the ranks met", guest->rank);
            pause_briefly();
        }
    }
    return CS_OK;
}

static cs_status host_all(party *host, double seconds)
{
    const cs_world *world = host->world;
    host->listener = ce_wire_listen(world);
    if (host->listener < 0 && errno == EADDRINUSE)
        return ce_fail(CS_NO_PEER, "another job is meeting at MASTER_PORT %d, job \"%s\": wait, or choose another port",
                       world->port, world->job);
    if (host->listener < 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "no socket for the ranks to meet");
    CS_TRY(await_all(host, seconds));
    close(host->listener); /* before any rank continues, so that the name is free for the next rendezvous of these
                            * ranks */
    host->listener = -1;
    for (int i = 0; i < host->visitor_count; i++)
        if (host->visitors[i].rank >= 0)
            CS_TRY(hand_over(host, &host->visitors[i], ce_clock_seconds() + seconds));
    return CS_OK;
}

static cs_status meet_as_host(const cs_world *world, double seconds, uint64_t *bytes, ce_guest *guests)
{
    int room = 2 * world->size + 8;
    party host = { .world = world, .guests = guests, .bytes = bytes, .listener = -1, .missing = world->size - 1 };
    host.visitor_room = room;
    host.visitors = calloc((size_t)room, sizeof *host.visitors);
    host.polls = calloc((size_t)room + 1, sizeof *host.polls);
    cs_status status = host.visitors && host.polls
                           ? host_all(&host, seconds)
                           : ce_fail(CS_NO_MEMORY, "no memory for %d ranks to meet", world->size);
    for (int i = 0; i < host.visitor_count; i++) {
        if (status != CS_OK)
            refuse(host.visitors[i].socket, cs_error());
        close(host.visitors[i].socket);
    }
    if (host.listener >= 0)
        close(host.listener);
    free(host.visitors);
    free(host.polls);
    return status;
}

/* ---- the others ------------------------------------------------------------------------------- */

typedef enum { MET, AGAIN, FAILED } outcome;

/* Rank 0 names the missing ranks at its own deadline, so this rank waits a little longer. */
static outcome listen_to_host(int socket, const cs_world *world, double end, uint64_t *bytes, ce_guest *guests)
{
    for (int got = 0; got < world->size - 1;) {
        double left = end - ce_clock_seconds();
        struct pollfd wait = { socket, POLLIN, 0 };
        ce_wire_message message;
        ce_guest brought;
        if (left <= 0) {
            ce_fail(CS_NO_PEER, "rank 0 does not answer: %d of %d ranks were heard of in time", got, world->size - 1);
            return FAILED;
        }
        if (poll(&wait, 1, left > 1 ? 1000 : (int)(left * 1000) + 1) <= 0)
            continue;
        if (!ce_wire_receive(socket, &message, &brought))
            return AGAIN;
        if (message.sort == CS_WIRE_REFUSAL) {
            ce_fail(CS_NO_PEER, "%s", message.text);
            return FAILED;
        }
        if (message.rank < 0 || message.rank >= world->size || guests[message.rank].memory >= 0) {
            ce_wire_drop(&brought);
            return AGAIN;
        }
        guests[message.rank] = brought;
        *bytes = message.bytes;
        got++;
    }
    return MET;
}

static outcome visit(const cs_world *world, double seconds, uint64_t *bytes, ce_guest *guests)
{
    int socket = ce_wire_connect(world);
    ce_wire_message hello = { .sort = CS_WIRE_HELLO, .rank = world->rank, .size = world->size, .bytes = *bytes };
    outcome result = AGAIN;
    if (socket < 0)
        return AGAIN;
    if (!ce_wire_same_user(socket)) {
        ce_fail(CS_NO_PEER, "the meeting place of MASTER_PORT %d belongs to another user: choose another port",
                world->port);
        result = FAILED;
    } else if (ce_wire_send(socket, &hello, &guests[world->rank])) {
        result = listen_to_host(socket, world, ce_clock_seconds() + seconds + 2, bytes, guests);
    }
    for (int i = 0; i < world->size && result == AGAIN; i++)
        if (i != world->rank)
            ce_wire_drop(&guests[i]);
    close(socket);
    return result;
}

static cs_status meet_as_guest(const cs_world *world, double seconds, uint64_t *bytes, ce_guest *guests)
{
    double end = ce_clock_seconds() + seconds;
    do {
        outcome result = visit(world, seconds, bytes, guests);
        if (result != AGAIN)
            return result == MET ? CS_OK : CS_NO_PEER;
        pause_briefly();
    } while (ce_clock_seconds() < end);
    return ce_fail(CS_NO_PEER,
                   "rank 0 did not come within %g seconds: start all ranks of this host with the same "
                   "MASTER_PORT (here %d) and CSPEED_JOB_ID (here \"%s\")",
                   seconds, world->port, world->job);
}

cs_status ce_meet(const cs_world *world, double seconds, uint64_t *bytes, ce_guest *guests)
{
    for (int i = 0; i < world->size; i++)
        if (i != world->rank)
            guests[i] = (ce_guest){ -1, -1 };
    return world->rank == 0 ? meet_as_host(world, seconds, bytes, guests)
                            : meet_as_guest(world, seconds, bytes, guests);
}
