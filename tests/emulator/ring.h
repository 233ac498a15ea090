/* ring.h - ranks of one host that meet in a shared memory object: what the emulator's NCCL runs on. */
#ifndef CS_EMULATOR_RING_H
#define CS_EMULATOR_RING_H

#include <atomic>
#include <nccl.h>
#include <string>

enum { RING_RANKS = 32, RING_PIECE = 1 << 20, RING_LETTER = 1 << 16 };

enum ring_kind { RING_ALL_REDUCE, RING_REDUCE_SCATTER, RING_ALL_GATHER, RING_BROADCAST, RING_SEND, RING_RECEIVE };

/* A call of NCCL: `rank` is the root, or the other one. */
struct ring_call {
    ring_kind kind;
    const void *in;
    void *out;
    size_t count;
    ncclDataType_t type;
    ncclRedOp_t op;
    int rank;
    bool captured = false; /* on each rank, or on none */
};

struct ring_letter {
    std::atomic<bool> sender, receiver; /* has connected */
    std::atomic<uint64_t> written, read;
    char data[RING_LETTER];
};

/* What a rank shows to the others. */
struct ring_seat {
    std::atomic<uint64_t> arrived; /* meetings */
    ring_call call;
    char data[RING_PIECE];
    ring_letter to[RING_RANKS];
};

struct ring_segment {
    std::atomic<int> joined;
    std::atomic<int> connected[RING_SEND]; /* ranks, by kind of collective */
    ring_seat seat[RING_RANKS];
};

struct ring {
    int rank, size;
    ring_segment *shared = nullptr;
    std::string name;
    std::atomic<bool> aborted{ false };

    ~ring();
};

std::string ring_make();    /* a new segment's name; empty: it cannot be made */
bool ring_join(ring *ring); /* opens ring->name */
bool ring_is_whole(ring *ring);
/* Waits until all ranks that take part in such a call make their first one. False: aborted. */
bool ring_connect(ring *ring, const ring_call &call);
/* In device memory, in the stream's turn. Returns early when aborted. Calls of one group run side by side. */
void ring_run(ring *ring, const std::deque<ring_call> &calls);

#endif
