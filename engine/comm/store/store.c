/* store.c - the client of the key-value store: connects to rank 0, authenticates, sends requests and reads replies. */
#include "comm/store/store.h"
#include "base/clock.h"
#include "base/must.h"
#include "security/join.h"
#include "comm/store/store_server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Number of seconds by which other ranks wait longer than rank 0, because rank 0 sends them the list of missing
 * ranks. */
enum { LATE_SECONDS = 3 };

struct ce_store {
    cs_world world;
    unsigned char key[CE_MAC_BYTES];
    bool keyed;
    bool everywhere; /* on rank 0: ranks of other hosts may connect, at any address of this host */
    int socket;
    ce_address master; /* the address at which this rank has reached rank 0; before that, where rank 0 listens */
    ce_seal seal;
    ce_store_server *server; /* the server, on rank 0 only */
    int listener;            /* on rank 0, the listening socket that the caller gave; otherwise -1 */
    double seconds;
    char why[256]; /* why the last attempt to connect to rank 0 failed */
};

/* ---- rank 0 listens ---- */

/* Sets *listener to a duplicate of the launcher's listening socket. The server closes only the duplicate, so the
 * launcher's socket stays open for the next rendezvous of these ranks. */
static cs_status inherit_listener(int *listener, ce_address *address, const char *text)
{
    char *end = NULL;
    long descriptor = strtol(text, &end, 10);
    *listener = -1;
    if (end == text || *end || descriptor < 0 || descriptor > 1 << 20)
        return ce_fail(CS_BAD_CONFIG, "CSPEED_MASTER_FD: the number of an open socket, not \"%s\"", text);
    *address = (ce_address){ .bytes = sizeof address->name };
    *listener = fcntl((int)descriptor, F_DUPFD_CLOEXEC, 3);
    if (*listener < 0 || getsockname(*listener, (struct sockaddr *)(void *)&address->name, &address->bytes) < 0 ||
        fcntl(*listener, F_SETFL, O_NONBLOCK) < 0 || listen(*listener, SOMAXCONN) < 0)
        return ce_fail_errno(CS_BAD_CONFIG, errno, "CSPEED_MASTER_FD=%s is not a listening socket", text);
    return CS_OK;
}

cs_status ce_store_listen(const cs_world *world, int *listener, int *port)
{
    unsigned char key[CE_MAC_BYTES];
    bool keyed;
    ce_address address;
    CE_TRY(ce_join_key(key, &keyed));
    ce_mac_forget(key, sizeof key);
    CE_TRY(ce_socket_listen_at(listener, &address, world->address, world->port, keyed));
    *port = ce_socket_port(&address);
    return CS_OK;
}

/* Sets *listener to the socket that the caller gave. If the caller gave none, the launcher's socket (CSPEED_MASTER_FD)
 * is used. If the launcher gave none, a new socket is opened. */
static cs_status get_listener(const ce_store *store, int *listener, ce_address *address)
{
    const char *inherited = getenv("CSPEED_MASTER_FD");
    if (store->listener >= 0) {
        *listener = store->listener;
        *address = (ce_address){ .bytes = sizeof address->name };
        return getsockname(*listener, (struct sockaddr *)(void *)&address->name, &address->bytes) == 0
                   ? CS_OK
                   : ce_fail_errno(CS_IO_ERROR, errno, "the socket of the rendezvous has no address");
    }
    return inherited && inherited[0]
               ? inherit_listener(listener, address, inherited)
               : ce_socket_listen_at(listener, address, store->world.address, store->world.port, store->keyed);
}

static cs_status start_server(ce_store *store)
{
    ce_address address;
    int listener = -1;
    cs_status status = get_listener(store, &listener, &address);
    if (status != CS_OK) {
        if (listener >= 0)
            close(listener);
        return status;
    }
    store->master = address;
    store->everywhere = ce_socket_is_any(&address) &&
                        ce_join_allow((const struct sockaddr *)(const void *)&address.name, store->keyed) == CS_OK;
    return ce_store_server_open(&store->server, listener, &store->world, store->keyed ? store->key : NULL);
}

/* ---- every rank calls ---- */

typedef enum { JOINED, AGAIN, FAILED } outcome;

static outcome join(ce_store *store, double end)
{
    ce_store_identity identity = { store->world.rank, store->world.size };
    ce_join join;
    ce_join_state state;
    if (ce_join_begin(&join, true, store->keyed ? store->key : NULL, store->world.job, store->world.attempt, &identity,
                      sizeof identity) != CS_OK)
        return FAILED;
    join.deadline = end;
    while ((state = ce_join_advance(&join, store->socket)) == CE_JOIN_WAITS)
        poll(&(struct pollfd){ store->socket, ce_join_events(&join), 0 }, 1, 1000);
    if (state == CE_JOIN_REFUSED)
        /* The server that closed the connection may have been that of the previous rendezvous, so the rank tries
         * again. */
        return join.silent ? AGAIN : FAILED;
    ce_seal_open(&store->seal, join.session, true);
    return JOINED;
}

static outcome connect_once(ce_store *store, double end)
{
    char text[CE_SOCKET_TEXT];
    double left = end - ce_clock_seconds(), seconds = left < 5 ? left : 5;
    bool own = store->world.rank == 0;
    cs_status status =
        own && !ce_socket_is_any(&store->master)
            ? ce_socket_connect_to(&store->socket, &store->master, store->keyed, seconds)
            : ce_socket_connect(&store->socket, store->everywhere ? NULL : store->world.address,
                                own ? ce_socket_port(&store->master) : store->world.port, store->keyed, seconds);
    if (status == CS_BAD_CONFIG)
        return FAILED;
    if (status != CS_OK) {
        snprintf(store->why, sizeof store->why, "%s", cs_error());
        return AGAIN;
    }
    ce_socket_peer(&store->master, store->socket);
    ce_socket_tune(store->socket);
    outcome result = join(store, end);
    if (result == JOINED)
        return result;
    snprintf(store->why, sizeof store->why, "%s: %s", ce_socket_text(&store->master, text), cs_error());
    close(store->socket);
    store->socket = -1;
    if (result == FAILED)
        ce_fail(CS_NO_PEER, "rank %d at the rendezvous with rank 0: %s", store->world.rank, store->why);
    return result;
}

static cs_status connect_until(ce_store *store, double end)
{
    long pause = 1000000;
    do {
        outcome result = connect_once(store, end);
        if (result != AGAIN)
            return result == JOINED ? CS_OK : CS_NO_PEER;
        nanosleep(&(struct timespec){ .tv_nsec = pause }, NULL);
        pause = pause < 200000000 ? 2 * pause : pause;
    } while (ce_clock_seconds() < end);
    return ce_fail(CS_NO_PEER,
                   "rank 0 did not join within %.3g seconds (%s): start all %d ranks with the same MASTER_ADDR (here "
                   "\"%s\"), MASTER_PORT (here %d) and CSPEED_JOB_ID (here \"%s\")",
                   store->seconds, store->why, store->world.size, store->world.address, store->world.port,
                   store->world.job);
}

/* ---- requests ---- */

static cs_status lost(const ce_store *store)
{
    return ce_fail(CS_NO_PEER, "rank 0 ended during the rendezvous (noticed by rank %d)", store->world.rank);
}

static bool move(ce_store *store, void *data, size_t bytes, bool in, double end)
{
    for (size_t at = 0; at < bytes;) {
        double left = end - ce_clock_seconds();
        if (left <= 0)
            return false;
        poll(&(struct pollfd){ store->socket, in ? POLLIN : POLLOUT, 0 }, 1, left > 1 ? 1000 : (int)(left * 1000) + 1);
        ssize_t moved = in ? recv(store->socket, (char *)data + at, bytes - at, 0)
                           : send(store->socket, (char *)data + at, bytes - at, MSG_NOSIGNAL);
        if (moved == 0 || (moved < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        at += moved > 0 ? (size_t)moved : 0;
    }
    return true;
}

static void send_request(ce_store *store, int kind, void *body, size_t bytes, double end)
{
    ce_store_head head = { .kind = (uint32_t)kind, .bytes = (uint32_t)bytes };
    struct iovec parts[] = { { &head, offsetof(ce_store_head, tag) }, { body, bytes } };
    ce_seal_sign(&store->seal, head.tag, parts, 2);
    if (move(store, &head, sizeof head, false, end))
        move(store, body, bytes, false, end);
}

/* Sends the request in `body`, and writes the reply to `body`, which has CE_STORE_BODY + 1 bytes. */
static cs_status ask(ce_store *store, int kind, char *body, size_t *bytes, double seconds)
{
    double end = ce_clock_seconds() + seconds + LATE_SECONDS;
    ce_store_head head;
    /* A failure to send is ignored here: before rank 0 closed the connection, it may have sent a message that says why,
     * and this message is read below. */
    send_request(store, kind, body, *bytes, end);
    if (!move(store, &head, sizeof head, true, end) || head.bytes > CE_STORE_BODY ||
        !move(store, body, head.bytes, true, end))
        return lost(store);
    struct iovec parts[] = { { &head, offsetof(ce_store_head, tag) }, { body, head.bytes } };
    if (!ce_seal_check(&store->seal, head.tag, parts, 2))
        return ce_fail(CS_NO_PEER, "an answer at the rendezvous does not come from rank 0");
    *bytes = head.bytes;
    body[head.bytes] = 0;
    return head.kind == CE_STORE_REPLY ? CS_OK : ce_fail(CS_NO_PEER, "%s", body);
}

static cs_status check_name(const char *name)
{
    if (!name[0] || strlen(name) > CE_STORE_NAME)
        return ce_fail(CS_BAD_CONFIG, "rendezvous store: a key has 1 to %d bytes, not %zu", CE_STORE_NAME,
                       strlen(name));
    return CS_OK;
}

cs_status ce_store_set(ce_store *store, const char *name, const void *value, size_t bytes)
{
    char body[CE_STORE_BODY + 1];
    size_t length = strlen(name), whole = 1 + length + bytes;
    CE_TRY(check_name(name));
    if (bytes > CE_STORE_VALUE)
        return ce_fail(CS_BAD_CONFIG, "rendezvous store: a value has at most %d bytes, not %zu", CE_STORE_VALUE, bytes);
    body[0] = (char)length;
    memcpy(body + 1, name, length);
    memcpy(body + 1 + length, value, bytes);
    return ask(store, CE_STORE_SET, body, &whole, store->seconds);
}

cs_status ce_store_get(ce_store *store, const char *name, void *value, size_t capacity, size_t *bytes, double seconds)
{
    char body[CE_STORE_BODY + 1];
    uint32_t milliseconds = seconds < 4e6 ? (uint32_t)(seconds * 1000) : UINT32_MAX;
    size_t whole = sizeof milliseconds + strlen(name);
    CE_TRY(check_name(name));
    memcpy(body, &milliseconds, sizeof milliseconds);
    memcpy(body + sizeof milliseconds, name, strlen(name));
    CE_TRY(ask(store, CE_STORE_GET, body, &whole, seconds));
    if (whole > capacity)
        return ce_fail(CS_NO_PEER, "rendezvous store: the value of \"%s\" has %zu bytes, at most %zu are expected",
                       name, whole, capacity);
    memcpy(value, body, whole);
    *bytes = whole;
    return CS_OK;
}

static cs_status await_all(ce_store *store, double end)
{
    char body[CE_STORE_BODY + 1];
    double left = end - ce_clock_seconds();
    uint32_t milliseconds = left < 0 ? 0 : (uint32_t)(left < 4e6 ? left * 1000 : 4e9);
    size_t bytes = sizeof milliseconds;
    memcpy(body, &milliseconds, sizeof milliseconds);
    return ask(store, CE_STORE_ALL, body, &bytes, left);
}

static cs_status build(ce_store *store)
{
    double end = ce_clock_seconds() + store->seconds;
    CE_TRY(ce_join_key(store->key, &store->keyed));
    if (store->world.rank == 0)
        CE_TRY(start_server(store));
    CE_TRY(connect_until(store, end));
    return await_all(store, end);
}

cs_status ce_store_open(ce_store **store, const cs_world *world, double seconds)
{
    return ce_store_open_on(store, world, -1, seconds);
}

cs_status ce_store_open_on(ce_store **store, const cs_world *world, int listener, double seconds)
{
    ce_store *made = ce_must_alloc(sizeof *made);
    *store = NULL;
    made->listener = listener;
    made->world = *world;
    made->seconds = seconds;
    made->socket = -1;
    cs_status status = build(made);
    if (status != CS_OK) {
        ce_store_close(made);
        return status;
    }
    *store = made;
    return CS_OK;
}

void ce_store_close(ce_store *store)
{
    if (!store)
        return;
    if (store->socket >= 0)
        close(store->socket);
    ce_store_server_close(store->server, store->seconds);
    ce_seal_close(&store->seal);
    ce_mac_forget(store->key, sizeof store->key);
    free(store);
}

int ce_store_socket(const ce_store *store)
{
    return store->socket;
}

bool ce_store_is_everywhere(const ce_store *store)
{
    return store->everywhere;
}

const ce_address *ce_store_master(const ce_store *store)
{
    return &store->master;
}
