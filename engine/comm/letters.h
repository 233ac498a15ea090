/* letters.h - the state of the key-value store: entries, connections, and ranks that wait. For keeper.c and
 * letters.c. */
#ifndef CS_COMM_LETTERS_H
#define CS_COMM_LETTERS_H

#include "base/join.h"
#include "comm/keeper.h"

#include <poll.h>
#include <pthread.h>

typedef struct cs_letters_guest {
    struct cs_letters_guest *next;
    int socket, rank; /* rank -1: not authenticated yet */
    bool over;
    char from[CS_DIAL_TEXT];
    cs_join join;
    cs_seal seal;
    unsigned char in[sizeof(cs_keeper_head) + CS_KEEPER_BODY], out[sizeof(cs_keeper_head) + CS_KEEPER_BODY];
    size_t in_bytes, out_bytes, out_sent;
    int waits; /* 0, or CS_KEEPER_GET or CS_KEEPER_ALL: the request without a reply */
    char wants[CS_STORE_NAME + 1];
    double seconds, deadline; /* how long this rank waits for the reply, and until when */
} cs_letters_guest;

typedef struct cs_letters_entry {
    struct cs_letters_entry *next;
    char name[CS_STORE_NAME + 1];
    size_t bytes;
    unsigned char value[];
} cs_letters_entry;

struct cs_keeper {
    cs_world world;
    unsigned char key[CS_MAC_BYTES];
    bool keyed, complete;
    int listener, wake, missing, strangers;
    bool *here; /* [size] */
    cs_letters_guest *guests;
    cs_letters_entry *entries;
    struct pollfd *polls;
    size_t poll_room;
    double begun, named;     /* when the server started; when it last printed the missing ranks */
    double rests_until;      /* no connection is accepted before this time, because file descriptors ran out; 0: they
                              * never did */
    _Atomic double close_by; /* written before `wake` is signalled */
    pthread_t thread;
};

/* Replies FAILED with cs_error(). */
void cs_letters_fail(cs_letters_guest *to);
/* Replies to requests whose value is there now or whose time is over. */
void cs_letters_answer_waiting(cs_keeper *keeper);
/* Writes the missing ranks as "ranks 1, 3". */
void cs_letters_list_missing(const cs_keeper *keeper, char *names, size_t room);
/* Sends as much of the reply as possible without blocking. False: the connection is lost. */
bool cs_letters_flush(cs_letters_guest *to);
/* Reads what has arrived of one request and handles it when it is complete. False: the connection is lost, or the
 * request is invalid. */
bool cs_letters_hear(cs_keeper *keeper, cs_letters_guest *from);

#endif
