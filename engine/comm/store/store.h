/* store.h - the key-value store by which ranks of several hosts find each other; rank 0 serves it.
 *
 *     ce_store *store;
 *     CS_TRY(ce_store_open(&store, &world, 600));         every rank; returns when all have come
 *     CS_TRY(ce_store_set(store, "address/3", mine, 28));
 *     CS_TRY(ce_store_get(store, "address/0", its, 28, &bytes, 60));
 *     ce_store_close(store);
 *
 * Rank 0 listens at MASTER_ADDR:MASTER_PORT, or on the listening socket whose descriptor is CSPEED_MASTER_FD. A thread
 * of rank 0 serves requests until every other rank has closed the store. Connections that are not of this job, or do
 * not know its key, are logged and closed without delaying the ranks (base/join.h). All messages are authenticated
 * (base/seal.h). If a rank opens a store again, it waits until the others do so too. */
#ifndef CS_COMM_STORE_H
#define CS_COMM_STORE_H

#include "base/status.h"
#include "comm/store/socket.h"
#include "cspeed/comm.h"

typedef struct ce_store ce_store;

enum { CS_STORE_NAME = 64, CS_STORE_VALUE = 4096 }; /* maximum length of a name and of a value, in bytes */

/* Returns when all ranks have called it. Every 10 seconds rank 0 prints the missing ranks on stderr. After `seconds`
 * every rank gets CS_NO_PEER with a message that names them. */
cs_status ce_store_open(ce_store **store, const cs_world *world, double seconds);
/* As ce_store_open, but rank 0 listens on this socket, which the store takes; -1 on other ranks. */
cs_status ce_store_open_on(ce_store **store, const cs_world *world, int listener, double seconds);
/* Listens at the address of the world; *port becomes that of the socket, if world->port is 0. */
cs_status ce_store_listen(const cs_world *world, int *listener, int *port);
cs_status ce_store_set(ce_store *store, const char *name, const void *value, size_t bytes);
/* Waits until a rank has set the name. *bytes becomes the length of the value. CS_NO_PEER: the time is over, or the
 * value is longer than `room`. */
cs_status ce_store_get(ce_store *store, const char *name, void *value, size_t room, size_t *bytes, double seconds);
void ce_store_close(ce_store *store); /* accepts NULL */

int ce_store_socket(const ce_store *store);               /* the socket that is connected to rank 0 */
const ce_address *ce_store_master(const ce_store *store); /* the address of rank 0 */

#endif
