/* store_server.h - the server of the key-value store on rank 0, and the messages of its protocol. Only the files of the
 * store use it.
 *
 * A message has a head and a body. A rank sends a request and waits for the reply, which is REPLY or FAILED. Each row
 * has the kind, the fields of the body with their lengths in bytes, and the reply:
 *
 *     SET      length of name 1, name, value    REPLY (empty)
 *     GET      milliseconds 4, name             REPLY with the value, or FAILED if no rank has set the name in time
 *     ALL      milliseconds 4                   REPLY (empty) when all ranks are connected, or FAILED with the missing
 *                                               ranks
 *     FAILED   an error message */
#ifndef CE_COMM_STORE_STORE_SERVER_H
#define CE_COMM_STORE_STORE_SERVER_H

#include "security/seal.h"
#include "comm/store/store.h"

enum { CE_STORE_SET = 1, CE_STORE_GET, CE_STORE_ALL, CE_STORE_REPLY, CE_STORE_FAILED };
enum { CE_STORE_BODY = 1 + CE_STORE_NAME + CE_STORE_VALUE };

typedef struct {
    uint32_t kind, bytes; /* `bytes` is the length of the body */
    unsigned char tag[CE_SEAL_TAG];
} ce_store_head;

/* The identity that a rank sends in the handshake. */
typedef struct {
    int32_t rank, size;
} ce_store_identity;

typedef struct ce_store_server ce_store_server;
/* Starts the server's thread. The server owns the listening socket `listener` and closes it. `key` is NULL if the job
 * has no key. */
cs_status ce_store_server_open(ce_store_server **server, int listener, const cs_world *world, const unsigned char *key);
/* Waits until the other ranks have closed their connections, but at most `seconds`, and ends the server. `server` may
 * be NULL. */
void ce_store_server_close(ce_store_server *server, double seconds);

#endif
