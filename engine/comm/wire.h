/* wire.h - messages with descriptors between processes of one user, over a Unix socket. */
#ifndef CS_COMM_WIRE_H
#define CS_COMM_WIRE_H

#include "comm/meet.h"

typedef enum { CS_WIRE_HELLO, CS_WIRE_GUEST, CS_WIRE_REFUSAL } cs_wire_sort;

typedef struct {
    uint32_t magic;
    int32_t sort;
    int32_t rank, size;
    uint64_t bytes;
    char text[512]; /* of a refusal; empty otherwise */
} cs_wire_message;

/* A listening (or, if not, a connected) socket of this world's name; -1 and errno on failure. */
int cs_wire_listen(const cs_world *world);
int cs_wire_connect(const cs_world *world);

bool cs_wire_same_user(int socket);

/* Sends, with the guest's descriptors if there is one. False and errno when the other side is gone. */
bool cs_wire_send(int socket, const cs_wire_message *message, const cs_guest *guest);

/* Takes one message that poll has announced. *guest is -1, -1 if it brought no descriptors. False: the other side is
 * gone, or it does not speak our language. */
bool cs_wire_receive(int socket, cs_wire_message *message, cs_guest *guest);

void cs_wire_drop(cs_guest *guest); /* closes what is open */

#endif
