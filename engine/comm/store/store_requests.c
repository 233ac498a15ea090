/* store_requests.c - the requests of ranks to the key-value store, and the replies to them. */
#include "comm/store/store_requests.h"
#include "base/clock.h"
#include "base/must.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void answer(ce_store_client *to, int kind, const void *body, size_t bytes)
{
    ce_store_head head = { .kind = (uint32_t)kind, .bytes = (uint32_t)bytes };
    struct iovec parts[] = { { &head, offsetof(ce_store_head, tag) }, { (void *)(size_t)body, bytes } };
    ce_seal_sign(&to->seal, head.tag, parts, 2);
    memcpy(to->out, &head, sizeof head);
    if (bytes)
        memcpy(to->out + sizeof head, body, bytes);
    to->out_bytes = sizeof head + bytes;
    to->out_sent = 0;
    to->waits = 0;
}

void ce_store_requests_fail(ce_store_client *to)
{
    size_t length = strlen(cs_error());
    answer(to, CE_STORE_FAILED, cs_error(), length < CE_STORE_VALUE ? length : CE_STORE_VALUE);
}

static ce_store_entry *find(const ce_store_server *server, const char *name)
{
    ce_store_entry *at = server->entries;
    while (at && strcmp(at->name, name) != 0)
        at = at->next;
    return at;
}

const char *ce_store_requests_list_missing(const ce_store_server *server, ce_names *names)
{
    for (int i = 0; i < server->world.size; i++)
        if (!server->connected[i])
            ce_names_add(names, "%s%d", names->count ? "" : server->missing > 1 ? "ranks " : "rank ", i);
    return ce_names_text(names);
}

/* Replies to a waiting request if its value has been set or its time is over. */
static void try_answer(const ce_store_server *server, ce_store_client *to)
{
    ce_names names = { 0 };
    const ce_store_entry *found = to->waits == CE_STORE_GET ? find(server, to->wants) : NULL;
    double time = ce_clock_seconds();
    if (found) {
        answer(to, CE_STORE_REPLY, found->value, found->bytes);
    } else if (to->waits == CE_STORE_ALL && server->missing == 0) {
        answer(to, CE_STORE_REPLY, NULL, 0);
    } else if (to->waits == CE_STORE_GET && time > to->deadline) {
        ce_fail(CS_NO_PEER,
                "rendezvous store: rendezvous store: rendezvous store: rendezvous store: no rank has set \"%s\" "
                "within %.3g seconds",
                to->wants, to->seconds);
        ce_store_requests_fail(to);
    } else if (to->waits == CE_STORE_ALL && time > to->deadline) {
        ce_fail(CS_NO_PEER,
                "%s did not join within %.3g seconds: start all %d ranks with the same MASTER_ADDR (here \"%s\"), "
                "MASTER_PORT (here %d) and CSPEED_JOB_ID (here \"%s\")",
                ce_store_requests_list_missing(server, &names), to->seconds, server->world.size, server->world.address,
                server->world.port, server->world.job);
        ce_store_requests_fail(to);
    }
}

void ce_store_requests_answer_waiting(ce_store_server *server)
{
    for (ce_store_client *client = server->clients; client; client = client->next)
        if (client->waits)
            try_answer(server, client);
}

static bool store_value(ce_store_server *server, const unsigned char *body, size_t bytes)
{
    size_t name = bytes ? body[0] : 0;
    if (name == 0 || name > CE_STORE_NAME || 1 + name > bytes || bytes - 1 - name > CE_STORE_VALUE)
        return false;
    ce_store_entry *made = ce_must_alloc(sizeof *made + bytes - 1 - name);
    memcpy(made->name, body + 1, name);
    made->bytes = bytes - 1 - name;
    memcpy(made->value, body + 1 + name, made->bytes);
    /* The new entry comes first in the list, so that a search finds the newest value of a name. */
    made->next = server->entries;
    server->entries = made;
    return true;
}

static bool begin_wait(ce_store_client *from, int kind, const unsigned char *body, size_t bytes)
{
    uint32_t milliseconds;
    size_t name = bytes - sizeof milliseconds;
    if (bytes < sizeof milliseconds || name > CE_STORE_NAME)
        return false;
    memcpy(&milliseconds, body, sizeof milliseconds);
    memcpy(from->wants, body + sizeof milliseconds, name);
    from->wants[name] = 0;
    from->waits = kind;
    from->seconds = 1e-3 * milliseconds;
    from->deadline = ce_clock_seconds() + from->seconds;
    return true;
}

static bool handle_request(ce_store_server *server, ce_store_client *from, const ce_store_head *head,
                           const unsigned char *body)
{
    struct iovec parts[] = { { (void *)(size_t)head, offsetof(ce_store_head, tag) },
                             { (void *)(size_t)body, head->bytes } };
    if (!ce_seal_check(&from->seal, head->tag, parts, 2))
        return false;
    if (head->kind == CE_STORE_SET) {
        if (!store_value(server, body, head->bytes))
            return false;
        answer(from, CE_STORE_REPLY, NULL, 0);
        ce_store_requests_answer_waiting(server);
        return true;
    }
    if ((head->kind != CE_STORE_GET && head->kind != CE_STORE_ALL) ||
        !begin_wait(from, (int)head->kind, body, head->bytes))
        return false;
    try_answer(server, from);
    return true;
}

bool ce_store_requests_flush(ce_store_client *to)
{
    while (to->out_sent < to->out_bytes) {
        ssize_t sent = send(to->socket, to->out + to->out_sent, to->out_bytes - to->out_sent, MSG_NOSIGNAL);
        if (sent < 0)
            return errno == EAGAIN || errno == EINTR;
        to->out_sent += (size_t)sent;
    }
    to->out_bytes = to->out_sent = 0;
    return true;
}

bool ce_store_requests_read(ce_store_server *server, ce_store_client *from)
{
    ce_store_head head;
    for (;;) {
        size_t wanted = sizeof head;
        if (from->in_bytes >= sizeof head) {
            memcpy(&head, from->in, sizeof head);
            if (head.bytes > CE_STORE_BODY)
                return false;
            wanted += head.bytes;
            if (from->in_bytes == wanted) {
                from->in_bytes = 0;
                return handle_request(server, from, &head, from->in + sizeof head);
            }
        }
        ssize_t got = recv(from->socket, from->in + from->in_bytes, wanted - from->in_bytes, 0);
        if (got <= 0)
            return got < 0 && (errno == EAGAIN || errno == EINTR);
        from->in_bytes += (size_t)got;
    }
}
