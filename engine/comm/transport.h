/* transport.h - the interface of a transport, and the struct of an open comm. For the files of engine/comm.
 *
 * comm.c checks and counts the calls and keeps the heartbeat. A transport provides memory, moves messages between two
 * ranks, and tells which rank is missing. The files of collective/ implement each collective over messages. For each
 * collective a transport uses that implementation or a faster one of its own (in place in shared memory, hierarchical,
 * NCCL). The functions of a transport may assume that only one thread calls them at a time, that counts are not
 * negative and that ranks are valid.
 *
 * A comm with a GPU has two sides. The host's side is opened first and moves host memory. The device side
 * (`device_side`) is a second comm inside the first, whose transport moves GPU memory. The ranks of the device side
 * find each other, and detect lost ranks, through the host's side. The transport of the device side is never called
 * with a count of 0. */
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
    size_t bytes, moved;          /* moved: bytes moved so far, in transports that divide messages */
} ce_message;

/* The vector of a reduce_scatter, scatter, ... in parts, one for each member of a group. */
typedef struct {
    const int64_t *counts; /* elements of each part; the parts are adjacent. NULL: every part has `count` elements */
    int64_t count;
    size_t apart; /* if counts is NULL: bytes from the beginning of one part to that of the next */
} ce_parts;

/* Sizes in bytes of a vector at which one algorithm of a collective replaces another. In the table of a transport, 0
 * means that the transport has no such switch. */
typedef struct {
    size_t all_reduce_whole; /* up to this size, an all_reduce sends the whole vector to all */
    size_t reduce_whole;     /* up to this size, a reduce sends the whole vector to the root */
    size_t broadcast_whole;  /* up to this size, the root of a broadcast sends the whole vector to all */
    size_t slots;    /* shm: up to this size, vectors go through staging slots with one barrier instead of two */
    size_t messages; /* shm: up to this size, reduce, scatter, gather and all_to_all are made over messages */
} ce_sizes;

#define CE_SIZE_UNCHANGED SIZE_MAX /* in ce_wish: the size of the transport's table */

/* The algorithm of a collective: 0 if the transport chooses it, or a row of the table in algorithms.c. */
enum { CE_CHOOSE_ALL_REDUCE, CE_CHOOSE_REDUCE_SCATTER, CE_CHOOSE_ALL_GATHER, CE_CHOICE_COUNT };
enum { CE_HIERARCHICAL = 255 }; /* in ce_wish: what the transport chooses must be hierarchical */

/* The values of cs_comm_settings.algorithms. */
typedef struct {
    uint8_t chosen[8]; /* [CE_CHOICE_COUNT] are used */
    ce_sizes sizes;
} ce_wish;

typedef struct ce_transport {
    size_t edition; /* in a transport from a module: CS_TRANSPORT_EDITION, which the program compares with its own */
    const char *name;
    ce_sizes sizes;
    bool (*fits)(const cs_world *world); /* true if it can serve this world; "auto" takes the first that fits */
    cs_status (*open)(cs_comm *comm, const cs_comm_settings *settings);
    void (*close)(cs_comm *comm); /* also after an open that failed */
    /* True if the functions of this comm work inside each host first; NULL: false. */
    bool (*hierarchical)(const cs_comm *comm);
    /* Moves messages. Messages between the same two ranks in the same direction keep their order. If `wait` is true, it
     * returns when all are done, and `messages` has at most two for each rank and direction. If `wait` is false, it
     * moves what can be moved without blocking, and returns true if it moved anything. NULL: there are no other ranks,
     * or the transport has collectives only. */
    bool (*move)(cs_comm *comm, ce_message *messages, int count, bool wait);
    void (*announce)(cs_comm *comm); /* shows comm->call to the other ranks; NULL: not needed */
    void (*all_reduce)(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op);
    void (*reduce_scatter)(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, cs_reduce_op op);
    void (*all_gather)(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype);
    void (*broadcast)(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, int root);
    void (*barrier)(cs_comm *comm);
    void (*reduce)(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op, int root);
    void (*scatter)(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, int root);
    void (*gather)(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, int root);
    void (*all_to_all)(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype);
    /* send and receive: only in a transport of GPU memory, which lacks the four functions above. Transports of host
     * memory use `move` instead. */
    void (*send)(cs_comm *comm, const void *data, size_t bytes, int to);
    void (*receive)(cs_comm *comm, void *data, size_t bytes, int from);
    /* Returns a rank that has ended, or -1; *closed becomes true if that rank had closed its comm before. If several
     * ranks have ended, the result is preferably one that did not close its comm, and among these one that did not end
     * because another rank failed. Any thread may call `missing` at any time. NULL: there are no other ranks, or the
     * transport does not know which rank has ended. */
    int (*missing)(cs_comm *comm, bool *closed);
    /* Ends the process because of rank `peer`, and tells the other ranks that `peer` is the reason. `how` says what
     * happened to `peer`: "was lost", "has left", ... Only in a transport that has `move`; may be called only by the
     * thread that calls the other functions. */
    void (*lose)(cs_comm *comm, int peer, const char *how);
    /* `own` is memory from cs_comm_alloc. Returns the address, in this process, of the memory of rank 0 that has the
     * same offset as `own` has in the memory of this rank. NULL: ranks do not see each other's memory. */
    void *(*first)(cs_comm *comm, void *own);
    /* ce_comm_reduce_scatter_add (common.h); NULL: not supported. */
    void (*reduce_scatter_add)(cs_comm *comm, float *sum, const float *in, int64_t count);
    /* Writes a name that identifies this rank's GPU. Only in a transport of GPU memory that does not let two ranks
     * share a GPU; NULL in the others. */
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
    ce_call call; /* the call in progress, or the last one; call.what is 0 before the first call and after a message */
    double begun; /* when that call began, in seconds on the clock of ce_clock_seconds */
    atomic_flag busy;
    cs_comm_traffic traffic;
    ce_comms_logger *logger;   /* NULL: comms_logger is off */
    cs_comm_settings settings; /* kind points to `kind` */
    char kind[16];
    int *names; /* [size] the number of each rank in the comm of the whole job, for error messages; NULL: its rank */
    int splits; /* number of calls of cs_comm_split */
    ce_members all;
    ce_sizes sizes; /* the transport's, as changed by settings.algorithms */
    ce_wish wish;
    uint8_t chosen[CE_CHOICE_COUNT]; /* rows of the table of algorithms */
    char *algorithm_list;            /* settings.algorithms; NULL: none */
    const char *algorithm;           /* the algorithm of the last collective */
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

/* A number that changes if the size of a struct changes that a module shares with the program. */
#define CS_TRANSPORT_EDITION (sizeof(ce_transport) + 4096 * sizeof(struct cs_comm))

extern const ce_transport ce_comm_self, ce_comm_shm, ce_comm_tcp, ce_comm_mpi, ce_comm_device_staging;
extern const ce_transport ce_comm_nccl; /* in the CUDA module, if that was built with NCCL */

/* The number by which error messages name a rank of the comm. */
static inline int ce_comm_name(const cs_comm *comm, int rank)
{
    return comm->names ? comm->names[rank] : rank;
}

/* Makes `call` the call in progress, and shows it to the other ranks. */
void ce_comm_show(cs_comm *comm, ce_call call);
/* Shows that this rank is in no call. Must be called after a message: the other rank may have gone on to the next
 * collective, and would take this rank, which may work for long before that collective, for stuck in the message. */
void ce_comm_show_none(cs_comm *comm);
/* The transport of host memory for this world; NULL: no transport of this kind fits the world. */
const ce_transport *ce_comm_transport(const cs_world *world, const char *kind);
/* The transport of host memory whose name is the first `length` characters of `name`; NULL: there is none. */
const ce_transport *ce_comm_named(const char *name, size_t length);
/* The wanted size of a heap in bytes, rounded up to pages: heap_bytes of the settings or, if that is 0, the size of the
 * machine's memory, but at most half of this process's limit on the size of files. */
size_t ce_comm_heap_wish(const cs_comm_settings *settings);
/* As cs_comm_open, but the ranks find each other by `meeting` (NULL: by the address of the world), and error messages
 * call rank i names[i] (NULL: i). The comm owns `names`; they are freed after a failure too. */
cs_status ce_comm_open(cs_comm **comm, const cs_world *world, const cs_comm_settings *settings, int *names,
                       const ce_meeting *meeting);

#endif
