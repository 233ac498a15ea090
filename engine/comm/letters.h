/* letters.h - the state of the key-value store: entries, connections, and ranks that wait. For keeper.c and
 * letters.c. */
#ifndef CS_COMM_LETTERS_H
#define CS_COMM_LETTERS_H

#include "base/join.h"
#include "comm/keeper.h"

#include <poll.h>
#include <pthread.h>

typedef struct ce_letters_guest {
    struct ce_letters_guest *next;
    int socket, rank; /* rank -1: not authenticated yet */
    bool over;
    char from[CS_DIAL_TEXT];
    ce_join join;
    ce_seal seal;
    unsigned char in[sizeof(ce_keeper_head) + CS_KEEPER_BODY], out[sizeof(ce_keeper_head) + CS_KEEPER_BODY];
    size_t in_bytes, out_bytes, out_sent;
    int waits; /* 0, or CS_KEEPER_GET or CS_KEEPER_ALL: the request without a reply */
    char wants[CS_STORE_NAME + 1];
    double seconds, deadline; /* how long this rank waits for the reply, and until when */
} ce_letters_guest;

typedef struct ce_letters_entry {
    struct ce_letters_entry *next;
    char name[CS_STORE_NAME + 1];
    size_t bytes;
    unsigned char value[];
} ce_letters_entry;

struct ce_keeper {
    cs_world world;
    unsigned char key[CS_MAC_BYTES];
    bool keyed, complete;
    int listener, wake, missing, strangers;
    bool *here; /* [size] */
    ce_letters_guest *guests;
    ce_letters_entry *entries;
    struct pollfd *polls;
    size_t poll_room;
    double begun, named;     /* when the server started; when it last printed the missing ranks */
    double rests_until;      /* no connection is accepted before this time, because file descriptors ran out; 0: they
                              * never did */
    _Atomic double close_by; /* written before `wake` is signalled */
    pthread_t thread;
};

/* Replies FAILED with cs_error(). */
void ce_letters_fail(ce_letters_guest *to);
/* Replies to requests whose value is there now or whose time is over. */
void ce_letters_answer_waiting(ce_keeper *keeper);
/* Writes the missing ranks as "ranks 1, 3". */
void ce_letters_list_missing(const ce_keeper *keeper, char *names, size_t room);
/* Sends as much of the reply as possible without blocking. False: the connection is lost. */
bool ce_letters_flush(ce_letters_guest *to);
/* Reads what has arrived of one request and handles it when it is complete. False: the connection is lost, or the
 * request is invalid. */
bool ce_letters_hear(ce_keeper *keeper, ce_letters_guest *from);

#endif
