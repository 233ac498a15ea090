/* shm.h - what ranks of one host share, and how they wait for each other. For shm's own files.
 *
 * Each rank owns a segment, a memfd that all map, and all segments lie side by side in one reserved stretch of
 * addresses, so that a peer's byte is found by arithmetic:
 *
 *     header                      the bells others wait for, and what this rank is calling
 *     channels, one a peer        what this rank sends to it, two chunks in flight
 *     slots, two                  staging, used in turns
 *     heap                        what cs_comm_alloc hands out
 *
 * A bell is a growing number in a cache line of its own, with what goes along with it. The ranks pass point n of the
 * program when every rank's arrival[n % 2] shows n. Two suffice: nobody reaches n + 2 before all have left n. */
#ifndef CS_COMM_SHM_H
#define CS_COMM_SHM_H

#include "comm/call.h"
#include "comm/meet.h"
#include "comm/transport.h"

#include <sched.h>

enum {
    CS_SHM_LINE = 64,
    CS_SHM_PAGE = 4096,
    CS_SHM_SLOT = 256 << 10, /* bytes of a staging slot                                                       */
    CS_SHM_CHUNK = 64 << 10, /* bytes of a chunk of a message                                                 */
    CS_SHM_HUGE = 2 << 20
};

/* What a rank calls: equal on all ranks but for the places, which are offsets in its segment. */
typedef struct {
    cs_call is;
    uint64_t first, second; /* CS_SHM_NOWHERE: not in the segment */
} cs_shm_call;

#define CS_SHM_NOWHERE UINT64_MAX

typedef struct {
    _Alignas(CS_SHM_LINE) _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
    cs_shm_call call;
} cs_bell;

typedef struct {
    cs_bell arrival[2];
    _Alignas(CS_SHM_LINE) _Atomic uint32_t closed; /* by cs_comm_close: this rank is not lost, it has finished  */
    _Atomic uint32_t gave_up;                      /* this rank ends because another one failed                 */
    cpu_set_t cores;                               /* it may run on                                             */
} cs_shm_header;

typedef struct {
    cs_bell filled, emptied; /* chunks so far */
    uint64_t bytes[2];       /* of the whole message that the chunk belongs to */
    _Alignas(CS_SHM_PAGE) char chunk[2][CS_SHM_CHUNK];
} cs_shm_channel;

typedef struct {
    cs_comm *comm;
    int rank, size;
    int first;  /* what a sentence adds to a rank: this host's first, among several hosts */
    char *base; /* of rank 0's segment */
    size_t reserved_bytes, segment_bytes;
    cs_guest *guests;    /* their memory is closed once mapped */
    int life_end;        /* of the pipe that shows others this process lives; -1: it has a descriptor */
    uint32_t point;      /* points passed so far */
    uint32_t slot;       /* slots used so far    */
    int spins, yields;   /* looks at a bell before this rank yields its core, and before it sleeps */
    size_t small_bytes;  /* vectors up to this go through the slots with one barrier, not two in place */
    const void **inputs; /* [size] of the sum at hand */
    void **outputs;
    uint32_t *sent, *received; /* [size] chunks so far */
} cs_shm;

static inline char *cs_shm_segment(const cs_shm *shm, int rank)
{
    return shm->base + (size_t)rank * shm->segment_bytes;
}

static inline cs_shm_header *cs_shm_header_of(const cs_shm *shm, int rank)
{
    return (cs_shm_header *)(void *)cs_shm_segment(shm, rank);
}

static inline cs_shm_channel *cs_shm_channel_of(const cs_shm *shm, int from, int to)
{
    return (cs_shm_channel *)(void *)(cs_shm_segment(shm, from) + CS_SHM_PAGE) + to;
}

static inline size_t cs_shm_slots_at(int size)
{
    return CS_SHM_PAGE + (size_t)size * sizeof(cs_shm_channel);
}

static inline size_t cs_shm_heap_at(int size)
{
    size_t end = cs_shm_slots_at(size) + 2 * CS_SHM_SLOT;
    return (end + CS_SHM_HUGE - 1) / CS_SHM_HUGE * CS_SHM_HUGE;
}

/* bell.c */

/* Sets the bell to `value` and wakes who sleeps for it. */
void cs_bell_ring(cs_bell *bell, uint32_t value);
/* Returns when the bell of rank `owner` shows `value` or more: spins, then yields, then sleeps. If a peer is lost
 * meanwhile, cs_fatal(CS_NO_PEER). */
void cs_bell_wait(cs_shm *shm, cs_bell *bell, uint32_t value, int owner);
/* Waits until all ranks are at this point and checks that all make the same call. */
void cs_bell_meet(cs_shm *shm, const cs_shm_call *call);
int cs_bell_missing(cs_comm *comm, bool *closed);
/* The call of `rank` at the point just passed. */
const cs_shm_call *cs_bell_call(const cs_shm *shm, int rank);

/* staged.c: the collectives through slots, a piece at a time, for memory that is not shared, and for small vectors */
void cs_staged_all_reduce(cs_shm *shm, const cs_shm_call *call, void *data);
void cs_staged_reduce_scatter(cs_shm *shm, const cs_shm_call *call, void *out, const void *in, int64_t apart);
void cs_staged_all_gather(cs_shm *shm, const cs_shm_call *call, void *out, const void *in);
void cs_staged_broadcast(cs_shm *shm, const cs_shm_call *call, void *data);

/* shm.c */

/* reduce_scatter of parts that begin `apart` elements from each other; all ranks give the same. */
void cs_shm_reduce_parts(cs_comm *comm, void *out, const void *in, int64_t count, int64_t apart, cs_dtype dtype,
                         cs_reduce_op op);

/* mail.c: messages between two ranks */
void cs_mail_send(cs_comm *comm, const void *data, size_t bytes, int to);
void cs_mail_receive(cs_comm *comm, void *data, size_t bytes, int from);

#endif
