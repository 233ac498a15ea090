/* store.h - the key-value store by which ranks of several hosts find each other; rank 0 serves it.
 *
 *     ce_store *store;
 *     CS_TRY(ce_store_open(&store, &world, 600));         every rank; returns when all are connected
 *     CS_TRY(ce_store_set(store, "address/3", mine, 28));
 *     CS_TRY(ce_store_get(store, "address/0", its, 28, &bytes, 60));
 *     ce_store_close(store);
 *
 * Rank 0 listens at MASTER_ADDR:MASTER_PORT, or on the listening socket whose descriptor is CSPEED_MASTER_FD. A thread
 * of rank 0 serves requests until every other rank has closed the store. Connections that are not of this job, or do
 * not know its key, are logged and closed without delaying the ranks (base/join.h). All messages are authenticated
 * (base/seal.h). If a rank opens a store again, it waits until the other ranks also do. */
#ifndef CS_COMM_STORE_H
#define CS_COMM_STORE_H

#include "base/status.h"
#include "comm/store/socket.h"
#include "cspeed/comm.h"

typedef struct ce_store ce_store;

enum { CS_STORE_NAME = 64, CS_STORE_VALUE = 4096 }; /* maximum length of a name and of a value, in bytes */

/* Returns when all ranks have called it. Every 10 seconds rank 0 prints the missing ranks on stderr. If they are still
 * missing after `seconds`, every rank gets CS_NO_PEER with a message that names the missing ranks. */
cs_status ce_store_open(ce_store **store, const cs_world *world, double seconds);
/* As ce_store_open, but rank 0 listens on the socket `listener`, which the store then owns. On other ranks `listener`
 * is -1. */
cs_status ce_store_open_on(ce_store **store, const cs_world *world, int listener, double seconds);
/* Listens at the address and port of the world; if world->port is 0, the system chooses a port. *port becomes the port
 * of the socket. */
cs_status ce_store_listen(const cs_world *world, int *listener, int *port);
cs_status ce_store_set(ce_store *store, const char *name, const void *value, size_t bytes);
/* Waits until a rank has set the name. *bytes becomes the length of the value in bytes. CS_NO_PEER: no rank has set the
 * name within `seconds`, or the value is longer than `room` bytes. */
cs_status ce_store_get(ce_store *store, const char *name, void *value, size_t room, size_t *bytes, double seconds);
void ce_store_close(ce_store *store); /* accepts NULL */

int ce_store_socket(const ce_store *store);               /* the socket that is connected to rank 0 */
const ce_address *ce_store_master(const ce_store *store); /* the address of rank 0 */

#endif
