/* transport.h - what a transport is, and what an open comm consists of. For the files of engine/comm only.
 *
 * comm.c checks and counts the calls and keeps the heartbeat; a transport moves the bytes. Its functions may assume
 * that only one thread calls them at a time, that counts are not negative and that ranks are in range.
 *
 * A comm with a far device (a GPU) has two sides. The host's side is opened first and moves host memory. The far side
 * is a comm of its own inside of it: its transport moves the device's memory, and it uses the host's side so that the
 * ranks find each other and notice a lost rank. The far side's transport is never called with nothing to move. */
#ifndef CS_COMM_TRANSPORT_H
#define CS_COMM_TRANSPORT_H

#include "cspeed/comm.h"
#include "comm/tally.h"

#include <stdatomic.h>

enum { CS_TRANSPORT_SEAT = 96 };

typedef struct cs_transport {
    size_t edition; /* of one that comes from a module: CS_TRANSPORT_EDITION */
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
    /* Returns a rank that has ended, or -1, and tells whether it closed its comm before. A rank that did not close is
     * preferred, and of those the one that did not end on another's account. Any thread may ask at any time. NULL:
     * there are no other ranks. */
    int (*missing)(cs_comm *comm, bool *closed);
    /* Of a far side's transport alone, or NULL. Names the device of this rank; no two ranks may have the same. */
    void (*seat)(char seat[CS_TRANSPORT_SEAT]);
} cs_transport;

struct cs_comm {
    const cs_transport *transport;
    cs_world world;
    void *own;  /* the transport's */
    char *heap; /* what cs_comm_alloc hands out; the transport makes and frees it */
    size_t heap_bytes;
    size_t heap_used;
    int doing; /* index into cs_beat_names: what a wait that fails says it waited in */
    atomic_flag busy;
    cs_comm_traffic traffic;
    cs_tally *tally; /* NULL: nothing is recorded call by call */
    cs_comm *far;    /* the side of a far device's memory; NULL: there is no such device */
    /* of a far side */
    cs_comm *host; /* the comm it is in */
    cs_device *device;
    void **blocks; /* what cs_comm_alloc has handed out of the device's memory; freed when the comm closes */
    size_t block_count, block_room;
};

/* Sizes of what a module's transport shares with this program. */
#define CS_TRANSPORT_EDITION (sizeof(cs_transport) + 4096 * sizeof(struct cs_comm))

extern const cs_transport cs_comm_self, cs_comm_shm, cs_comm_tcp, cs_comm_far;
extern const cs_transport cs_comm_nccl; /* in the CUDA module, where it was built with NCCL */

/* heap_bytes of the settings, or what the machine has; at most what this process may map or write. */
size_t cs_comm_heap_wish(const cs_comm_settings *settings);

#endif
