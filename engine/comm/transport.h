/* transport.h - what a transport is, and an open comm. For the files of this room only.
 *
 * comm.c checks, counts and keeps the beat; a transport moves the bytes. Its functions may assume that only one thread
 * is in them at a time, that counts are not negative and that ranks are in range. */
#ifndef CS_COMM_TRANSPORT_H
#define CS_COMM_TRANSPORT_H

#include "comm/comm.h"
#include "comm/tally.h"

#include <stdatomic.h>

typedef struct {
    const char *name;
    bool (*fits)(const cs_world *world); /* "auto" takes the first that does */
    cs_status (*open)(cs_comm *comm, const cs_comm_settings *settings);
    void (*close)(cs_comm *comm); /* accepts the half-open */
    void (*all_reduce)(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op);
    void (*reduce_scatter)(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, cs_reduce_op op);
    void (*all_gather)(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype);
    void (*broadcast)(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, int root);
    void (*barrier)(cs_comm *comm);
    void (*send)(cs_comm *comm, const void *data, size_t bytes, int to);
    void (*receive)(cs_comm *comm, void *data, size_t bytes, int from);
} cs_transport;

struct cs_comm {
    const cs_transport *transport;
    cs_world            world;
    void               *own;  /* the transport's */
    char               *heap; /* what cs_comm_alloc hands out; the transport makes and frees it */
    size_t              heap_bytes;
    size_t              heap_used;
    int                 doing; /* index into cs_beat_names: what a wait that fails says it waited in */
    atomic_flag         busy;
    cs_comm_traffic     traffic;
    cs_tally           *tally; /* NULL: nothing is recorded call by call */
};

extern const cs_transport cs_comm_self, cs_comm_shm, cs_comm_tcp;

/* heap_bytes of the settings, or what the machine has; at most what this process may map or write. */
size_t cs_comm_heap_wish(const cs_comm_settings *settings);

#endif
