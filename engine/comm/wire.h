/* wire.h - messages with file descriptors between processes of one user, over a Unix socket (SCM_RIGHTS). */
#ifndef CS_COMM_WIRE_H
#define CS_COMM_WIRE_H

#include "comm/meet.h"

typedef enum { CS_WIRE_HELLO, CS_WIRE_GUEST, CS_WIRE_REFUSAL } cs_wire_sort;

typedef struct {
    uint32_t magic;
    int32_t sort;
    int32_t rank, size;
    uint64_t bytes;
    char text[512]; /* the reason of a refusal; otherwise empty */
} cs_wire_message;

/* Opens a listening socket, or a connected one, with the name of this world; -1 and errno on failure. */
int cs_wire_listen(const cs_world *world);
int cs_wire_connect(const cs_world *world);

bool cs_wire_same_user(int socket);

/* Sends a message, with the descriptors of `guest` unless it is NULL. False: the connection is lost; errno says why. */
bool cs_wire_send(int socket, const cs_wire_message *message, const cs_guest *guest);

/* Receives a message after poll has announced one. *guest becomes its descriptors, or -1 and -1. False: the connection
 * is lost, or the message is not of this protocol. */
bool cs_wire_receive(int socket, cs_wire_message *message, cs_guest *guest);

void cs_wire_drop(cs_guest *guest); /* closes the descriptors that are open */

#endif
