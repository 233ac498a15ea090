/* shm.h - the layout of the shared memory of one host's ranks, and the barrier. For the files of the shm transport.
 *
 * Each rank owns a segment, a memfd that all ranks map. The segments are adjacent in one reserved range of addresses,
 * so the address of another rank's segment can be computed. A segment contains:
 *
 *     header                        signals for which other ranks wait, and the call that this rank is making
 *     channels, one for each peer   messages to that peer, two chunks in flight
 *     two slots                     staging buffers, used alternately
 *     heap                          memory for cs_comm_alloc
 *
 * A signal is a counter in its own cache line, together with a description of the call. Barrier number n is passed when
 * arrival[n % 2] of every rank is n. Two signals are enough, since no rank reaches barrier n + 2 before all ranks have
 * left barrier n. */
#ifndef CE_COMM_SHM_SHM_H
#define CE_COMM_SHM_SHM_H

#include "comm/call.h"
#include "comm/shm/rendezvous.h"
#include "comm/transport.h"

#include <sched.h>

enum {
    CE_SHM_LINE = 64,
    CE_SHM_PAGE = 4096,
    CE_SHM_SLOT = 256 << 10, /* size of a staging slot, in bytes */
    CE_SHM_CHUNK = 64 << 10, /* size of a chunk of a message, in bytes */
    CE_SHM_HUGE = 2 << 20
};

/* A collective call of a rank. The member `is` must be equal on all ranks. `first` and `second` are the offsets of the
 * call's two buffers in the rank's segment. */
typedef struct {
    ce_call is;
    uint64_t first, second; /* offsets in bytes; CE_SHM_NOWHERE if the buffer is not in the segment */
} ce_shm_call;

#define CE_SHM_NOWHERE UINT64_MAX

/* The version of another rank's ce_shm_shown at this rank's last check, and the number of checks in sequence that have
 * found the same version again. */
typedef struct {
    uint32_t version;
    int times;
} ce_shm_look;

typedef struct {
    _Alignas(CE_SHM_LINE) _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
    ce_shm_call call;
} ce_shm_signal;

/* A description of the call that a rank is making, which the other ranks read. A rank that has waited long compares it
 * with its own call. */
typedef struct {
    /* Version of this record; it is odd while the other members are being written. */
    _Alignas(CE_SHM_LINE) _Atomic uint32_t version;
    _Atomic uint32_t number;
    _Atomic uint64_t kind; /* the call in bit fields, from the lowest bits: what, dtype, op, 8 zero bits, root */
    _Atomic int64_t count;
} ce_shm_shown;

typedef struct {
    ce_shm_signal arrival[2];
    ce_shm_signal news; /* a signal that changes when a chunk of a channel to or from this rank is filled or emptied */
    ce_shm_shown shown;
    _Alignas(CE_SHM_LINE) _Atomic uint32_t closed; /* Set by cs_comm_close: this rank has finished and is not lost. */
    _Atomic uint32_t gave_up;                      /* set when this rank ends because another rank failed */
    cpu_set_t cores;                               /* set of the cores that this rank may use */
} ce_shm_header;

typedef struct {
    _Alignas(CE_SHM_LINE) _Atomic uint32_t filled; /* number of chunks that the sender has filled so far */
    ce_call call[2];   /* for each chunk, the call that the sender made when it sent the chunk */
    uint64_t bytes[2]; /* for each chunk, the length of the whole message in bytes */
    _Alignas(CE_SHM_LINE) _Atomic uint32_t emptied;
    _Alignas(CE_SHM_PAGE) char chunk[2][CE_SHM_CHUNK];
} ce_shm_channel;

typedef struct {
    cs_comm *comm;
    int rank, size;
    char *base; /* address of rank 0's segment */
    size_t reserved_bytes, segment_bytes;
    /* Descriptors of the ranks, one element for each rank. The descriptors of memory are closed after mapping. */
    ce_shm_handles *handles;
    int life_end;   /* write end of the pipe that shows that this process lives; -1 if a pidfd shows it */
    uint32_t point; /* number of barriers that this rank has passed */
    uint32_t slot;  /* number of slots that were used so far; its lowest bit chooses the slot */
    /* How often a waiting rank reads a signal before it yields its core, and how often it yields before it sleeps. */
    int spins, yields;
    size_t small_bytes;  /* up to this size, vectors go through staging slots with one barrier instead of two */
    const void **inputs; /* the operands of the current reduction, one element for each rank */
    void **outputs;
    uint32_t *sent, *received; /* for each rank, the number of chunks that were sent to it, and received from it */
    ce_shm_look *looks;        /* result of this rank's last check of each other rank */
} ce_shm;

static inline char *ce_shm_segment(const ce_shm *shm, int rank)
{
    return shm->base + (size_t)rank * shm->segment_bytes;
}

/* Returns the offset of this rank's buffer in its segment, or CE_SHM_NOWHERE if the buffer is not in the segment. */
static inline uint64_t ce_shm_place_of(const ce_shm *shm, const void *data)
{
    uintptr_t segment = (uintptr_t)ce_shm_segment(shm, shm->rank), at = (uintptr_t)data;
    return at >= segment && at < segment + shm->segment_bytes ? at - segment : CE_SHM_NOWHERE;
}

static inline ce_shm_header *ce_shm_header_of(const ce_shm *shm, int rank)
{
    return (ce_shm_header *)(void *)ce_shm_segment(shm, rank);
}

static inline ce_shm_channel *ce_shm_channel_of(const ce_shm *shm, int from, int to)
{
    return (ce_shm_channel *)(void *)(ce_shm_segment(shm, from) + CE_SHM_PAGE) + to;
}

static inline size_t ce_shm_slots_at(int size)
{
    return CE_SHM_PAGE + (size_t)size * sizeof(ce_shm_channel);
}

static inline size_t ce_shm_heap_at(int size)
{
    size_t end = ce_shm_slots_at(size) + 2 * CE_SHM_SLOT;
    return (end + CE_SHM_HUGE - 1) / CE_SHM_HUGE * CE_SHM_HUGE;
}

/* The next two functions are in segment.c. They create, exchange, map and unmap the segments. */
cs_status ce_segment_open(cs_comm *comm, const cs_comm_settings *settings);
void ce_segment_close(cs_comm *comm);

/* The functions from here to ce_shm_first_of are in barrier.c and watch.c. */

/* Changes the signal's value and wakes the ranks that sleep until it changes. Several ranks may call this for one
 * signal at the same time. */
void ce_shm_signal_change(ce_shm_signal *signal);
/* Sleeps until the signal's value is no longer `seen`, but at most a tenth of a second. */
void ce_shm_signal_sleep(ce_shm_signal *signal, uint32_t seen);
void ce_shm_pause(void); /* executes the CPU's instruction for spin loops */
/* A rank calls this function when it has waited a tenth of a second for rank `owner`. Returns -1 if the wait may still
 * succeed. Otherwise returns the rank that makes the wait fail, and sets *how to a text about that rank, for example
 * "was lost". The caller then checks once more whether the signal has come, and calls ce_shm_lose if the signal has not
 * come. The function ends the process if a rank makes a different call. */
int ce_shm_look_around(ce_shm *shm, int owner, const char **how);
_Noreturn void ce_shm_lose(ce_shm *shm, int peer, const char *how);
/* The barrier: waits until all ranks have called it, and checks that all ranks make the same collective call. */
void ce_shm_barrier(ce_shm *shm, const ce_shm_call *call);
int ce_shm_missing(cs_comm *comm, bool *closed);
/* Returns the call that `rank` made at the barrier that was passed last. */
const ce_shm_call *ce_shm_call_of(const ce_shm *shm, int rank);
/* Returns the address of the first buffer of the call that `rank` made at the barrier that was passed last. */
static inline char *ce_shm_first_of(const ce_shm *shm, int rank)
{
    return ce_shm_segment(shm, rank) + ce_shm_call_of(shm, rank)->first;
}

/* The next four functions are in slots.c. They are collectives through the staging slots, piece by piece, for memory
 * that is not shared and for small vectors. */
void ce_shm_slots_all_reduce(ce_shm *shm, const ce_shm_call *call, void *data);
void ce_shm_slots_reduce_scatter(ce_shm *shm, const ce_shm_call *call, void *out, const void *in, int64_t apart);
void ce_shm_slots_all_gather(ce_shm *shm, const ce_shm_call *call, void *out, const void *in);
void ce_shm_slots_broadcast(ce_shm *shm, const ce_shm_call *call, void *data);

/* This function is in shm.c. It does a reduce_scatter. Part i of `in` begins at element i * `apart`. `apart` must be
 * equal on all ranks. */
void ce_shm_reduce_parts(cs_comm *comm, void *out, const void *in, int64_t count, int64_t apart, cs_dtype dtype,
                         cs_reduce_op op);

/* This function is in messages.c and implements ce_transport.move: it moves messages between two ranks. */
bool ce_shm_messages_move(cs_comm *comm, ce_message *messages, int count, bool wait);

/* The next two functions are in watch.c and implement members of ce_transport. */
void ce_shm_announce(cs_comm *comm);
void ce_shm_lose_rank(cs_comm *comm, int peer, const char *how);

#endif
