/* tcp.h - what a rank holds of the others when they are on several hosts. For tcp's own files.
 *
 * Every two ranks have one connection. What travels is a frame: a head, and the bytes it announces, straight from and
 * to the callers' memory. The head says which call the bytes belong to, and is signed and numbered (base/seal.h), so
 * that a stray, repeated or reordered frame, or a program whose ranks call different things, is noticed. The bytes
 * behind it are not signed and not hidden: gradients travel in clear, as with NCCL and Gloo.
 *
 * A lane is one direction of a connection, with the frames that the call at hand wants to move; cs_flow_run moves all
 * lanes at once until all are through. Ranks of one byte order alone can talk. */
#ifndef CS_COMM_TCP_H
#define CS_COMM_TCP_H

#include "base/seal.h"
#include "comm/call.h"
#include "comm/transport.h"

#include <poll.h>

enum { CS_TCP_FRAMES = 2, CS_TCP_BYE = 100, CS_TCP_LOST }; /* most frames of a lane; a call's `what` that is no call */

typedef struct {
    cs_call call;
    uint64_t bytes; /* behind the head */
    unsigned char tag[CS_SEAL_TAG];
} cs_tcp_head;

typedef struct {
    int count, at; /* frames, and those that are through */
    size_t done;   /* bytes of frame `at`, its head included */
    cs_tcp_head heads[CS_TCP_FRAMES];
    char *data[CS_TCP_FRAMES];
    size_t bytes[CS_TCP_FRAMES];
} cs_tcp_lane;

typedef struct {
    int socket; /* -1: this rank itself */
    bool deaf;  /* it takes nothing more; what it has said may still be read */
    cs_seal seal;
    cs_tcp_lane out, in;
} cs_tcp_link;

/* Ranks that exchange parts, in the order of the tree, this one among them. */
typedef struct {
    int count, own;
    int *ranks;
} cs_tcp_group;

typedef struct {
    cs_comm *comm;
    int rank, size;
    cs_tcp_link *links;   /* [size] */
    struct pollfd *polls; /* [size] */
    cs_call call;         /* at hand */
    int yields;           /* tries before this rank sleeps */
    cs_tcp_group all;
    char *staging;       /* CS_TCP_STAGING bytes: what others send to be summed, a slot a rank */
    const void **inputs; /* [size] of the sum at hand */
    /* where a host's ranks are a whole subtree of the tree (hybrid.c); otherwise NULL */
    cs_comm *inside;
    cs_tcp_group across; /* the ranks with this one's place on their hosts */
    char *slots;         /* CS_TCP_STAGING bytes: what this host has summed */
} cs_tcp;

enum { CS_TCP_STAGING = 4 << 20, CS_TCP_PIECE = 256 << 10, CS_TCP_SMALL = 16 << 10 };

/* mesh.c: meets the other ranks and connects to them; learns how they are spread over hosts. */
typedef struct {
    int32_t local_rank, local_size;
} cs_mesh_place;
cs_status cs_mesh_open(cs_tcp *tcp, cs_mesh_place *places /* [size] */, double seconds);

/* flow.c */

/* One more frame to, or from, a rank; it moves when cs_flow_run is called, which returns when all have. */
void cs_flow_send(cs_tcp *tcp, int to, const void *data, size_t bytes);
void cs_flow_receive(cs_tcp *tcp, int from, void *data, size_t bytes);
void cs_flow_run(cs_tcp *tcp);
void cs_flow_leave(cs_tcp *tcp); /* tells the others that this rank closes, and is not lost */
int cs_flow_missing(cs_comm *comm, bool *closed);

/* tcp.c: the collectives of a group; parts are numbered by place in the group and begin `apart` bytes from each other
 */
size_t cs_tcp_slot_bytes(const cs_tcp_group *group); /* of one rank's slot in a staging buffer */
/* out[count] = the sum over ranks of their part for this one; at most a slot long. */
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
