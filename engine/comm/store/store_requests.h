/* store_requests.h - the state of the key-value store: entries, connections, and ranks that wait. For store_server.c
 * and store_requests.c. */
#ifndef CE_COMM_STORE_STORE_REQUESTS_H
#define CE_COMM_STORE_STORE_REQUESTS_H

#include "base/names.h"
#include "security/join.h"
#include "comm/store/store_server.h"

#include <poll.h>
#include <pthread.h>

typedef struct ce_store_client {
    struct ce_store_client *next;
    int socket, rank; /* `rank` is -1 until the rank is authenticated */
    bool closed;
    char from[CE_SOCKET_TEXT];
    ce_join join;
    ce_seal seal;
    unsigned char in[sizeof(ce_store_head) + CE_STORE_BODY], out[sizeof(ce_store_head) + CE_STORE_BODY];
    size_t in_bytes, out_bytes, out_sent;
    int waits; /* The request that has no reply yet: CE_STORE_GET or CE_STORE_ALL; 0 if there is none. */
    char wants[CE_STORE_NAME + 1];
    double seconds, deadline; /* how many seconds this rank waits for the reply, and the time at which the wait ends */
} ce_store_client;

typedef struct ce_store_entry {
    struct ce_store_entry *next;
    char name[CE_STORE_NAME + 1];
    size_t bytes;
    unsigned char value[];
} ce_store_entry;

struct ce_store_server {
    cs_world world;
    unsigned char key[CE_MAC_BYTES];
    bool keyed, complete;
    int listener, wakeup, missing, unauthenticated;
    bool *connected; /* one element for each rank */
    ce_store_client *clients;
    ce_store_entry *entries;
    struct pollfd *polls;
    size_t poll_capacity;
    double begun, reported; /* times in seconds: when the server started, and when it last printed the missing ranks */
    /* If no file descriptor was free, no connection is accepted before this time, in seconds. It is 0 if connections
     * are accepted. */
    double paused_until;
    _Atomic double close_by; /* The latest time at which the server ends; it is written before `wakeup` is signalled. */
    pthread_t thread;
};

/* Sends the reply FAILED with the text of cs_error(). */
void ce_store_requests_fail(ce_store_client *to);
/* Replies to the waiting requests whose value has been set or whose time is over. */
void ce_store_requests_answer_waiting(ce_store_server *server);
/* Returns the list of missing ranks, for example "ranks 1, 3". The caller owns `names`, which must be empty. */
const char *ce_store_requests_list_missing(const ce_store_server *server, ce_names *names);
/* Sends as much of the reply as possible without blocking. Returns false if the connection is lost. */
bool ce_store_requests_flush(ce_store_client *to);
/* Reads the bytes of a request that have arrived, and handles the request when it is complete. Returns false if the
 * connection is lost or the request is invalid. */
bool ce_store_requests_read(ce_store_server *server, ce_store_client *from);

#endif
