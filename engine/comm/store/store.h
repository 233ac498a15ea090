/* store.h - the key-value store by which ranks of several hosts find each other; rank 0 serves it.
 *
 *     ce_store *store;
 *     CE_TRY(ce_store_open(&store, &world, 600));         every rank; returns when all are connected
 *     CE_TRY(ce_store_set(store, "address/3", mine, 28));
 *     CE_TRY(ce_store_get(store, "address/0", its, 28, &bytes, 60));
 *     ce_store_close(store);
 *
 * Rank 0 listens at MASTER_ADDR:MASTER_PORT, or on the listening socket whose descriptor is CSPEED_MASTER_FD. A thread
 * of rank 0 serves requests until every other rank has closed the store. Connections that are not of this job, or do
 * not know its key, are logged and closed without delaying the ranks (security/join.h). All messages are authenticated
 * (security/seal.h). A rank that opens a store again waits until the other ranks do the same. */
#ifndef CE_COMM_STORE_STORE_H
#define CE_COMM_STORE_STORE_H

#include "base/status.h"
#include "comm/store/socket.h"
#include "cspeed/comm.h"

typedef struct ce_store ce_store;

enum { CE_STORE_NAME = 64, CE_STORE_VALUE = 4096 }; /* maximum lengths of a name and of a value, in bytes */

/* Opens the store, and returns when all ranks have called this function. Every 10 seconds rank 0 prints the missing
 * ranks on stderr. If ranks are still missing after `seconds`, every rank gets CS_NO_PEER with a message that names
 * them. */
cs_status ce_store_open(ce_store **store, const cs_world *world, double seconds);
/* Does the same as ce_store_open, but rank 0 listens on the socket `listener`, which the store then owns. On other
 * ranks `listener` is -1. */
cs_status ce_store_open_on(ce_store **store, const cs_world *world, int listener, double seconds);
/* Opens a socket that listens at the address and port of the world. If world->port is 0, the system chooses a port.
 * *port becomes the port of the socket. */
cs_status ce_store_listen(const cs_world *world, int *listener, int *port);
cs_status ce_store_set(ce_store *store, const char *name, const void *value, size_t bytes);
/* Waits until a rank has set the name, and copies the value to `value`, which has `capacity` bytes. *bytes becomes the
 * length of the value in bytes. Returns CS_NO_PEER if no rank has set the name within `seconds`, or if the value is too
 * long. */
cs_status ce_store_get(ce_store *store, const char *name, void *value, size_t capacity, size_t *bytes, double seconds);
void ce_store_close(ce_store *store); /* closes the store; `store` may be NULL */

int ce_store_socket(const ce_store *store);               /* returns the socket that is connected to rank 0 */
const ce_address *ce_store_master(const ce_store *store); /* returns the address of rank 0 */
/* Returns true on rank 0 if ranks of other hosts may connect to it, at any of its addresses. */
bool ce_store_is_everywhere(const ce_store *store);

#endif
