/* tcp.h - connections and frames of the TCP transport. For the files of the tcp transport.
 *
 * Each pair of ranks has one connection. Data is sent in frames: a head, and the bytes that it announces, which go
 * directly from the sender's buffer to the receiver's. The head names the collective call and is authenticated and
 * numbered (base/seal.h), so that foreign, repeated or reordered frames and ranks that make different calls are
 * detected. The bytes after the head are neither authenticated nor encrypted, as with NCCL and Gloo.
 *
 * A lane is one direction of a connection with the frames of the current call. cs_flow_run sends and receives on all
 * lanes until all frames are complete. All ranks must have the same byte order. */
#ifndef CS_COMM_TCP_H
#define CS_COMM_TCP_H

#include "base/seal.h"
#include "comm/call.h"
#include "comm/transport.h"

#include <poll.h>

enum {
    CS_TCP_FRAMES = 2,
    CS_TCP_BYE = 100,
    CS_TCP_LOST
}; /* maximum number of frames of a lane; values of cs_call.what
    * that are not collectives */

typedef struct {
    cs_call call;
    uint64_t bytes; /* length of the data after the head */
    unsigned char tag[CS_SEAL_TAG];
} cs_tcp_head;

typedef struct {
    int count, at; /* number of frames; number of complete ones */
    size_t done;   /* bytes of frame `at` that were moved, including its head */
    cs_tcp_head heads[CS_TCP_FRAMES];
    char *data[CS_TCP_FRAMES];
    size_t bytes[CS_TCP_FRAMES];
} cs_tcp_lane;

typedef struct {
    int socket; /* -1: this rank itself */
    bool deaf;  /* the peer receives nothing more, but data from it may still be read */
    cs_seal seal;
    cs_tcp_lane out, in;
} cs_tcp_link;

/* The ranks that take part in an exchange, in the order of the tree; ranks[own] is this rank. */
typedef struct {
    int count, own;
    int *ranks;
} cs_tcp_group;

typedef struct {
    cs_comm *comm;
    int rank, size;
    cs_tcp_link *links;   /* [size] */
    struct pollfd *polls; /* [size] */
    cs_call call;         /* the current call */
    int yields;           /* how often a rank tries again before it sleeps */
    cs_tcp_group all;
    char *staging;       /* CS_TCP_STAGING bytes: operands received from others, one slot for each rank */
    const void **inputs; /* [size] the operands of the current reduction */
    /* For hierarchical collectives (hybrid.c); otherwise NULL. */
    cs_comm *inside;
    cs_tcp_group across; /* the ranks with this rank's local rank on their hosts */
    char *slots;         /* CS_TCP_STAGING bytes: sums over this host */
} cs_tcp;

enum { CS_TCP_STAGING = 4 << 20, CS_TCP_PIECE = 256 << 10, CS_TCP_SMALL = 16 << 10 };

/* mesh.c: connects all ranks with each other, and gets their local ranks. */
typedef struct {
    int32_t local_rank, local_size;
} cs_mesh_place;
cs_status cs_mesh_open(cs_tcp *tcp, cs_mesh_place *places /* [size] */, double seconds);

/* flow.c */

/* Adds a frame to or from a rank. cs_flow_run moves all frames and returns when they are complete. */
void cs_flow_send(cs_tcp *tcp, int to, const void *data, size_t bytes);
void cs_flow_receive(cs_tcp *tcp, int from, void *data, size_t bytes);
void cs_flow_run(cs_tcp *tcp);
void cs_flow_leave(cs_tcp *tcp); /* tells the others that this rank closes and is not lost */
int cs_flow_missing(cs_comm *comm, bool *closed);

/* tcp.c: collectives of a group. Part number i belongs to ranks[i] of the group; parts begin `apart` bytes from each
 * other. */
size_t cs_tcp_slot_bytes(const cs_tcp_group *group); /* size of one rank's slot in a staging buffer */
/* out[count] = the sum over ranks of this rank's part. The part must fit into a slot. */
void cs_tcp_reduce_part(cs_tcp *tcp, const cs_tcp_group *group, void *out, const void *in, size_t apart, int64_t count,
                        cs_dtype dtype, cs_reduce_op op);
void cs_tcp_all_reduce(cs_tcp *tcp, const cs_tcp_group *group, void *data, int64_t count, cs_dtype dtype,
                       cs_reduce_op op);
void cs_tcp_reduce_scatter(cs_tcp *tcp, void *out, const void *in, int64_t count, cs_dtype dtype, cs_reduce_op op);
void cs_tcp_gather(cs_tcp *tcp, const cs_tcp_group *group, void *out, const void *in, size_t bytes, size_t apart);
void cs_tcp_barrier(cs_tcp *tcp, const cs_tcp_group *group);
void cs_tcp_broadcast(cs_tcp *tcp, const cs_tcp_group *group, void *data, size_t bytes, int root);

/* hybrid.c */
bool cs_hybrid_fits(const cs_tcp *tcp, const cs_mesh_place *places);
cs_status cs_hybrid_open(cs_tcp *tcp, const cs_comm_settings *settings);
void cs_hybrid_close(cs_tcp *tcp);
void cs_hybrid_all_reduce(cs_tcp *tcp, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op);
void cs_hybrid_reduce_scatter(cs_tcp *tcp, void *out, const void *in, int64_t count, cs_dtype dtype, cs_reduce_op op);
void cs_hybrid_all_gather(cs_tcp *tcp, void *out, const void *in, int64_t count, cs_dtype dtype);
void cs_hybrid_broadcast(cs_tcp *tcp, void *data, int64_t count, cs_dtype dtype, int root);
void cs_hybrid_barrier(cs_tcp *tcp);

#endif
