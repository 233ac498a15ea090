/* transport.h - the interface of a transport, and the struct of an open comm. For the files of engine/comm.
 *
 * collectives.c checks and counts the calls and updates the heartbeat. A transport provides memory, moves messages between two
 * ranks, and tells which rank is missing. The files of collective/ implement each collective over messages. For the
 * collectives that a training calls, a transport may have a faster implementation of its own (in place in shared memory,
 * hierarchical, NCCL). The functions of a transport may assume that only one thread calls them at a time, that counts are not
 * negative and that ranks are valid.
 *
 * A comm with a GPU has two sides. The host's side is opened first and moves host memory. The device side
 * (`device_side`) is a second comm inside the first; its transport moves GPU memory. The ranks of the device side find
 * each other, and detect lost ranks, through the host's side. The transport of the device side is never called with a
 * count of 0. */
#ifndef CE_COMM_TRANSPORT_H
#define CE_COMM_TRANSPORT_H

#include "comm/call.h"
#include "comm/comms_logger.h"
#include "device/device.h"

#include <stdatomic.h>

enum { CE_TRANSPORT_GPU_NAME = 96, CE_COMM_STAGING = 4 << 20 };

/* The members of a collective: some ranks of a comm, in the order of the summation tree. ranks[own_index] is this
 * rank. */
typedef struct {
    int count, own_index;
    int *ranks;
} ce_members;

/* A message from or to a rank. It is a part of the call comm->call. */
typedef struct {
    int peer;
    bool incoming, started, done; /* the transport sets `started` and `done` */
    char *data;                   /* the data; it is only read if the message is outgoing */
    /* The length, and the number of bytes that were sent or received so far. A transport that does not divide messages
     * does not use `moved`. */
    size_t bytes, moved;
} ce_message;

/* How the vector of a reduce_scatter, scatter, ... is divided into parts, one for each member. */
typedef struct {
    /* Number of elements of each part; the parts are adjacent. If it is NULL, every part has `count` elements. */
    const int64_t *counts;
    int64_t count;
    size_t apart; /* If `counts` is NULL, the distance in bytes from the beginning of one part to that of the next. */
} ce_parts;

typedef struct ce_transport {
    /* If the transport is in a module, this is CE_TRANSPORT_EDITION, which the program compares with its own
     * edition. */
    size_t edition;
    const char *name;
    /* Returns true if the transport can serve this world. The kind "auto" stands for the first transport that can. */
    bool (*fits)(const cs_world *world);
    cs_status (*open)(cs_comm *comm, const cs_comm_settings *settings);
    void (*close)(cs_comm *comm); /* closes the comm; is also called after an open that failed */
    /* Moves messages. Messages between the same two ranks in the same direction keep their order. If `wait` is true,
     * `move` returns when all messages are done, and `messages` must not have more than two messages for each rank and
     * direction. If `wait` is false, `move` moves what can be moved without blocking, and returns true if any byte was
     * moved. The pointer is NULL if there are no other ranks, or if the transport has collectives only. */
    bool (*move)(cs_comm *comm, ce_message *messages, int count, bool wait);
    /* Shows comm->call to the other ranks. The pointer is NULL if the transport does not need this. */
    void (*announce)(cs_comm *comm);
    void (*all_reduce)(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op);
    void (*reduce_scatter)(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, cs_reduce_op op);
    void (*all_gather)(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype);
    void (*broadcast)(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, int root);
    void (*barrier)(cs_comm *comm);
    /* `send` and `receive` exist only in transports of GPU memory. Transports of host memory use `move` instead. */
    void (*send)(cs_comm *comm, const void *data, size_t bytes, int to);
    void (*receive)(cs_comm *comm, void *data, size_t bytes, int from);
    /* Returns a rank that has ended, or -1. *closed becomes true if that rank had closed its comm before. If several
     * ranks have ended, the function prefers a rank that did not close its comm. If several ranks did not close their
     * comms, it prefers a rank that did not end because another rank failed. Any thread may call `missing` at any time.
     * The pointer is NULL if there are no other ranks, or if the transport does not know which rank has ended. */
    int (*missing)(cs_comm *comm, bool *closed);
    /* Ends the process because of rank `peer`, and tells the other ranks that `peer` is the reason. `how` says what
     * happened to `peer`: "was lost", "has left", ... Only a transport that has `move` has this function. Only the
     * thread that calls the other functions may call it. */
    void (*lose)(cs_comm *comm, int peer, const char *how);
    /* `own` is memory from cs_comm_alloc. Returns the address, in this process, of the memory of rank 0 that has the
     * same offset as `own` has in the memory of this rank. The pointer is NULL if ranks do not see each other's
     * memory. */
    void *(*first)(cs_comm *comm, void *own);
    /* Implements ce_comm_reduce_scatter_add (common.h). The pointer is NULL if the transport does not support it. */
    void (*reduce_scatter_add)(cs_comm *comm, float *sum, const float *in, int64_t count);
    /* Writes a name that identifies this rank's GPU. Only a transport of GPU memory that does not let two ranks share a
     * GPU has this function; in the others the pointer is NULL. */
    void (*gpu_name)(char gpu_name[CE_TRANSPORT_GPU_NAME]);
} ce_transport;

typedef struct ce_meeting ce_meeting;         /* how the ranks of a group find each other (tcp/mesh.h) */
typedef struct ce_nonblocking ce_nonblocking; /* the calls that return before they are done (nonblocking.c) */

struct cs_comm {
    const ce_transport *transport;
    cs_world world;
    void *private_data; /* data that only the transport uses */
    char *heap;         /* memory for cs_comm_alloc; the transport allocates and frees it */
    size_t heap_bytes;
    size_t heap_used;
    /* The call in progress or, between calls, the last call. call.what is 0 if there was no call yet, or if the last
     * call was a message. */
    ce_call call;
    double begun; /* time of ce_clock_seconds at which the call in progress began */
    atomic_flag busy;
    cs_comm_traffic traffic;
    ce_comms_logger *logger;   /* the statistics of comms_logger; NULL if it is off */
    cs_comm_settings settings; /* settings.kind points to the member `kind` */
    char kind[16];
    /* For error messages: for each rank of this comm, its rank in the comm of the whole job. NULL means that the two
     * are equal. */
    int *names;
    int splits; /* number of calls of cs_comm_split */
    int axis;   /* the axis of the mesh (base/beat.h) that the heartbeat shows; see ce_comm_set_axis */
    ce_members all;
    const char *algorithm; /* name of the algorithm of the last collective */
    /* The members below are for collectives over messages. */
    /* [4 * size] the messages of the current collective; the first message_count elements are used */
    ce_message *messages;
    int message_count;
    const void **inputs; /* the operands of a reduction, one for each rank */
    char *staging; /* staging buffer of CE_COMM_STAGING bytes for operands from other ranks: one slot for each rank */
    const ce_meeting *meeting;
    ce_nonblocking *nonblocking; /* state of the nonblocking calls; NULL if settings.nonblocking is false */
    cs_comm *device_side;        /* the device side; NULL if there is no GPU */
    /* The members below are set in a device side only. */
    cs_comm *host; /* the comm that contains this device side */
    cs_device *device;
    void **blocks; /* blocks of GPU memory from cs_comm_alloc, which are freed when the comm closes */
    size_t block_count, block_capacity;
};

/* A number that changes if the size of a struct that a module shares with the program changes. */
#define CE_TRANSPORT_EDITION (sizeof(ce_transport) + 4096 * sizeof(struct cs_comm))

extern const ce_transport ce_comm_self, ce_comm_shm, ce_comm_tcp, ce_comm_mpi, ce_comm_device_staging;
extern const ce_transport ce_comm_nccl; /* defined in the CUDA module, if the module was built with NCCL */

/* Returns the number by which error messages name a rank of the comm. */
static inline int ce_comm_name(const cs_comm *comm, int rank)
{
    return comm->names ? comm->names[rank] : rank;
}

/* Ends the process if the arguments of a collective describe no vector that can exist. */
void ce_comm_check(const cs_comm *comm, int what, int64_t count, cs_dtype dtype, cs_reduce_op op);
/* Ends the process unless this rank is a member of the comm; `what` names the call in the message. */
void ce_comm_require_member(const cs_comm *comm, const char *what);
/* Makes `call` the call in progress, and shows it to the other ranks. */
void ce_comm_show(cs_comm *comm, ce_call call);
/* Shows that this rank is in no call. It must be called after a message. Otherwise a rank that has gone on to the next
 * collective would consider this rank stuck in the message, although this rank is only computing before that
 * collective. */
void ce_comm_show_none(cs_comm *comm);
/* Returns the transport of host memory of this kind that fits the world, or NULL if there is none. */
const ce_transport *ce_comm_transport(const cs_world *world, const char *kind);
/* Returns the wanted size of a heap in bytes, rounded up to pages. The size is settings->heap_bytes. If heap_bytes is
 * 0, the size is that of the machine's memory, but at most half of this process's limit on the size of files. */
size_t ce_comm_heap_wish(const cs_comm_settings *settings);
/* Does the same as cs_comm_open, with two more arguments. The ranks find each other by `meeting` or, if `meeting` is
 * NULL, by the address of the world. Error messages name rank i by names[i] or, if `names` is NULL, by i. The comm owns
 * `names` and frees them, also after a failure. */
cs_status ce_comm_open(cs_comm **comm, const cs_world *world, const cs_comm_settings *settings, int *names,
                       const ce_meeting *meeting);

/* Memory for cs_comm_alloc in transports without shared memory, an anonymous mapping (heap.c). */
cs_status ce_heap_open(cs_comm *comm, const cs_comm_settings *settings);
void ce_heap_close(cs_comm *comm);

/* Does the same as cs_comm_split, but the groups have these settings instead of the parent's. */
cs_status ce_split(cs_comm **group, cs_comm *parent, int color, int key, const cs_comm_settings *settings);

/* The nonblocking calls (nonblocking.c), which return before they are done. A thread makes them in a second comm of the
 * same ranks, in the order in which the caller made them. ce_comm_open_nonblocking (common.h) starts the thread. */
void ce_nonblocking_close(cs_comm *comm); /* waits for the calls in progress; comm->nonblocking may be NULL */
/* Sets the time limit of nonblocking calls, as cs_comm_set_call_seconds does for other calls. */
void ce_nonblocking_set_call_seconds(cs_comm *comm, double seconds);

#endif
