/* unix_socket.h - messages with file descriptors between processes of one user, over a Unix socket (SCM_RIGHTS). */
#ifndef CE_COMM_SHM_UNIX_SOCKET_H
#define CE_COMM_SHM_UNIX_SOCKET_H

#include "comm/shm/rendezvous.h"

typedef enum { CE_UNIX_HELLO, CE_UNIX_HANDLES, CE_UNIX_REFUSAL } ce_unix_kind;

typedef struct {
    uint32_t magic;
    int32_t kind;
    int32_t rank, size;
    uint64_t bytes;
    char text[512]; /* why the rank was refused; empty if the rank was not refused */
} ce_unix_message;

/* Open a listening or a connected socket with the name of this world. Return -1 and set errno on failure. */
int ce_unix_socket_listen(const cs_world *world);
int ce_unix_socket_connect(const cs_world *world);

bool ce_unix_socket_same_user(int socket);

/* Sends a message, with the descriptors of `handles` unless `handles` is NULL. Returns false if the connection is lost;
 * errno says why. */
bool ce_unix_socket_send(int socket, const ce_unix_message *message, const ce_shm_handles *handles);

/* Receives a message after poll has announced one. *handles becomes its descriptors, or -1 and -1 if it has none.
 * Returns false if the connection is lost, or if the message is not of this protocol. */
bool ce_unix_socket_receive(int socket, ce_unix_message *message, ce_shm_handles *handles);

void ce_unix_socket_drop(ce_shm_handles *handles); /* closes the descriptors of `handles` that are not -1 */

#endif
