/* comm.h - how ranks talk: the collectives, and what a transport is. (public)
 *
 * All ranks call the same collectives in the same order with the same counts. Sums are taken over ranks by the balanced
 * binary tree ((0 1) (2 3)) ..., in fp32 for 16-bit floats and rounded once, so that the result has the same bits on
 * every rank, at any time, and all_reduce equals reduce_scatter then all_gather. A peer that dies ends this process
 * with a sentence and exit code 75 (cs_fatal).
 *
 * Memory from cs_comm_alloc is symmetric (every rank allocates the same sizes in the same order) and takes part in
 * collectives in place; any other memory works too and is copied through staging buffers. A collective counts as in
 * place when all its large buffers are symmetric.
 *
 * With a far device (a GPU) cs_comm_alloc hands out the device's memory, and collectives tell by the address where a
 * buffer is: all of a call's are the device's, of cs_comm_alloc or cs_device_alloc, on every rank, or none is. Host
 * memory goes over the host's transport, as without a device. A collective on device memory is put into the device's
 * comm stream, and the caller goes on; what comes before it and after it is ordered by events. NCCL moves it, or the
 * host's transport through pinned memory, with the bits of a run on the CPU. NCCL's sums have an order and, in 16 bits,
 * a rounding of their own: the fixed tree is promised without it; and NCCL does not notice that ranks call different
 * things. */
#ifndef CS_COMM_COMM_H
#define CS_COMM_COMM_H

#include "comm/world.h"
#include "device/device.h"

typedef struct cs_comm cs_comm;
typedef enum { CS_SUM, CS_MIN, CS_MAX } cs_reduce_op;

/* kind: "auto", "self" (a world of one), "shm" (one host), "tcp" (several hosts, or one; among several it sums inside
 * each as "shm" does where the tree allows it, hybrid.c), "nccl" (a CUDA device's memory; the host's goes as in
 * "auto"). "auto" is the first that fits, and for device memory nccl where every rank has it and a GPU of its own.
 * heap_bytes bounds what cs_comm_alloc may hand out; on the host that is address space, and touched pages alone cost
 * memory; 0: as much as the machine has. Blocks until all ranks have come; after `timeout_seconds` (0: 600) CS_NO_PEER
 * names the missing ranks. Collectives run on the calling thread. Either every rank gives a device or none does, and the
 * devices outlive the comm. CS_DISAGREE where some ranks' devices have memory of their own (GPUs) and others' do not;
 * where none does, collectives are as without a device. */
typedef struct {
    const char *kind;
    size_t heap_bytes;
    double timeout_seconds;
    cs_device *device;
} cs_comm_settings;
cs_status cs_comm_open(cs_comm **comm, const cs_world *world, const cs_comm_settings *settings);
void cs_comm_close(cs_comm *comm); /* accepts NULL */

int cs_comm_rank(const cs_comm *comm);
int cs_comm_size(const cs_comm *comm);
const char *cs_comm_kind(const cs_comm *comm); /* of a far device's memory "nccl", or else the host's transport */

/* Zeroed, aligned to 4096 bytes (a far device's as cs_device_alloc's). Not collective in itself (nobody waits), but
 * symmetric by contract. Fails with cs_fatal(CS_NO_MEMORY). Freed as a whole when comm closes; cs_comm_alloc never
 * returns the same bytes twice. */
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
 * count, a broadcast (size - 1) * count at its root. Over NCCL a call returns when it is in the stream, unless
 * comms_logger records it. */
typedef struct {
    uint64_t bytes;
    double seconds;
    uint64_t calls;
} cs_comm_traffic;
cs_comm_traffic cs_comm_counters(const cs_comm *comm);

#endif
