/* wire.h - messages with file descriptors between processes of one user, over a Unix socket (SCM_RIGHTS). */
#ifndef CS_COMM_WIRE_H
#define CS_COMM_WIRE_H

#include "comm/meet.h"

typedef enum { CS_WIRE_HELLO, CS_WIRE_GUEST, CS_WIRE_REFUSAL } ce_wire_sort;

typedef struct {
    uint32_t magic;
    int32_t sort;
    int32_t rank, size;
    uint64_t bytes;
    char text[512]; /* the reason of a refusal; otherwise empty */
} ce_wire_message;

/* Opens a listening socket, or a connected one, with the name of this world; -1 and errno on failure. */
int ce_wire_listen(const cs_world *world);
int ce_wire_connect(const cs_world *world);

bool ce_wire_same_user(int socket);

/* Sends a message, with the descriptors of `guest` unless it is NULL. False: the connection is lost; errno says why. */
bool ce_wire_send(int socket, const ce_wire_message *message, const ce_guest *guest);

/* Receives a message after poll has announced one. *guest becomes its descriptors, or -1 and -1. False: the connection
 * is lost, or the message is not of this protocol. */
bool ce_wire_receive(int socket, ce_wire_message *message, ce_guest *guest);

void ce_wire_drop(ce_guest *guest); /* closes the descriptors that are open */

#endif
