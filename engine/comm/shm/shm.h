/* shm.h - the layout of the shared memory of one host's ranks, and the barrier. For the files of the shm transport.
 *
 * Each rank owns a segment, a memfd that all ranks map. The segments are adjacent in one reserved range of addresses,
 * so the address of a peer's byte is computed. A segment contains:
 *
 *     header                        signals for which other ranks wait, and the call that this rank is making
 *     channels, one for each peer   messages to that peer, two chunks in flight
 *     two slots                     staging buffers, used alternately
 *     heap                          memory for cs_comm_alloc
 *
 * A signal is a counter in its own cache line, together with a description of the call. Barrier number n is passed when
 * arrival[n % 2] of every rank is n. Two signals are enough, since no rank reaches barrier n + 2 before all ranks have
 * left barrier n. */
#ifndef CS_COMM_SHM_H
#define CS_COMM_SHM_H

#include "comm/call.h"
#include "comm/shm/rendezvous.h"
#include "comm/transport.h"

#include <sched.h>

enum {
    CS_SHM_LINE = 64,
    CS_SHM_PAGE = 4096,
    CS_SHM_SLOT = 256 << 10, /* bytes of a staging slot */
    CS_SHM_CHUNK = 64 << 10, /* bytes of a chunk of a message */
    CS_SHM_HUGE = 2 << 20
};

/* A collective call of a rank. All ranks must have the same `is`; first and second are the offsets of the two buffers
 * in the rank's segment. */
typedef struct {
    ce_call is;
    uint64_t first, second; /* CS_SHM_NOWHERE: the buffer is not in the segment */
} ce_shm_call;

#define CS_SHM_NOWHERE UINT64_MAX

/* How many times in sequence another rank was seen to show the same version of its call (ce_shm_shown). */
typedef struct {
    uint32_t version;
    int times;
} ce_shm_look;

typedef struct {
    _Alignas(CS_SHM_LINE) _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
    ce_shm_call call;
} ce_shm_signal;

/* What a rank shows of the call that it makes. A rank that has waited long compares it with its own call. */
typedef struct {
    _Alignas(CS_SHM_LINE) _Atomic uint32_t version; /* odd while the rest is being written */
    _Atomic uint32_t number;
    _Atomic uint64_t kind; /* from the lowest bits: what, dtype, op, 8 bits 0, root */
    _Atomic int64_t count;
} ce_shm_shown;

typedef struct {
    ce_shm_signal arrival[2];
    ce_shm_signal news; /* changes when a channel to or from this rank changes */
    ce_shm_shown shown;
    _Alignas(CS_SHM_LINE) _Atomic uint32_t closed; /* set by cs_comm_close: this rank has finished and is not lost */
    _Atomic uint32_t gave_up;                      /* this rank ends because another one failed */
    cpu_set_t cores;                               /* the cores that this rank may use */
} ce_shm_header;

typedef struct {
    _Alignas(CS_SHM_LINE) _Atomic uint32_t filled; /* number of chunks so far */
    ce_call call[2];                               /* the sender's call to which each chunk belongs */
    uint64_t bytes[2];                             /* length of the whole message to which each chunk belongs */
    _Alignas(CS_SHM_LINE) _Atomic uint32_t emptied;
    _Alignas(CS_SHM_PAGE) char chunk[2][CS_SHM_CHUNK];
} ce_shm_channel;

typedef struct {
    cs_comm *comm;
    int rank, size;
    char *base; /* address of rank 0's segment */
    size_t reserved_bytes, segment_bytes;
    ce_shm_handles *handles; /* [size]; the memory descriptors are closed after mapping */
    int life_end;            /* write end of the pipe that shows that this process lives; -1: a pidfd shows it */
    uint32_t point;          /* number of barriers passed */
    uint32_t slot;           /* number of slots used */
    int spins, yields;       /* reads of a signal before a waiting rank yields its core; yields before it sleeps */
    const void **inputs;     /* [size] the operands of the current reduction */
    void **outputs;
    uint32_t *sent, *received; /* [size] number of chunks to and from each rank */
    ce_shm_look *looks;        /* [size] what this rank saw of each other rank when it last looked */
} ce_shm;

static inline char *ce_shm_segment(const ce_shm *shm, int rank)
{
    return shm->base + (size_t)rank * shm->segment_bytes;
}

/* The offset of this rank's buffer in its segment, or CS_SHM_NOWHERE. */
static inline uint64_t ce_shm_place_of(const ce_shm *shm, const void *data)
{
    uintptr_t segment = (uintptr_t)ce_shm_segment(shm, shm->rank), at = (uintptr_t)data;
    return at >= segment && at < segment + shm->segment_bytes ? at - segment : CS_SHM_NOWHERE;
}

static inline ce_shm_header *ce_shm_header_of(const ce_shm *shm, int rank)
{
    return (ce_shm_header *)(void *)ce_shm_segment(shm, rank);
}

static inline ce_shm_channel *ce_shm_channel_of(const ce_shm *shm, int from, int to)
{
    return (ce_shm_channel *)(void *)(ce_shm_segment(shm, from) + CS_SHM_PAGE) + to;
}

static inline size_t ce_shm_slots_at(int size)
{
    return CS_SHM_PAGE + (size_t)size * sizeof(ce_shm_channel);
}

static inline size_t ce_shm_heap_at(int size)
{
    size_t end = ce_shm_slots_at(size) + 2 * CS_SHM_SLOT;
    return (end + CS_SHM_HUGE - 1) / CS_SHM_HUGE * CS_SHM_HUGE;
}

/* segment.c: creates, exchanges, maps and unmaps the segments */
cs_status ce_segment_open(cs_comm *comm, const cs_comm_settings *settings);
void ce_segment_close(cs_comm *comm);

/* barrier.c */

/* Changes the value and wakes the ranks that sleep. Several ranks may do this with one signal. */
void ce_shm_signal_change(ce_shm_signal *signal);
/* Sleeps until the signal is no longer `seen`, but not longer than a tenth of a second. */
void ce_shm_signal_sleep(ce_shm_signal *signal, uint32_t seen);
void ce_shm_pause(void); /* tells the core that this thread spins */
/* Called by a rank that has waited a tenth of a second for rank `owner`. Returns -1 if the wait may still succeed.
 * Otherwise returns the rank that makes it fail, and *how says what happened to that rank; the caller then checks its
 * signal once more and calls ce_shm_lose. Ends the process if a rank makes a different call. */
int ce_shm_look_around(ce_shm *shm, int owner, const char **how);
_Noreturn void ce_shm_lose(ce_shm *shm, int peer, const char *how);
/* The barrier: waits until all ranks have called it, and checks that all make the same collective call. */
void ce_shm_barrier(ce_shm *shm, const ce_shm_call *call);
int ce_shm_missing(cs_comm *comm, bool *closed);
/* The call of `rank` at the barrier that was passed last. */
const ce_shm_call *ce_shm_call_of(const ce_shm *shm, int rank);
/* The first buffer of that call, in the memory of `rank`. */
static inline char *ce_shm_first_of(const ce_shm *shm, int rank)
{
    return ce_shm_segment(shm, rank) + ce_shm_call_of(shm, rank)->first;
}

/* slots.c: collectives through the slots, piece by piece, for memory that is not shared and for small vectors */
void ce_shm_slots_all_reduce(ce_shm *shm, const ce_shm_call *call, void *data);
void ce_shm_slots_reduce_scatter(ce_shm *shm, const ce_shm_call *call, void *out, const void *in, int64_t apart);
void ce_shm_slots_all_gather(ce_shm *shm, const ce_shm_call *call, void *out, const void *in);
void ce_shm_slots_broadcast(ce_shm *shm, const ce_shm_call *call, void *data);

/* shm.c */

/* A reduce_scatter whose parts begin `apart` elements from each other; `apart` must be equal on all ranks. */
void ce_shm_reduce_parts(cs_comm *comm, void *out, const void *in, int64_t count, int64_t apart, cs_dtype dtype,
                         cs_reduce_op op);

/* copies.c: functions of ce_transport */
void ce_shm_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op, int root);
void ce_shm_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, int root);
void ce_shm_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, int root);
void ce_shm_all_to_all(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype);

/* messages.c: messages between two ranks, as ce_transport.move */
bool ce_shm_messages_move(cs_comm *comm, ce_message *messages, int count, bool wait);

/* watch.c */
void ce_shm_announce(cs_comm *comm); /* this and the next: functions of ce_transport */
void ce_shm_lose_rank(cs_comm *comm, int peer, const char *how);

#endif
