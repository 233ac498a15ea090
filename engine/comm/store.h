/* store.h - how ranks of several hosts first meet: a table of named bytes that rank 0 keeps.
 *
 *     cs_store *store;
 *     CS_TRY(cs_store_open(&store, &world, 600));         every rank; returns when all have come
 *     CS_TRY(cs_store_set(store, "address/3", mine, 28));
 *     CS_TRY(cs_store_get(store, "address/0", its, 28, &bytes, 60));
 *     cs_store_close(store);
 *
 * Rank 0 listens at MASTER_ADDR:MASTER_PORT, or on the listening socket that CSPEED_MASTER_FD names, and serves from a
 * thread of its own until every other rank has closed. Who is not of the job, or does not know its key, is logged and
 * let go of, and holds up nobody (base/join.h). All messages are signed (base/seal.h). One meeting, one store: a rank
 * that opens again waits for the others to do the same. */
#ifndef CS_COMM_STORE_H
#define CS_COMM_STORE_H

#include "comm/dial.h"
#include "comm/world.h"

typedef struct cs_store cs_store;

enum { CS_STORE_NAME = 64, CS_STORE_VALUE = 4096 }; /* most bytes of a name, of a value */

/* Every 10 seconds rank 0 says on stderr who is missing; after `seconds` every rank fails with CS_NO_PEER, which names
 * them. */
cs_status cs_store_open(cs_store **store, const cs_world *world, double seconds);
cs_status cs_store_set(cs_store *store, const char *name, const void *value, size_t bytes);
/* Waits until somebody has set it. *bytes is its length; more than `room` is CS_NO_PEER, as is the time-out. */
cs_status cs_store_get(cs_store *store, const char *name, void *value, size_t room, size_t *bytes, double seconds);
void cs_store_close(cs_store *store); /* accepts NULL */

int cs_store_socket(const cs_store *store);               /* connected to rank 0 */
const cs_address *cs_store_master(const cs_store *store); /* where rank 0 was reached */

#endif
