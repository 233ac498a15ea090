/* letters.h - what rank 0 keeps for the ranks that meet, and who they are. For keeper.c and letters.c alone. */
#ifndef CS_COMM_LETTERS_H
#define CS_COMM_LETTERS_H

#include "base/join.h"
#include "comm/keeper.h"

#include <poll.h>
#include <pthread.h>

typedef struct cs_letters_guest {
    struct cs_letters_guest *next;
    int socket, rank; /* rank -1: a stranger */
    bool over;
    char from[CS_DIAL_TEXT];
    cs_join join;
    cs_seal seal;
    unsigned char in[sizeof(cs_keeper_head) + CS_KEEPER_BODY], out[sizeof(cs_keeper_head) + CS_KEEPER_BODY];
    size_t in_bytes, out_bytes, out_sent;
    int waits; /* 0, or CS_KEEPER_GET or _ALL that is not answered yet */
    char wants[CS_STORE_NAME + 1];
    double seconds, deadline; /* how long it is willing to wait, and until when */
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
    double begun, named;     /* when it opened; when it last named the missing */
    double rests_until;      /* no connection is taken before: descriptors have run out; 0: never so far */
    _Atomic double close_by; /* set before `wake` is rung */
    pthread_t thread;
};

/* Answers with the sentence of cs_error(). */
void cs_letters_fail(cs_letters_guest *to);
/* Answers those whose wait is over: what they want is there, or their time is up. */
void cs_letters_answer_waiting(cs_keeper *keeper);
/* "ranks 1, 3" */
void cs_letters_list_missing(const cs_keeper *keeper, char *names, size_t room);
/* Sends of the answer what can be sent. False: the guest is gone. */
bool cs_letters_flush(cs_letters_guest *to);
/* Reads what there is of one letter, and does what it says. False: the guest is gone, or talks nonsense. */
bool cs_letters_hear(cs_keeper *keeper, cs_letters_guest *from);

#endif
