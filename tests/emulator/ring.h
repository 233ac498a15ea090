/* ring.h - collectives and messages between processes of one host through shared memory; used by the emulated NCCL. */
#ifndef CS_EMULATOR_RING_H
#define CS_EMULATOR_RING_H

#include <atomic>
#include <nccl.h>
#include <string>

enum { RING_RANKS = 32, RING_PIECE = 1 << 20, RING_MAILBOX = 1 << 16 };

enum ring_kind { RING_ALL_REDUCE, RING_REDUCE_SCATTER, RING_ALL_GATHER, RING_BROADCAST, RING_SEND, RING_RECEIVE };

/* The arguments of an NCCL call. `rank`: the root of a broadcast, or the peer of a send or receive. */
struct ring_call {
    ring_kind kind;
    const void *in;
    void *out;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int rank;
    bool captured = false; /* whether the call is captured in a graph; equal on all ranks */
};

/* A buffer for messages from one rank to another. */
struct ring_mailbox {
    std::atomic<bool> sender, receiver; /* whether the sending and the receiving rank have connected */
    std::atomic<uint64_t> written, read;
    char data[RING_MAILBOX];
};

/* The part of the segment that one rank writes. */
struct ring_slot {
    std::atomic<uint64_t> arrived; /* number of barriers at which the rank has arrived */
    ring_call call;
    char data[RING_PIECE];
    ring_mailbox to[RING_RANKS];
};

struct ring_segment {
    std::atomic<int> joined;
    std::atomic<int> connected[RING_SEND]; /* number of connected ranks, for each kind of collective */
    ring_slot slot[RING_RANKS];
};

struct ring {
    int rank, size;
    ring_segment *shared = nullptr;
    std::string name;
    std::atomic<bool> aborted{ false };

    ~ring();
};

std::string ring_make();    /* creates a segment and returns its name, or "" after an error */
bool ring_join(ring *ring); /* opens ring->name */
bool ring_is_whole(ring *ring);
/* Waits until all ranks that take part in this kind of call have made their first call of this kind. Returns false if
 * aborted. */
bool ring_connect(ring *ring, const ring_call &call);
/* Executes calls on device memory; called when the stream has reached them. The calls of a group run concurrently.
 * Returns early if aborted. */
void ring_run(ring *ring, const std::deque<ring_call> &calls);

#endif
