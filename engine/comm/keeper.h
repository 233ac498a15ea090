/* keeper.h - the server of the key-value store on rank 0, and the messages of its protocol. For store.c.
 *
 * A message has a head and a body. A rank sends a request and waits for the reply, which is VALUE or FAILED. The fields
 * of the body, with their lengths in bytes, and the reply:
 *
 *     SET      length of name 1, name, value    VALUE (empty)
 *     GET      milliseconds 4, name             VALUE, or FAILED: no rank has set the name in that time
 *     ALL      milliseconds 4                   VALUE (empty) when all ranks are connected, or FAILED: which are missing
 *     FAILED   an error message                 */
#ifndef CS_COMM_KEEPER_H
#define CS_COMM_KEEPER_H

#include "base/seal.h"
#include "comm/store.h"

enum { CS_KEEPER_SET = 1, CS_KEEPER_GET, CS_KEEPER_ALL, CS_KEEPER_VALUE, CS_KEEPER_FAILED };
enum { CS_KEEPER_BODY = 1 + CS_STORE_NAME + CS_STORE_VALUE };

typedef struct {
    uint32_t kind, bytes; /* of the body */
    unsigned char tag[CS_SEAL_TAG];
} ce_keeper_head;

/* The identity that a rank sends in the handshake. */
typedef struct {
    int32_t rank, size;
} ce_keeper_name;

typedef struct ce_keeper ce_keeper;
/* Starts the thread. It owns the listening socket and closes it. `key` may be NULL. */
cs_status ce_keeper_open(ce_keeper **keeper, int listener, const cs_world *world, const unsigned char *key);
/* Waits until the other ranks have closed their connections, at most `seconds`. Accepts NULL. */
void ce_keeper_close(ce_keeper *keeper, double seconds);

#endif
