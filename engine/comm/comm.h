/* comm.h - how ranks talk: the collectives, and what a transport is. (public)
 *
 * All ranks call the same collectives in the same order with the same counts. Sums are taken over ranks by the balanced
 * binary tree ((0 1) (2 3)) ..., in fp32 for 16-bit floats and rounded once, so that the result has the same bits on
 * every rank, at any time, and all_reduce equals reduce_scatter then all_gather. A peer that dies ends this process
 * with a sentence and exit code 75 (cs_fatal).
 *
 * Memory from cs_comm_alloc is symmetric (every rank allocates the same sizes in the same order) and takes part in
 * collectives in place; any other memory works too and is copied through staging buffers. A collective counts as in
 * place when all its large buffers are symmetric. */
#ifndef CS_COMM_COMM_H
#define CS_COMM_COMM_H

#include "comm/world.h"

typedef struct cs_comm cs_comm;
typedef enum { CS_SUM, CS_MIN, CS_MAX } cs_reduce_op;

/* kind: "auto", "self" (a world of one), "shm" (one host), "tcp" (several hosts, or one; among several it sums inside
 * each as "shm" does where the tree allows it, hybrid.c). "auto" is the first that fits. heap_bytes bounds what
 * cs_comm_alloc may hand out; address space only, touched pages alone cost memory; 0: as much as the machine has.
 * Blocks until all ranks have come; after `timeout_seconds` (0: 600) CS_NO_PEER names the missing ranks. Collectives
 * run on the calling thread. */
typedef struct {
    const char *kind;
    size_t      heap_bytes;
    double      timeout_seconds;
} cs_comm_settings;
cs_status cs_comm_open(cs_comm **comm, const cs_world *world, const cs_comm_settings *settings);
void      cs_comm_close(cs_comm *comm); /* accepts NULL */

int         cs_comm_rank(const cs_comm *comm);
int         cs_comm_size(const cs_comm *comm);
const char *cs_comm_kind(const cs_comm *comm);

/* Zeroed, aligned to 4096 bytes. Not collective in itself (nobody waits), but symmetric by contract. Fails with
 * cs_fatal(CS_NO_MEMORY). Freed as a whole when comm closes; cs_comm_alloc never returns the same bytes twice. */
void *cs_comm_alloc(cs_comm *comm, size_t bytes);

/* data[count], in place, becomes the sum (or min, max) over ranks. Any dtype; U8 too. */
void cs_comm_all_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op);
/* in[size * count] on every rank; out[count] = sum over ranks of part `rank`. out may be that part of in. */
void cs_comm_reduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, cs_reduce_op op);
/* out[size * count]: every rank's in[count], in order of ranks. in may be the own part of out. */
void cs_comm_all_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype);
void cs_comm_broadcast(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, int root);
void cs_comm_barrier(cs_comm *comm);
/* Blocking; matched in order between a pair. Bytes. A receive of another length than was sent is fatal with both
 * lengths. */
void cs_comm_send(cs_comm *comm, const void *data, size_t bytes, int to);
void cs_comm_receive(cs_comm *comm, void *data, size_t bytes, int from);

/* Bytes this rank had to send, at the least, for what it called, and seconds it has spent in the calls, since opening:
 * a reduce_scatter or all_gather of `count` costs (size - 1) * count elements, an all_reduce 2 * (size - 1) / size *
 * count, a broadcast (size - 1) * count at its root. */
typedef struct {
    uint64_t bytes;
    double   seconds;
    uint64_t calls;
} cs_comm_traffic;
cs_comm_traffic cs_comm_counters(const cs_comm *comm);

#endif
