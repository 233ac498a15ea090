/* transport.h - the interface of a transport, and the struct of an open comm. For the files of engine/comm.
 *
 * comm.c checks and counts the calls and keeps the heartbeat. A transport offers memory, messages between two ranks,
 * their progress, and which rank is missing. The collectives are written over messages, one file of collective/ for
 * each; the functions of a transport are those, or better ones of its own (in place in shared memory, hierarchical,
 * NCCL). They may assume that only one thread calls them at a time, that counts are not negative and that ranks are
 * valid.
 *
 * A comm with a GPU has two sides. The host's side is opened first and moves host memory. The device side
 * (`device_side`) is a second comm inside it, whose transport moves GPU memory. It uses the host's side to let the
 * ranks find each other and to detect lost ranks. The transport of the device side is never called with a count of
 * 0. */
#ifndef CS_COMM_TRANSPORT_H
#define CS_COMM_TRANSPORT_H

#include "comm/call.h"
#include "comm/comms_logger.h"
#include "device/device.h"

#include <stdatomic.h>

enum { CS_TRANSPORT_GPU_NAME = 96, CS_COMM_STAGING = 4 << 20 };

/* Some ranks of a comm, in the order of the summation tree; ranks[own_index] is this rank. */
typedef struct {
    int count, own_index;
    int *ranks;
} ce_members;

/* A message from or to a rank, as a part of the call comm->call. */
typedef struct {
    int peer;
    bool incoming, started, done; /* the transport sets started and done */
    char *data;                   /* an outgoing message's data is only read */
    size_t bytes, moved;          /* moved: bytes so far, if the transport divides messages */
} ce_message;

/* The vector of a reduce_scatter, scatter, ... in parts, one for each member of a group. */
typedef struct {
    const int64_t *counts; /* elements of each part, which are adjacent; NULL: all have `count` */
    int64_t count;
    size_t apart; /* with counts NULL: how many bytes after each other parts begin */
} ce_parts;

/* Sizes in bytes at which one algorithm of a collective replaces another. */
typedef struct {
    size_t all_reduce_whole; /* up to this size, an all_reduce sends the whole vector to all */
    size_t reduce_whole;     /* up to this size, a reduce sends the whole vector to the root */
    size_t broadcast_whole;  /* up to this size, the root of a broadcast sends the whole vector to all */
} ce_sizes;

typedef struct ce_transport {
    size_t edition; /* in a transport from a module: CS_TRANSPORT_EDITION, which the program compares with its own */
    const char *name;
    ce_sizes sizes;
    bool (*fits)(const cs_world *world); /* true if it can serve this world; "auto" takes the first that fits */
    cs_status (*open)(cs_comm *comm, const cs_comm_settings *settings);
    void (*close)(cs_comm *comm); /* also after an open that failed */
    /* Moves messages, of which those between the same two ranks in the same direction are moved in their order. wait:
     * returns when all are done, and there are at most two for each rank and direction; else it moves what can be moved
     * at once and returns true if that is something. NULL: there are no other ranks, or only collectives. */
    bool (*move)(cs_comm *comm, ce_message *messages, int count, bool wait);
    void (*announce)(cs_comm *comm); /* shows comm->call to the other ranks, when a call begins; NULL: messages do */
    void (*all_reduce)(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op);
    void (*reduce_scatter)(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, cs_reduce_op op);
    void (*all_gather)(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype);
    void (*broadcast)(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, int root);
    void (*barrier)(cs_comm *comm);
    void (*reduce)(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op, int root);
    void (*scatter)(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, int root);
    void (*gather)(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, int root);
    void (*all_to_all)(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype);
    /* Only in a transport of GPU memory, which has none of the four above. The host's are messages. */
    void (*send)(cs_comm *comm, const void *data, size_t bytes, int to);
    void (*receive)(cs_comm *comm, void *data, size_t bytes, int from);
    /* Returns a rank that has ended, or -1; *closed is true if it had closed its comm before. If several have ended, it
     * prefers one that did not close, and of those one that did not end because of another's failure. Any thread may
     * call it at any time. NULL: there are no other ranks. */
    int (*missing)(cs_comm *comm, bool *closed);
    /* Ends the process because rank `peer` "was lost", "has left", ..., and tells the other ranks which one that is.
     * Only in a transport that has `move`; only the thread that calls the others may call it. */
    void (*lose)(cs_comm *comm, int peer, const char *how);
    /* Returns the address in this process of rank 0's memory at the place that `own`, from cs_comm_alloc, has in this
     * rank's memory. NULL: ranks do not see each other's memory. */
    void *(*first)(cs_comm *comm, void *own);
    void (*reduce_scatter_add)(cs_comm *comm, float *sum, const float *in, int64_t count); /* or NULL: common.h */
    /* Only in a transport of GPU memory, or NULL. Writes a name of this rank's GPU; two ranks may not share one. */
    void (*gpu_name)(char gpu_name[CS_TRANSPORT_GPU_NAME]);
} ce_transport;

typedef struct ce_meeting ce_meeting;         /* split.h: how the ranks of a group find each other */
typedef struct ce_nonblocking ce_nonblocking; /* nonblocking.h: the calls that return before they are done */

struct cs_comm {
    const ce_transport *transport;
    cs_world world;
    void *private_data; /* private to the transport */
    char *heap;         /* memory for cs_comm_alloc; the transport allocates and frees it */
    size_t heap_bytes;
    size_t heap_used;
    ce_call call; /* that runs, or the last one; what is 0 before the first */
    double begun; /* when it began, on the clock of ce_clock_seconds */
    atomic_flag busy;
    cs_comm_traffic traffic;
    ce_comms_logger *logger;   /* NULL: comms_logger is off */
    cs_comm_settings settings; /* kind points to `kind` */
    char kind[16];
    int *names; /* the number of each rank in the comm of the whole job, for messages; NULL: the same number */
    int splits; /* number of calls of cs_comm_split */
    ce_members all;
    /* For collectives over messages: */
    ce_message *messages; /* [4 * size] */
    int message_count;
    const void **inputs; /* [size] the operands of a reduction */
    char *staging;       /* CS_COMM_STAGING bytes: operands from other ranks, one slot for each */
    const ce_meeting *meeting;
    ce_nonblocking *nonblocking; /* NULL: settings.nonblocking is false */
    cs_comm *device_side;        /* the device side; NULL: there is no GPU */
    /* The following are set in a device side only. */
    cs_comm *host; /* the comm that contains it */
    cs_device *device;
    void **blocks; /* GPU memory that cs_comm_alloc returned; freed when the comm closes */
    size_t block_count, block_room;
};

/* Changes with the sizes of the structs that a module shares with the program. */
#define CS_TRANSPORT_EDITION (sizeof(ce_transport) + 4096 * sizeof(struct cs_comm))

extern const ce_transport ce_comm_self, ce_comm_shm, ce_comm_tcp, ce_comm_device_staging;
extern const ce_transport ce_comm_nccl; /* in the CUDA module, if that was built with NCCL */

/* The number that a sentence gives to a rank of the comm. */
static inline int ce_comm_name(const cs_comm *comm, int rank)
{
    return comm->names ? comm->names[rank] : rank;
}

/* The transport of host memory for this world; NULL: this kind does not fit it. */
const ce_transport *ce_comm_transport(const cs_world *world, const char *kind);
/* heap_bytes of the settings or, if that is 0, the machine's memory, limited by what this process may map or write. */
size_t ce_comm_heap_wish(const cs_comm_settings *settings);
/* cs_comm_open of a comm whose ranks find each other by `meeting`, and whose ranks have these names, which become the
 * comm's. NULL: by the address of the world; ranks have their own numbers. */
cs_status ce_comm_open(cs_comm **comm, const cs_world *world, const cs_comm_settings *settings, int *names,
                       const ce_meeting *meeting);

#endif
