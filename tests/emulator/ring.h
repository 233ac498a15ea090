/* ring.h - collectives and messages between processes of one host through shared memory; used by the emulated NCCL. */
#ifndef CS_EMULATOR_RING_H
#define CS_EMULATOR_RING_H

#include <atomic>
#include <nccl.h>
#include <string>

enum { RING_RANKS = 32, RING_PIECE = 1 << 20, RING_MAILBOX = 1 << 16 };

enum ring_kind { RING_ALL_REDUCE, RING_REDUCE_SCATTER, RING_ALL_GATHER, RING_BROADCAST, RING_SEND, RING_RECEIVE };

/* An NCCL call. rank: the root of a broadcast, or the peer of a send or receive. */
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
    std::atomic<bool> sender, receiver; /* whether that side has connected */
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
    std::atomic<int> connected[RING_SEND]; /* number of connected ranks, by kind of collective */
    ring_slot slot[RING_RANKS];
};

struct ring {
    int rank, size;
    ring_segment *shared = nullptr;
    std::string name;
    std::atomic<bool> aborted{ false };

    ~ring();
};

std::string ring_make();    /* creates a segment and returns its name; empty: error */
bool ring_join(ring *ring); /* opens ring->name */
bool ring_is_whole(ring *ring);
/* Waits until all ranks that take part in such a call make their first one. False: aborted. */
bool ring_connect(ring *ring, const ring_call &call);
/* Executes calls on device memory, when it is their turn in the stream. Returns early if aborted. The calls of a group
 * run concurrently. */
void ring_run(ring *ring, const std::deque<ring_call> &calls);

#endif
