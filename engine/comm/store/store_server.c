/* store_server.c - the server of the key-value store on rank 0: one thread that polls all connections.
 *
 * A connection is unauthenticated until its handshake is complete. The server closes an unauthenticated connection
 * whose handshake fails or takes longer than the time limit. If there are too many unauthenticated connections, it
 * closes an old one. So unauthenticated connections cannot block the ranks. */
#include "comm/store/store_requests.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/must.h"
#include "base/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { MAX_UNAUTHENTICATED = 256, REPORT_SECONDS = 10, PAUSE_SECONDS = 1, TICK_MILLISECONDS = 200 };

/* ---- clients ---- */

static void log_refusal(const ce_store_client *client)
{
    ce_log(CE_LOG_WARNING, "refused a connection from %s at the rendezvous: %s", client->from, cs_error());
}

static void drop(ce_store_server *server, ce_store_client *client)
{
    if (client->closed)
        return;
    client->closed = true;
    if (client->rank < 0) {
        server->unauthenticated--;
    } else if (!server->complete) {
        /* The rank's process has ended. Another process may connect with the same rank number. */
        server->connected[client->rank] = false;
        server->missing++;
    }
}

static void drop_unauthenticated(ce_store_server *server)
{
    for (ce_store_client *client = server->clients; client; client = client->next)
        if (client->rank < 0)
            drop(server, client);
}

/* Returns the rank of a peer that completed the handshake, or -1 with an error message if its rank is invalid or
 * taken. */
static int rank_of(const ce_store_server *server, const ce_join *join)
{
    const cs_world *world = &server->world;
    ce_store_identity name = { -1, 0 };
    if (join->peer_bytes == sizeof name)
        memcpy(&name, join->peer, sizeof name);
    if (name.size != world->size)
        ce_fail(CS_NO_PEER, "rank %d has WORLD_SIZE %d, but rank 0 has %d", name.rank, name.size, world->size);
    else if (name.rank < 0 || name.rank >= world->size)
        ce_fail(CS_NO_PEER, "rank %d is not below WORLD_SIZE %d", name.rank, world->size);
    else if (server->connected[name.rank])
        ce_fail(CS_NO_PEER,
                "there are two ranks %d at MASTER_PORT %d, job \"%s\": give each job its own port or job id", name.rank,
                world->port, world->job);
    else
        return name.rank;
    return -1;
}

/* Accepts a peer after its handshake. When all ranks are connected, it closes the listener, because later connections
 * belong to another rendezvous. */
static bool admit(ce_store_server *server, ce_store_client *client)
{
    int rank = rank_of(server, &client->join);
    ce_seal_open(&client->seal, client->join.session, false);
    if (rank < 0) {
        ce_store_requests_fail(client);
        send(client->socket, client->out, client->out_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        log_refusal(client);
        return false;
    }
    client->rank = rank;
    server->connected[rank] = true;
    server->unauthenticated--;
    if (--server->missing == 0) {
        server->complete = true;
        close(server->listener);
        server->listener = -1;
        drop_unauthenticated(server);
    }
    return true;
}

static void serve_client(ce_store_server *server, ce_store_client *client)
{
    if (client->rank < 0) {
        ce_join_state state = ce_join_advance(&client->join, client->socket);
        if (state == CE_JOIN_REFUSED)
            log_refusal(client);
        if (state == CE_JOIN_REFUSED || (state == CE_JOIN_DONE && !admit(server, client)))
            drop(server, client);
        return;
    }
    if (!ce_store_requests_flush(client) || (!client->out_bytes && !ce_store_requests_read(server, client)) ||
        !ce_store_requests_flush(client))
        drop(server, client);
}

/* Closes the oldest unauthenticated connection that has sent no hello of this job. If all have sent one, it closes the
 * oldest unauthenticated connection. */
static void drop_oldest_unauthenticated(ce_store_server *server)
{
    ce_store_client *oldest = NULL;
    /* The list begins with the newest connection. */
    for (ce_store_client *client = server->clients; client; client = client->next)
        if (client->rank < 0 && !client->closed &&
            (!oldest || !ce_join_heard(&client->join) || ce_join_heard(&oldest->join)))
            oldest = client;
    if (oldest)
        drop(server, oldest);
}

/* Stops accepting connections for a while after accept() failed. The connection that could not be accepted is still
 * pending; without the pause, poll would return at once for it, again and again. */
static void pause_listening(ce_store_server *server, int error)
{
    if (error == EAGAIN || error == ECONNABORTED || error == EINTR)
        return;
    if (server->paused_until == 0)
        ce_log(CE_LOG_WARNING, "ranks cannot connect to the rendezvous: %s", ce_reason(error));
    server->paused_until = ce_clock_seconds() + PAUSE_SECONDS;
}

static void accept_connection(ce_store_server *server)
{
    ce_address address = { .bytes = sizeof address.name };
    ce_store_identity identity = { 0, server->world.size };
    int accepted = accept4(server->listener, (struct sockaddr *)(void *)&address.name, &address.bytes,
                           SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (accepted < 0) {
        pause_listening(server, errno);
        return;
    }
    ce_store_client *made = ce_must_alloc(sizeof *made);
    if (server->unauthenticated == MAX_UNAUTHENTICATED)
        drop_oldest_unauthenticated(server);
    made->socket = accepted;
    made->rank = -1;
    made->next = server->clients;
    ce_socket_text(&address, made->from);
    ce_socket_tune(accepted);
    ce_join_begin(&made->join, false, server->keyed ? server->key : NULL, server->world.job, server->world.attempt,
                  &identity, sizeof identity);
    server->clients = made;
    server->unauthenticated++;
}

static void free_client(ce_store_client *client)
{
    close(client->socket);
    ce_seal_close(&client->seal);
    free(client);
}

static void free_closed(ce_store_server *server)
{
    for (ce_store_client **at = &server->clients; *at;) {
        ce_store_client *client = *at;
        if (client->closed) {
            *at = client->next;
            free_client(client);
        } else {
            at = &client->next;
        }
    }
}

/* ---- the thread ---- */

static short events_of(const ce_store_client *client)
{
    if (client->rank < 0)
        return ce_join_events(&client->join);
    return client->out_bytes ? POLLOUT : POLLIN;
}

/* This function is called when rank 0 wants to close the store: from now on no request succeeds. */
static void begin_close(ce_store_server *server)
{
    drop_unauthenticated(server);
    for (ce_store_client *client = server->clients; client; client = client->next)
        client->deadline = 0;
}

/* Waits for events for at most TICK_MILLISECONDS, then handles the events and the deadlines that have passed. Returns
 * false if the server has been closed. */
static bool poll_once(ce_store_server *server)
{
    size_t count = 2, at = 2;
    for (ce_store_client *client = server->clients; client; client = client->next)
        count++;
    CE_MUST_HOLD(server->polls, server->poll_capacity, count);
    struct pollfd *polls = server->polls;
    polls[0] = (struct pollfd){ server->wakeup, POLLIN, 0 };
    bool paused = ce_clock_seconds() < server->paused_until;
    polls[1] = (struct pollfd){ paused ? -1 : server->listener, POLLIN, 0 };
    for (ce_store_client *client = server->clients; client; client = client->next)
        polls[at++] = (struct pollfd){ client->socket, events_of(client), 0 };
    poll(polls, (nfds_t)count, TICK_MILLISECONDS);
    at = 2;
    for (ce_store_client *client = server->clients; client; client = client->next, at++)
        if (polls[at].revents || client->rank < 0)
            serve_client(server, client);
    if (polls[1].revents && server->listener >= 0)
        accept_connection(server);
    ce_store_requests_answer_waiting(server);
    for (ce_store_client *client = server->clients; client; client = client->next)
        if (client->out_bytes && !ce_store_requests_flush(client))
            drop(server, client);
    if (polls[0].revents)
        begin_close(server);
    free_closed(server);
    return !polls[0].revents || (server->clients && ce_clock_seconds() < server->close_by);
}

static void report_missing(ce_store_server *server)
{
    ce_names names = { 0 };
    double time = ce_clock_seconds();
    if (server->missing == 0 || time < server->reported + REPORT_SECONDS)
        return;
    server->reported = time;
    ce_log(CE_LOG_INFO, "waiting for %s of %d ranks since %.0f s, at %s:%d",
           ce_store_requests_list_missing(server, &names), server->world.size, time - server->begun,
           server->world.address, server->world.port);
}

static void *serve(void *argument)
{
    ce_store_server *server = argument;
    while (poll_once(server))
        report_missing(server);
    return NULL;
}

static void free_server(ce_store_server *server)
{
    for (ce_store_client *next, *client = server->clients; client; client = next) {
        next = client->next;
        free_client(client);
    }
    for (ce_store_entry *next, *client = server->entries; client; client = next) {
        next = client->next;
        free(client);
    }
    if (server->listener >= 0)
        close(server->listener);
    if (server->wakeup >= 0)
        close(server->wakeup);
    free(server->connected);
    free(server->polls);
    ce_mac_forget(server->key, sizeof server->key);
    free(server);
}

cs_status ce_store_server_open(ce_store_server **server, int listener, const cs_world *world, const unsigned char *key)
{
    ce_store_server *made = ce_must_alloc(sizeof *made);
    *server = NULL;
    made->world = *world;
    made->keyed = key != NULL;
    made->listener = listener;
    made->missing = world->size;
    made->begun = made->reported = ce_clock_seconds();
    made->connected = ce_must_alloc((size_t)world->size * sizeof *made->connected);
    made->wakeup = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (key)
        memcpy(made->key, key, sizeof made->key);
    int error = made->wakeup >= 0 ? ce_thread_start(&made->thread, serve, made) : ENOMEM;
    if (error) {
        free_server(made);
        return ce_fail_errno(CS_NO_MEMORY, error, "no thread can be started for the rendezvous of %d ranks",
                             world->size);
    }
    *server = made;
    return CS_OK;
}

void ce_store_server_close(ce_store_server *server, double seconds)
{
    if (!server)
        return;
    server->close_by = ce_clock_seconds() + seconds;
    eventfd_write(server->wakeup, 1);
    pthread_join(server->thread, NULL);
    free_server(server);
}
