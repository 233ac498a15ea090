/* transport.h - what a transport is, and an open comm. For the files of this room only.
 *
 * comm.c checks, counts and keeps the beat; a transport moves the bytes. Its functions may assume that only one thread
 * is in them at a time, that counts are not negative and that ranks are in range.
 *
 * A comm with a far device has two sides. The host's is opened first and moves host memory; the far one is a comm of
 * its own inside it, whose transport moves the device's memory, and uses the host's side to meet and to notice losses.
 * It is never called with nothing to move. */
#ifndef CS_COMM_TRANSPORT_H
#define CS_COMM_TRANSPORT_H

#include "cspeed/comm.h"
#include "comm/tally.h"

#include <stdatomic.h>

/* What cs_comm_alloc handed out of a far device's memory. */
typedef struct {
    void *memory;
    size_t bytes;
    void *ticket; /* the transport's */
} cs_comm_block;

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
    /* A rank that has ended, -1: none, and whether it closed before; one that did not is preferred, and of those the
     * one that did not end on another's account. Any thread may ask, at any time. NULL: there are no others. */
    int (*missing)(cs_comm *comm, bool *closed);
    /* Of a far side's, or NULL. seat: where this rank's device sits; no two ranks may have the same. lend: a block that
     * collectives will touch; close takes it back. */
    void (*seat)(char seat[CS_TRANSPORT_SEAT]);
    void (*lend)(cs_comm *comm, cs_comm_block *block);
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
    cs_comm_block *blocks;
    size_t block_count, block_room;
};

/* Sizes of what a module's transport shares with this program. */
#define CS_TRANSPORT_EDITION (sizeof(cs_transport) + 4096 * sizeof(struct cs_comm))

extern const cs_transport cs_comm_self, cs_comm_shm, cs_comm_tcp, cs_comm_far;
extern const cs_transport cs_comm_nccl; /* in the CUDA module, where it was built with NCCL */

/* heap_bytes of the settings, or what the machine has; at most what this process may map or write. */
size_t cs_comm_heap_wish(const cs_comm_settings *settings);

#endif
