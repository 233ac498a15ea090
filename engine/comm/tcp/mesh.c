/* mesh.c - connects all ranks of several hosts with each other over TCP. The ranks publish their addresses in the
 * store. Each rank connects to the ranks with lower numbers, and both sides of a connection authenticate each other. */
#include "base/names.h"
#include "base/clock.h"
#include "security/join.h"
#include "base/log.h"
#include "base/plural.h"
#include "comm/tcp/tcp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_BYTES = 32, MAX_UNKNOWN = 16 };

enum { PER_PAGE = CE_STORE_VALUE / sizeof(ce_mesh_endpoint) };

/* The identity that a rank sends in the handshake with another rank. */
typedef struct {
    char what[4];
    int32_t rank;
} identity;

typedef struct {
    int socket; /* the connection's socket; -1 if it is closed or if a ce_tcp_link owns it */
    /* The expected rank if this rank opened the connection; -1 if the peer opened it and its rank is not known yet. */
    int rank;
    ce_join join;
} peer;

typedef struct {
    ce_tcp *tcp;
    ce_store *store;
    ce_mesh_endpoint *endpoints;
    unsigned char key[CE_MAC_BYTES];
    bool keyed;
    int listener, missing;
    int peer_count, peer_capacity;
    peer *peers;
    struct pollfd *polls;
    double seconds, end;
} mesh_builder;

/* ---- endpoints ---- */

/* Opens this rank's listening socket and describes its address. All ranks know the address of rank 0 already, so rank 0
 * publishes none, unless CSPEED_SOCKET_IFNAME chooses a different address. */
static cs_status make_own_endpoint(mesh_builder *all, ce_mesh_endpoint *own_endpoint)
{
    const cs_world *world = &all->tcp->comm->world;
    ce_address address;
    CE_TRY(ce_socket_local(&address, ce_store_socket(all->store)));
    bool by_master = world->rank == 0 && !getenv("CSPEED_SOCKET_IFNAME");
    /* Other ranks use the address at which they have reached the store, which may be any address of this host. */
    if (by_master && ce_store_is_everywhere(all->store))
        ce_socket_set_any(&address, 0);
    CE_TRY(ce_socket_listen(&all->listener, &address, all->keyed));
    *own_endpoint = (ce_mesh_endpoint){ .place = { world->local_rank, world->local_size },
                                        .port = ce_socket_port(&address),
                                        .bytes = by_master ? 0 : (int32_t)address.bytes };
    memcpy(own_endpoint->name, &address.name, (size_t)own_endpoint->bytes);
    return CS_OK;
}

/* Collects the endpoints of all ranks on rank 0, and stores them again as pages: values with PER_PAGE endpoints
 * each. */
static cs_status collect(mesh_builder *all)
{
    char name[NAME_BYTES];
    size_t bytes;
    int size = all->tcp->size;
    for (int i = 1; i < size; i++) {
        snprintf(name, sizeof name, "endpoint/%d", i);
        CE_TRY(ce_store_get(all->store, name, &all->endpoints[i], sizeof(ce_mesh_endpoint), &bytes, all->seconds));
        if (bytes != sizeof(ce_mesh_endpoint))
            return ce_fail(CS_NO_PEER, "rank %d has another version of cspeed: install the same on all hosts", i);
    }
    for (int from = 0; from < size; from += (int)PER_PAGE) {
        int count = size - from < (int)PER_PAGE ? size - from : (int)PER_PAGE;
        snprintf(name, sizeof name, "page/%d", from);
        CE_TRY(ce_store_set(all->store, name, &all->endpoints[from], (size_t)count * sizeof(ce_mesh_endpoint)));
    }
    return CS_OK;
}

static cs_status exchange_endpoints(mesh_builder *all)
{
    char name[NAME_BYTES];
    size_t bytes;
    int size = all->tcp->size, rank = all->tcp->rank;
    CE_TRY(make_own_endpoint(all, &all->endpoints[rank]));
    if (rank == 0)
        return collect(all);
    snprintf(name, sizeof name, "endpoint/%d", rank);
    CE_TRY(ce_store_set(all->store, name, &all->endpoints[rank], sizeof(ce_mesh_endpoint)));
    for (int from = 0; from < size; from += (int)PER_PAGE) {
        size_t capacity = (size_t)(size - from) * sizeof(ce_mesh_endpoint);
        snprintf(name, sizeof name, "page/%d", from);
        CE_TRY(ce_store_get(all->store, name, &all->endpoints[from], capacity, &bytes, all->seconds));
        if (bytes != (capacity < PER_PAGE * sizeof(ce_mesh_endpoint) ? capacity : PER_PAGE * sizeof(ce_mesh_endpoint)))
            return ce_fail(CS_NO_PEER, "rank 0 has another version of cspeed: install the same on all hosts");
    }
    return CS_OK;
}

/* ---- connecting ---- */

static void begin_joining(mesh_builder *all, peer *with, int socket, int rank)
{
    const cs_world *world = &all->tcp->comm->world;
    identity own_identity = { "mesh", world->rank };
    with->socket = socket;
    with->rank = rank;
    ce_socket_tune(socket);
    ce_join_begin(&with->join, rank >= 0, all->keyed ? all->key : NULL, world->job, world->attempt, &own_identity,
                  sizeof own_identity);
    with->join.deadline = rank >= 0 ? all->end : with->join.deadline;
}

static cs_status connect_to(mesh_builder *all, int rank)
{
    char text[CE_SOCKET_TEXT];
    const ce_mesh_endpoint *its = &all->endpoints[rank];
    ce_address address = { 0 };
    if (all->store)
        address = *ce_store_master(all->store);
    if (its->bytes > 0 && its->bytes <= (int32_t)sizeof its->name) {
        address = (ce_address){ .bytes = (socklen_t)its->bytes };
        memcpy(&address.name, its->name, (size_t)its->bytes);
    }
    ce_socket_set_port(&address, its->port);
    int made;
    cs_status status = ce_socket_connect_to(&made, &address, all->keyed, all->end - ce_clock_seconds());
    if (status == CS_NO_PEER)
        return ce_fail(CS_NO_PEER,
                       "rank %d cannot reach rank %d at %s: if its host must be reached through another network, "
                       "name the interface in CSPEED_SOCKET_IFNAME: %s",
                       all->tcp->rank, rank, ce_socket_text(&address, text), cs_error());
    CE_TRY(status);
    begin_joining(all, &all->peers[all->peer_count++], made, rank);
    return CS_OK;
}

/* ---- handshake ---- */

static void drop(mesh_builder *all, int index)
{
    if (all->peers[index].socket >= 0)
        close(all->peers[index].socket);
    ce_mac_forget(&all->peers[index].join, sizeof all->peers[index].join);
    all->peers[index] = all->peers[--all->peer_count];
}

/* Closes one incoming connection, because there are too many. A connection that has sent no hello of this job is chosen
 * if there is one. Connections that this rank opened are kept. */
static void drop_unknown(mesh_builder *all)
{
    int chosen = -1;
    for (int i = 0; i < all->peer_count; i++)
        if (all->peers[i].rank < 0 && (chosen < 0 || !ce_join_heard(&all->peers[i].join)))
            chosen = i;
    if (chosen >= 0)
        drop(all, chosen);
}

static cs_status accept_peer(mesh_builder *all)
{
    int accepted = accept4(all->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (accepted < 0)
        return errno == EMFILE || errno == ENFILE
                   ? ce_fail_errno(CS_NO_PEER, errno, "rank %d cannot accept a connection", all->tcp->rank)
                   : CS_OK;
    if (all->peer_count == all->peer_capacity)
        drop_unknown(all);
    begin_joining(all, &all->peers[all->peer_count++], accepted, -1);
    return CS_OK;
}

static cs_status admit(mesh_builder *all, peer *with)
{
    identity its = { "", -1 };
    bool caller = with->rank >= 0;
    if (with->join.peer_bytes == sizeof its)
        memcpy(&its, with->join.peer, sizeof its);
    bool fits = memcmp(its.what, "mesh", sizeof its.what) == 0 &&
                (caller ? its.rank == with->rank : its.rank > all->tcp->rank && its.rank < all->tcp->size) &&
                all->tcp->links[its.rank].socket < 0;
    if (!fits)
        return ce_fail(CS_NO_PEER, "rank %d connects to rank %d unexpectedly: two jobs have the same job id", its.rank,
                       all->tcp->rank);
    ce_tcp_link *link = &all->tcp->links[its.rank];
    link->socket = with->socket;
    with->socket = -1;
    ce_seal_open(&link->seal, with->join.session, caller);
    all->missing--;
    return CS_OK;
}

/* Advances the handshake of one connection. If an incoming connection is refused, this is only logged. If a rank to
 * which this rank connected refuses it, opening the mesh fails. */
static cs_status advance_handshake(mesh_builder *all, int index)
{
    peer *with = &all->peers[index];
    ce_join_state state = ce_join_advance(&with->join, with->socket);
    cs_status status = CS_OK;
    if (state == CE_JOIN_WAITS)
        return CS_OK;
    if (state == CE_JOIN_REFUSED)
        status = with->rank < 0 ? CS_OK
                                : ce_fail(CS_NO_PEER, "rank %d and rank %d cannot connect: %s", all->tcp->rank,
                                          with->rank, cs_error());
    if (state == CE_JOIN_REFUSED && with->rank < 0)
        ce_log(CE_LOG_WARNING, "refused a connection to rank %d: %s", all->tcp->rank, cs_error());
    if (state == CE_JOIN_DONE)
        status = admit(all, with);
    drop(all, index);
    return status;
}

static cs_status report_missing(const mesh_builder *all)
{
    ce_names names = { 0 };
    for (int i = 0; i < all->tcp->size; i++)
        if (i != all->tcp->rank && all->tcp->links[i].socket < 0)
            ce_names_add(&names, "%d", i);
    return ce_fail(CS_NO_PEER,
                   "rank %d waited %.3g seconds for a connection with rank%s %s: if the hosts are connected by "
                   "another network, name the interface in CSPEED_SOCKET_IFNAME",
                   all->tcp->rank, all->seconds, ce_plural(all->missing), ce_names_text(&names));
}

static cs_status connect_all(mesh_builder *all)
{
    for (int i = 0; i < all->tcp->rank; i++)
        CE_TRY(connect_to(all, i));
    while (all->missing > 0) {
        int count = all->peer_count;
        if (ce_clock_seconds() > all->end)
            return report_missing(all);
        all->polls[0] = (struct pollfd){ all->listener, POLLIN, 0 };
        for (int i = 0; i < count; i++)
            all->polls[i + 1] = (struct pollfd){ all->peers[i].socket, ce_join_events(&all->peers[i].join), 0 };
        poll(all->polls, (nfds_t)count + 1, 500);
        /* `i` descends, because drop() removes a connection by moving the last connection to its index. */
        for (int i = count - 1; i >= 0; i--)
            CE_TRY(advance_handshake(all, i));
        if (all->polls[0].revents)
            CE_TRY(accept_peer(all));
    }
    return CS_OK;
}

/* ---- opening ---- */

static cs_status build(mesh_builder *all, ce_mesh_place *places)
{
    size_t size = (size_t)all->tcp->size;
    const ce_meeting *meeting = all->tcp->comm->meeting;
    all->peer_capacity = all->tcp->size + MAX_UNKNOWN;
    all->endpoints = calloc(size, sizeof *all->endpoints);
    all->peers = calloc((size_t)all->peer_capacity, sizeof *all->peers);
    all->polls = calloc((size_t)all->peer_capacity + 1, sizeof *all->polls);
    if (!all->endpoints || !all->peers || !all->polls)
        return ce_fail(CS_NO_MEMORY, "out of memory for the rendezvous of %d ranks", all->tcp->size);
    CE_TRY(ce_join_key(all->key, &all->keyed));
    if (meeting && meeting->endpoints) {
        all->listener = *meeting->listener;
        *meeting->listener = -1;
        memcpy(all->endpoints, meeting->endpoints, size * sizeof *all->endpoints);
    } else if (meeting) {
        all->store = meeting->store;
        CE_TRY(exchange_endpoints(all));
    } else {
        CE_TRY(ce_store_open(&all->store, &all->tcp->comm->world, all->seconds));
        CE_TRY(exchange_endpoints(all));
    }
    all->end = ce_clock_seconds() + all->seconds;
    for (size_t i = 0; i < size; i++)
        places[i] = all->endpoints[i].place;
    return connect_all(all);
}

cs_status ce_mesh_open(ce_tcp *tcp, ce_mesh_place *places, double seconds)
{
    mesh_builder all = { .tcp = tcp, .listener = -1, .missing = tcp->size - 1, .seconds = seconds };
    cs_status status = build(&all, places);
    while (all.peer_count > 0)
        drop(&all, 0);
    if (all.listener >= 0)
        close(all.listener);
    if (!tcp->comm->meeting)
        ce_store_close(all.store);
    ce_mac_forget(all.key, sizeof all.key);
    free(all.endpoints);
    free(all.peers);
    free(all.polls);
    return status;
}

cs_status ce_mesh_listen(const ce_tcp *tcp, int other, int *listener, ce_mesh_endpoint *own_endpoint)
{
    unsigned char key[CE_MAC_BYTES];
    bool keyed;
    ce_address address;
    CE_TRY(ce_join_key(key, &keyed));
    ce_mac_forget(key, sizeof key);
    CE_TRY(ce_socket_local(&address, tcp->links[other].socket));
    CE_TRY(ce_socket_listen(listener, &address, keyed));
    own_endpoint->port = ce_socket_port(&address);
    own_endpoint->bytes = (int32_t)address.bytes;
    memcpy(own_endpoint->name, &address.name, (size_t)address.bytes);
    return CS_OK;
}
