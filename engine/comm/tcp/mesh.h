/* mesh.h - how the ranks of the TCP transport find each other and connect: through the store or, for the ranks of a
 * group, through the parent comm. */
#ifndef CE_COMM_TCP_MESH_H
#define CE_COMM_TCP_MESH_H

#include "comm/store/store.h"
#include "comm/transport.h"

typedef struct {
    int32_t local_rank, local_size;
} ce_mesh_place;

/* What a rank publishes about itself. */
typedef struct {
    ce_mesh_place place;
    /* `bytes` is the length of `name`. Rank 0 may set it to 0, because all ranks know its address. */
    int32_t port, bytes;
    char name[28]; /* the address, as a sockaddr_in or sockaddr_in6 */
} ce_mesh_endpoint;

struct ce_meeting {
    ce_store *store; /* the open store of cs_comm_open_at, or NULL */
    /* The following members are set for a group and NULL otherwise. *listener is this rank's listening socket;
     * ce_mesh_open takes it over and sets *listener to -1. `endpoints` is what all ranks have published. */
    int *listener;
    const ce_mesh_endpoint *endpoints;
};

typedef struct ce_tcp ce_tcp;

/* Connects all ranks with each other. Sets places[i] to the local rank and local size of rank i, for each rank. */
cs_status ce_mesh_open(ce_tcp *tcp, ce_mesh_place *places, double seconds);
/* Opens a socket that listens for the other ranks of a new group. The socket is bound to the address at which rank
 * `other` of the comm of `tcp` reaches this rank. */
cs_status ce_mesh_listen(const ce_tcp *tcp, int other, int *listener, ce_mesh_endpoint *own_endpoint);

#endif
