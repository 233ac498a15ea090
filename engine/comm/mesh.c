/* mesh.c - connects all ranks of several hosts with each other over TCP. The ranks publish their addresses in the
 * store, each connects to the ranks with lower numbers, and both sides of a connection authenticate each other. */
#include "base/clock.h"
#include "base/join.h"
#include "base/log.h"
#include "comm/store.h"
#include "comm/tcp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CARD_TEXT = 32, MOST_STRANGERS = 16 };

/* What a rank publishes about itself. */
typedef struct {
    ce_mesh_place place;
    int32_t port, bytes; /* bytes 0: its address is that of rank 0 */
    char name[28];       /* a sockaddr_in or sockaddr_in6 */
} card;

enum { CARDS_A_PAGE = CS_STORE_VALUE / sizeof(card) };

/* The identity that a rank sends in the handshake with another. */
typedef struct {
    char what[4];
    int32_t rank;
} identity;

typedef struct {
    int socket; /* -1: none */
    int rank;   /* the expected rank, if we connected; -1: it connected to us and its rank is not known yet */
    ce_join join;
} visitor;

typedef struct {
    ce_tcp *tcp;
    ce_store *store;
    card *cards;
    unsigned char key[CS_MAC_BYTES];
    bool keyed;
    int listener, missing;
    int visitor_count, visitor_room;
    visitor *visitors;
    struct pollfd *polls;
    double seconds, end;
} meeting;

/* ---- cards ------------------------------------------------------------------------------------ */

/* All other ranks know the address of rank 0 already, so it need not publish one. */
static cs_status make_own_card(meeting *all, card *own_card)
{
    const cs_world *world = &all->tcp->comm->world;
    ce_address address;
    CS_TRY(ce_dial_own(&address, ce_store_socket(all->store)));
    bool by_master = world->rank == 0 && !getenv("CSPEED_SOCKET_IFNAME");
    if (by_master && all->keyed) /* it connected to itself, perhaps over the loopback, which other hosts cannot use */
        CS_TRY(ce_dial_resolve(&address, address.name.ss_family == AF_INET6 ? "::" : "0.0.0.0", 0));
    CS_TRY(ce_dial_listen(&all->listener, &address, all->keyed));
    *own_card = (card){ .place = { world->local_rank, world->local_size },
                        .port = ce_dial_port(&address),
                        .bytes = by_master ? 0 : (int32_t)address.bytes };
    memcpy(own_card->name, &address.name, (size_t)own_card->bytes);
    return CS_OK;
}

/* Rank 0 collects the data of all ranks and publishes it in pages. */
static cs_status collect(meeting *all)
{
    char name[CARD_TEXT];
    size_t bytes;
    int size = all->tcp->size;
    for (int i = 1; i < size; i++) {
        snprintf(name, sizeof name, "card/%d", i);
        CS_TRY(ce_store_get(all->store, name, &all->cards[i], sizeof(card), &bytes, all->seconds));
        if (bytes != sizeof(card))
            return ce_fail(CS_NO_PEER, "rank %d is of another version of cspeed: install the same on all hosts", i);
    }
    for (int from = 0; from < size; from += (int)CARDS_A_PAGE) {
        int count = size - from < (int)CARDS_A_PAGE ? size - from : (int)CARDS_A_PAGE;
        snprintf(name, sizeof name, "page/%d", from);
        CS_TRY(ce_store_set(all->store, name, &all->cards[from], (size_t)count * sizeof(card)));
    }
    return CS_OK;
}

static cs_status exchange_cards(meeting *all)
{
    char name[CARD_TEXT];
    size_t bytes;
    int size = all->tcp->size, rank = all->tcp->rank;
    CS_TRY(make_own_card(all, &all->cards[rank]));
    if (rank == 0)
        return collect(all);
    snprintf(name, sizeof name, "card/%d", rank);
    CS_TRY(ce_store_set(all->store, name, &all->cards[rank], sizeof(card)));
    for (int from = 0; from < size; from += (int)CARDS_A_PAGE) {
        size_t room = (size_t)(size - from) * sizeof(card);
        snprintf(name, sizeof name, "page/%d", from);
        CS_TRY(ce_store_get(all->store, name, &all->cards[from], room, &bytes, all->seconds));
        if (bytes != (room < CARDS_A_PAGE * sizeof(card) ? room : CARDS_A_PAGE * sizeof(card)))
            return ce_fail(CS_NO_PEER, "rank 0 is of another version of cspeed: install the same on all hosts");
    }
    return CS_OK;
}

/* ---- calling ---------------------------------------------------------------------------------- */

static void begin_joining(meeting *all, visitor *with, int socket, int rank)
{
    const cs_world *world = &all->tcp->comm->world;
    identity own_identity = { "mesh", world->rank };
    with->socket = socket;
    with->rank = rank;
    ce_dial_tune(socket);
    ce_join_begin(&with->join, rank >= 0, all->keyed ? all->key : NULL, world->job, world->attempt, &own_identity,
                  sizeof own_identity);
    with->join.deadline = rank >= 0 ? all->end : with->join.deadline;
}

static cs_status call(meeting *all, int rank)
{
    char text[CS_DIAL_TEXT];
    const card *its = &all->cards[rank];
    ce_address address = *ce_store_master(all->store);
    if (its->bytes > 0 && its->bytes <= (int32_t)sizeof its->name) {
        address = (ce_address){ .bytes = (socklen_t)its->bytes };
        memcpy(&address.name, its->name, (size_t)its->bytes);
    }
    ce_dial_set_port(&address, its->port);
    CS_TRY(ce_join_allow((const struct sockaddr *)(const void *)&address.name, all->keyed));
    int made = ce_dial_call(&address, all->end - ce_clock_seconds());
    if (made < 0)
        return ce_fail_errno(CS_NO_PEER, errno,
                             "rank %d cannot reach rank %d at %s: if its host has another network for this, name the "
                             "interface in CSPEED_SOCKET_IFNAME",
                             all->tcp->rank, rank, ce_dial_text(&address, text));
    begin_joining(all, &all->visitors[all->visitor_count++], made, rank);
    return CS_OK;
}

/* ---- joining ---------------------------------------------------------------------------------- */

static void dismiss(meeting *all, int index)
{
    if (all->visitors[index].socket >= 0)
        close(all->visitors[index].socket);
    ce_mac_forget(&all->visitors[index].join, sizeof all->visitors[index].join);
    all->visitors[index] = all->visitors[--all->visitor_count];
}

/* Of the incoming connections, one without a hello of this job, or else any; never one that we opened. */
static void dismiss_caller(meeting *all)
{
    int chosen = -1;
    for (int i = 0; i < all->visitor_count; i++)
        if (all->visitors[i].rank < 0 && (chosen < 0 || !ce_join_heard(&all->visitors[i].join)))
            chosen = i;
    if (chosen >= 0)
        dismiss(all, chosen);
}

static cs_status open_door(meeting *all)
{
    int came = accept4(all->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (came < 0)
        return errno == EMFILE || errno == ENFILE
                   ? ce_fail_errno(CS_NO_PEER, errno, "rank %d cannot take a connection of another", all->tcp->rank)
                   : CS_OK;
    if (all->visitor_count == all->visitor_room)
        dismiss_caller(all);
    begin_joining(all, &all->visitors[all->visitor_count++], came, -1);
    return CS_OK;
}

static cs_status seat(meeting *all, visitor *with)
{
    identity its = { "", -1 };
    bool caller = with->rank >= 0;
    if (with->join.peer_bytes == sizeof its)
        memcpy(&its, with->join.peer, sizeof its);
    bool fits = memcmp(its.what, "mesh", sizeof its.what) == 0 &&
                (caller ? its.rank == with->rank : its.rank > all->tcp->rank && its.rank < all->tcp->size) &&
                all->tcp->links[its.rank].socket < 0;
    if (!fits)
        return ce_fail(CS_NO_PEER, "rank %d connects to rank %d, and has no reason to: two jobs have the same id",
                       its.rank, all->tcp->rank);
    ce_tcp_link *link = &all->tcp->links[its.rank];
    link->socket = with->socket;
    with->socket = -1;
    ce_seal_open(&link->seal, with->join.session, caller);
    all->missing--;
    return CS_OK;
}

/* A refused incoming connection is only logged; if a rank to which we connected refuses us, opening fails. */
static cs_status attend(meeting *all, int index)
{
    visitor *with = &all->visitors[index];
    ce_join_state state = ce_join_advance(&with->join, with->socket);
    cs_status status = CS_OK;
    if (state == CS_JOIN_WAITS)
        return CS_OK;
    if (state == CS_JOIN_REFUSED)
        status = with->rank < 0 ? CS_OK
                                : ce_fail(CS_NO_PEER, "rank %d and rank %d do not come together: %s", all->tcp->rank,
                                          with->rank, cs_error());
    if (state == CS_JOIN_REFUSED && with->rank < 0)
        ce_log(CS_LOG_WARNING, "refused a caller at rank %d: %s", all->tcp->rank, cs_error());
    if (state == CS_JOIN_DONE)
        status = seat(all, with);
    dismiss(all, index);
    return status;
}

static cs_status name_missing(const meeting *all)
{
    char names[256] = "";
    size_t length = 0;
    for (int i = 0; i < all->tcp->size && length < sizeof names - 16; i++)
        if (i != all->tcp->rank && all->tcp->links[i].socket < 0)
            length += (size_t)snprintf(names + length, sizeof names - length, "%s%d", length ? ", " : "", i);
    return ce_fail(CS_NO_PEER,
                   "rank %d waited %.3g seconds for a connection with rank%s %s: if the hosts have another network for "
                   "this, name the interface in CSPEED_SOCKET_IFNAME",
                   all->tcp->rank, all->seconds, all->missing > 1 ? "s" : "", names);
}

static cs_status connect_all(meeting *all)
{
    for (int i = 0; i < all->tcp->rank; i++)
        CS_TRY(call(all, i));
    while (all->missing > 0) {
        int count = all->visitor_count;
        if (ce_clock_seconds() > all->end)
            return name_missing(all);
        all->polls[0] = (struct pollfd){ all->listener, POLLIN, 0 };
        for (int i = 0; i < count; i++)
            all->polls[i + 1] = (struct pollfd){ all->visitors[i].socket, ce_join_events(&all->visitors[i].join), 0 };
        poll(all->polls, (nfds_t)count + 1, 500);
        for (int i = count - 1; i >= 0; i--) /* downwards: dismissing moves the last into the gap */
            CS_TRY(attend(all, i));
        if (all->polls[0].revents)
            CS_TRY(open_door(all));
    }
    return CS_OK;
}

/* ---- all of it -------------------------------------------------------------------------------- */

static cs_status build(meeting *all, ce_mesh_place *places)
{
    size_t size = (size_t)all->tcp->size;
    all->visitor_room = all->tcp->size + MOST_STRANGERS;
    all->cards = calloc(size, sizeof *all->cards);
    all->visitors = calloc((size_t)all->visitor_room, sizeof *all->visitors);
    all->polls = calloc((size_t)all->visitor_room + 1, sizeof *all->polls);
    if (!all->cards || !all->visitors || !all->polls)
        return ce_fail(CS_NO_MEMORY, "no memory for %d ranks to meet", all->tcp->size);
    CS_TRY(ce_join_key(all->key, &all->keyed));
    CS_TRY(ce_store_open(&all->store, &all->tcp->comm->world, all->seconds));
    all->end = ce_clock_seconds() + all->seconds;
    CS_TRY(exchange_cards(all));
    for (size_t i = 0; i < size; i++)
        places[i] = all->cards[i].place;
    return connect_all(all);
}

cs_status ce_mesh_open(ce_tcp *tcp, ce_mesh_place *places, double seconds)
{
    meeting all = { .tcp = tcp, .listener = -1, .missing = tcp->size - 1, .seconds = seconds };
    cs_status status = build(&all, places);
    while (all.visitor_count > 0)
        dismiss(&all, 0);
    if (all.listener >= 0)
        close(all.listener);
    ce_store_close(all.store);
    ce_mac_forget(all.key, sizeof all.key);
    free(all.cards);
    free(all.visitors);
    free(all.polls);
    return status;
}
