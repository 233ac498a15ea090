/* rendezvous.c - rendezvous of the ranks of one host over a Unix socket: first what rank 0 does, then what the other
 * ranks do. */
#include "comm/shm/rendezvous.h"
#include "base/names.h"
#include "base/clock.h"
#include "comm/shm/unix_socket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- rank 0 ---- */

typedef struct {
    int socket, rank; /* `rank` is -1 until the rank is known */
} connection;

typedef struct {
    const cs_world *world;
    ce_shm_handles *handles;
    uint64_t *bytes;
    int listener, missing;
    int connection_count, connection_capacity;
    connection *connections;
    struct pollfd *polls; /* entries for poll: first the listener, then the connections in their order */
} rendezvous;

static void drop(rendezvous *server, int index)
{
    connection *leaving = &server->connections[index];
    if (leaving->rank >= 0) {
        ce_unix_socket_drop(&server->handles[leaving->rank]);
        server->missing++;
    }
    close(leaving->socket);
    *leaving = server->connections[--server->connection_count];
}

static void refuse(int socket, const char *sentence)
{
    ce_unix_message message = { .kind = CE_UNIX_REFUSAL };
    snprintf(message.text, sizeof message.text, "%s", sentence);
    /* A failure to send is ignored: it means that the process at the other end of the socket has ended. */
    ce_unix_socket_send(socket, &message, NULL);
}

static void admit(rendezvous *server, int index)
{
    const cs_world *world = server->world;
    connection *client = &server->connections[index];
    ce_unix_message hello;
    ce_shm_handles received;
    char sentence[512] = "";
    if (client->rank >= 0 || !ce_unix_socket_receive(client->socket, &hello, &received)) {
        drop(server, index); /* the peer's process has ended, and another process may take its rank */
        return;
    }
    if (hello.size != world->size)
        snprintf(sentence, sizeof sentence, "rank %d has WORLD_SIZE %d, but rank 0 has %d", hello.rank, hello.size,
                 world->size);
    else if (hello.rank <= 0 || hello.rank >= world->size || received.memory < 0 || received.life < 0)
        snprintf(sentence, sizeof sentence, "rank %d is not below WORLD_SIZE %d", hello.rank, world->size);
    else if (server->handles[hello.rank].memory >= 0)
        snprintf(sentence, sizeof sentence,
                 "there are two ranks %d at MASTER_PORT %d, job \"%s\": give each job its own", hello.rank, world->port,
                 world->job);
    if (sentence[0]) {
        refuse(client->socket, sentence);
        ce_unix_socket_drop(&received);
        drop(server, index);
        return;
    }
    client->rank = hello.rank;
    server->handles[hello.rank] = received;
    *server->bytes = hello.bytes < *server->bytes ? hello.bytes : *server->bytes;
    server->missing--;
}

static void accept_peers(rendezvous *server)
{
    while (server->connection_count < server->connection_capacity) {
        int accepted = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (accepted < 0)
            return;
        if (ce_unix_socket_same_user(accepted))
            server->connections[server->connection_count++] = (connection){ accepted, -1 };
        else
            close(accepted);
    }
}

static cs_status report_missing(const rendezvous *server, double seconds)
{
    ce_names names = { 0 };
    for (int i = 1; i < server->world->size; i++)
        if (server->handles[i].memory < 0)
            ce_names_add(&names, "%d", i);
    return ce_fail(CS_NO_PEER,
                   "%s %s did not join within %g seconds: start all ranks of this host with the same MASTER_PORT "
                   "(here %d) and CSPEED_JOB_ID (here \"%s\")",
                   server->missing > 1 ? "ranks" : "rank", ce_names_text(&names), seconds, server->world->port,
                   server->world->job);
}

static cs_status await_all(rendezvous *server, double seconds)
{
    double end = ce_clock_seconds() + seconds;
    while (server->missing > 0) {
        double left = end - ce_clock_seconds();
        if (left <= 0)
            return report_missing(server, seconds);
        int count = server->connection_count;
        server->polls[0] = (struct pollfd){ count < server->connection_capacity ? server->listener : -1, POLLIN, 0 };
        for (int i = 0; i < count; i++)
            server->polls[i + 1] = (struct pollfd){ server->connections[i].socket, POLLIN, 0 };
        poll(server->polls, (nfds_t)(1 + count), left > 1 ? 1000 : (int)(left * 1000) + 1);
        /* `i` descends, because drop() removes a connection by moving the last connection to its index. */
        for (int i = count - 1; i >= 0; i--)
            if (server->polls[i + 1].revents)
                admit(server, i);
        if (server->polls[0].revents)
            accept_peers(server);
    }
    return CS_OK;
}

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/* Sends the descriptors of all ranks to one rank. The kernel limits the number of descriptors that are sent but not
 * received. At this limit the function waits, at most until `end`, until the ranks have received some of them. */
static cs_status send_handles(const rendezvous *server, const connection *client, double end)
{
    for (int i = 0; i < server->world->size; i++) {
        ce_unix_message message = { .kind = CE_UNIX_HANDLES, .rank = i, .bytes = *server->bytes };
        while (i != client->rank && !ce_unix_socket_send(client->socket, &message, &server->handles[i])) {
            if ((errno != EAGAIN && errno != ETOOMANYREFS) || ce_clock_seconds() > end)
                return ce_fail_errno(CS_NO_PEER, errno, "rank %d ended during the rendezvous", client->rank);
            pause_briefly();
        }
    }
    return CS_OK;
}

static cs_status collect_and_send(rendezvous *server, double seconds)
{
    const cs_world *world = server->world;
    server->listener = ce_unix_socket_listen(world);
    if (server->listener < 0 && errno == EADDRINUSE)
        return ce_fail(CS_NO_PEER,
                       "another job has its rendezvous at MASTER_PORT %d now, job \"%s\": wait, or choose another "
                       "port",
                       world->port, world->job);
    if (server->listener < 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "no socket can be opened for the rendezvous of the ranks");
    CE_TRY(await_all(server, seconds));
    /* The listener is closed before any rank continues, so that its name is free for the next rendezvous of these
     * ranks. */
    close(server->listener);
    server->listener = -1;
    for (int i = 0; i < server->connection_count; i++)
        if (server->connections[i].rank >= 0)
            CE_TRY(send_handles(server, &server->connections[i], ce_clock_seconds() + seconds));
    return CS_OK;
}

static cs_status serve(const cs_world *world, double seconds, uint64_t *bytes, ce_shm_handles *handles)
{
    int capacity = 2 * world->size + 8;
    rendezvous server = {
        .world = world, .handles = handles, .bytes = bytes, .listener = -1, .missing = world->size - 1
    };
    server.connection_capacity = capacity;
    server.connections = calloc((size_t)capacity, sizeof *server.connections);
    server.polls = calloc((size_t)capacity + 1, sizeof *server.polls);
    cs_status status = server.connections && server.polls
                           ? collect_and_send(&server, seconds)
                           : ce_fail(CS_NO_MEMORY, "out of memory for the rendezvous of %d ranks", world->size);
    for (int i = 0; i < server.connection_count; i++) {
        if (status != CS_OK)
            refuse(server.connections[i].socket, cs_error());
        close(server.connections[i].socket);
    }
    if (server.listener >= 0)
        close(server.listener);
    free(server.connections);
    free(server.polls);
    return status;
}

/* ---- the other ranks ---- */

typedef enum { DONE, AGAIN, FAILED } outcome;

/* Receives the descriptors of all ranks. When the deadline of rank 0 is over, rank 0 sends a message that names the
 * missing ranks. `end` is a little later than the deadline of rank 0, so that this message arrives in time. */
static outcome receive_handles(int socket, const cs_world *world, double end, uint64_t *bytes, ce_shm_handles *handles)
{
    for (int got = 0; got < world->size - 1;) {
        double left = end - ce_clock_seconds();
        struct pollfd wait = { socket, POLLIN, 0 };
        ce_unix_message message;
        ce_shm_handles received;
        if (left <= 0) {
            ce_fail(CS_NO_PEER, "rank 0 does not answer: %d of %d ranks joined in time", got, world->size - 1);
            return FAILED;
        }
        if (poll(&wait, 1, left > 1 ? 1000 : (int)(left * 1000) + 1) <= 0)
            continue;
        if (!ce_unix_socket_receive(socket, &message, &received))
            return AGAIN;
        if (message.kind == CE_UNIX_REFUSAL) {
            ce_fail(CS_NO_PEER, "%s", message.text);
            return FAILED;
        }
        if (message.rank < 0 || message.rank >= world->size || handles[message.rank].memory >= 0) {
            ce_unix_socket_drop(&received);
            return AGAIN;
        }
        handles[message.rank] = received;
        *bytes = message.bytes;
        got++;
    }
    return DONE;
}

static outcome join_once(const cs_world *world, double seconds, uint64_t *bytes, ce_shm_handles *handles)
{
    int socket = ce_unix_socket_connect(world);
    ce_unix_message hello = { .kind = CE_UNIX_HELLO, .rank = world->rank, .size = world->size, .bytes = *bytes };
    outcome result = AGAIN;
    if (socket < 0)
        return AGAIN;
    if (!ce_unix_socket_same_user(socket)) {
        ce_fail(CS_NO_PEER, "MASTER_PORT %d is used for the rendezvous of another user's job: choose another port",
                world->port);
        result = FAILED;
    } else if (ce_unix_socket_send(socket, &hello, &handles[world->rank])) {
        result = receive_handles(socket, world, ce_clock_seconds() + seconds + 2, bytes, handles);
    }
    for (int i = 0; i < world->size && result == AGAIN; i++)
        if (i != world->rank)
            ce_unix_socket_drop(&handles[i]);
    close(socket);
    return result;
}

static cs_status join(const cs_world *world, double seconds, uint64_t *bytes, ce_shm_handles *handles)
{
    double end = ce_clock_seconds() + seconds;
    do {
        outcome result = join_once(world, seconds, bytes, handles);
        if (result != AGAIN)
            return result == DONE ? CS_OK : CS_NO_PEER;
        pause_briefly();
    } while (ce_clock_seconds() < end);
    return ce_fail(CS_NO_PEER,
                   "rank 0 did not join within %g seconds: start all ranks of this host with the same MASTER_PORT "
                   "(here %d) and CSPEED_JOB_ID (here \"%s\")",
                   seconds, world->port, world->job);
}

cs_status ce_shm_rendezvous(const cs_world *world, double seconds, uint64_t *bytes, ce_shm_handles *handles)
{
    for (int i = 0; i < world->size; i++)
        if (i != world->rank)
            handles[i] = (ce_shm_handles){ -1, -1 };
    return world->rank == 0 ? serve(world, seconds, bytes, handles) : join(world, seconds, bytes, handles);
}
