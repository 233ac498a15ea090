/* keeper.h - rank 0's side of the store: a thread that lets ranks in and keeps what they set. For the store alone.
 *
 * A letter is a head and a body. A rank writes one and waits for the answer; only VALUE and FAILED are answers.
 *
 *     SET      length of name 1, name, value    VALUE (empty)
 *     GET      milliseconds 4, name             VALUE, or FAILED: nobody has set it in that time
 *     ALL      milliseconds 4                   VALUE (empty) when all ranks have come, or FAILED: who has not
 *     FAILED   a sentence                       */
#ifndef CS_COMM_KEEPER_H
#define CS_COMM_KEEPER_H

#include "base/seal.h"
#include "comm/store.h"

enum { CS_KEEPER_SET = 1, CS_KEEPER_GET, CS_KEEPER_ALL, CS_KEEPER_VALUE, CS_KEEPER_FAILED };
enum { CS_KEEPER_BODY = 1 + CS_STORE_NAME + CS_STORE_VALUE };

typedef struct {
    uint32_t kind, bytes; /* of the body */
    unsigned char tag[CS_SEAL_TAG];
} cs_keeper_head;

/* Who a rank says it is when it joins. */
typedef struct {
    int32_t rank, size;
} cs_keeper_name;

typedef struct cs_keeper cs_keeper;
/* Takes the listening socket, which it closes. `key` may be NULL. */
cs_status cs_keeper_open(cs_keeper **keeper, int listener, const cs_world *world, const unsigned char *key);
/* Waits until the other ranks have closed, at most `seconds`. Accepts NULL. */
void cs_keeper_close(cs_keeper *keeper, double seconds);

#endif
