/* tcp.h - connections and frames of the TCP transport. For the files of the tcp transport.
 *
 * Each pair of ranks has one connection. Data is sent in frames: a head, and the bytes that it announces, which go
 * directly from the sender's buffer to the receiver's. The head names the collective call and is authenticated and
 * numbered (security/seal.h). So a rank detects foreign, repeated and reordered frames, and detects that another rank makes
 * a different call. The bytes after the head are neither authenticated nor encrypted, as with NCCL and Gloo.
 *
 * A queue has the frames of the current call for one direction of a connection. ce_tcp_frames_move sends and receives
 * until the frames of all queues are complete. All ranks must have the same byte order. */
#ifndef CE_COMM_TCP_TCP_H
#define CE_COMM_TCP_TCP_H

#include "security/seal.h"
#include "comm/transport.h"
#include "comm/tcp/mesh.h"

#include <poll.h>

enum {
    CE_TCP_FRAMES = 2, /* maximum number of frames of a queue */
    /* A value of ce_call.what that is not a collective. It means that the sender closes its comm. */
    CE_TCP_CLOSED = 100,
    CE_TCP_LOST /* A value of ce_call.what. It means that the sender ends because the rank in ce_call.root was lost. */
};

typedef struct {
    ce_call call;
    uint64_t bytes; /* length of the data after the head, in bytes */
    unsigned char tag[CE_SEAL_TAG];
} ce_tcp_head;

typedef struct {
    int count, at; /* number of frames in the queue, and number of complete frames */
    size_t done;   /* number of bytes of frames[at], head included, that were sent or received */
    ce_tcp_head heads[CE_TCP_FRAMES];
    char *data[CE_TCP_FRAMES];
    size_t bytes[CE_TCP_FRAMES];
} ce_tcp_queue;

typedef struct {
    int socket;       /* the connected socket; -1 for this rank itself */
    bool elsewhere;   /* true: the peer is on another host */
    bool send_closed; /* True if nothing more can be sent to the peer. Data from the peer may still be read. */
    ce_seal seal;
    ce_tcp_queue out, in;
} ce_tcp_link;

struct ce_tcp {
    cs_comm *comm;
    int rank, size;
    ce_tcp_link *links;   /* one element for each rank */
    struct pollfd *polls; /* one element for each rank */
    int yields;           /* number of times that a waiting rank yields its core before it sleeps */
    /* The members below are set only for hierarchical collectives (hierarchical.c). `inside` is the comm of this host's
     * ranks. */
    cs_comm *inside;
    ce_members across; /* the ranks with this rank's local rank, one on each host */
    char *slots;       /* sums over this host; the buffer has CE_COMM_STAGING bytes */
};

/* frames.c */

/* implements ce_transport.move */
bool ce_tcp_frames_move(cs_comm *comm, ce_message *messages, int count, bool wait);
void ce_tcp_frames_leave(ce_tcp *tcp); /* tells the other ranks that this rank closes its comm and is not lost */
void ce_tcp_frames_lose(cs_comm *comm, int peer, const char *how); /* implements ce_transport.lose */
int ce_tcp_frames_missing(cs_comm *comm, bool *closed);

/* hierarchical.c */
bool ce_hierarchical_fits(const ce_tcp *tcp, const ce_mesh_place *places);
cs_status ce_hierarchical_open(ce_tcp *tcp, const cs_comm_settings *settings);
void ce_hierarchical_close(ce_tcp *tcp);
/* The next functions implement members of ce_transport. If the collectives of this comm are not hierarchical, `announce`
 * does nothing and the others use messages among all ranks. `announce` writes the current call where the ranks of this
 * host can read it. */
void ce_hierarchical_announce(cs_comm *comm);
void ce_hierarchical_all_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op);
void ce_hierarchical_reduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype,
                                    cs_reduce_op op);
void ce_hierarchical_all_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype);
void ce_hierarchical_broadcast(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, int root);
void ce_hierarchical_barrier(cs_comm *comm);

#endif
