/* comm.h - collective communication between the ranks of a job: open a communicator, all-reduce, all-gather. (public)
 *
 *     cs_world world; cs_comm *comm;
 *     CS_MUST(cs_world_read(&world));
 *     CS_MUST(cs_comm_open(&comm, &world, &(cs_comm_settings){ .kind = "auto" }));
 *     float *data = cs_comm_alloc(comm, 1000 * sizeof *data);
 *     cs_comm_all_reduce(comm, data, 1000, CS_F32, CS_SUM);
 *     cs_comm_close(comm);
 *
 * All ranks call the same collectives in the same order with the same counts. Counts are numbers of elements unless a
 * name says bytes. A sum over ranks follows a balanced binary tree, ((0 1) (2 3)) ..., computes 16-bit floats in fp32
 * and rounds once. Its result therefore has the same bits on every rank and in every run, and an all_reduce has the
 * bits of a reduce_scatter followed by an all_gather. If a peer dies, the collective prints a sentence and ends this
 * process with exit code 75.
 *
 * Any memory may be passed to a collective. Memory from cs_comm_alloc is faster: if all large buffers of a call come
 * from there, the ranks work in place; other memory is copied through staging buffers.
 *
 * On a GPU. With a GPU as the device of the settings, cs_comm_alloc returns memory of that GPU. A collective recognises
 * by the address where a buffer is: either all buffers of a call are in GPU memory, on every rank, or none is. Host
 * memory uses the host's transport, as without a GPU. A collective on GPU memory is queued on the device's
 * communication stream and the call returns; events order it against other work. NCCL carries it out; without NCCL the
 * data goes through pinned host memory and the host's transport, with the bits of a run on the CPU. NCCL sums in an
 * order of its own and may round 16-bit sums more than once, so the promise about bits does not hold for it, and it
 * does not notice when ranks call different collectives. */
#ifndef CS_COMM_COMM_H
#define CS_COMM_COMM_H

#include "cspeed/cspeed.h"

#ifdef __cplusplus
extern "C" {
#endif

/* This process's position in the job, and where the ranks meet. */
typedef struct {
    int rank, size;
    int local_rank, local_size; /* among the ranks of this host */
    char address[256];          /* MASTER_ADDR: host name or address of rank 0's host */
    int port;                   /* MASTER_PORT */
    char job[64];               /* CSPEED_JOB_ID; "" if cspeed's launcher did not start this process */
    int attempt;                /* CSPEED_ATTEMPT, the number of restarts of the job; 0 if it is not set */
    bool bound;                 /* CSPEED_BOUND: this process has cores that the host's other ranks do not use */
} cs_world;

/* Reads the environment: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT (torchrun's
 * names), or the variables that Open MPI, MPICH, MVAPICH, PALS or srun set for the ranks that they start. If none is
 * set, the world has one rank. CS_BAD_CONFIG: some are missing or contradict each other; cs_error() quotes them. */
cs_status cs_world_read(cs_world *world);

typedef struct cs_comm cs_comm;
typedef struct cs_device cs_device; /* opaque: only the engine opens devices */
typedef enum { CS_SUM, CS_MIN, CS_MAX } cs_reduce_op;

typedef struct {
    /* The transport:
     *   "self"  a world of one rank
     *   "shm"   shared memory; all ranks are on one host
     *   "tcp"   sockets; one host or several. Where the tree of summation allows it, the ranks of each host first sum
     *           among themselves through shared memory.
     *   "nccl"  memory of a GPU; host memory goes as with "auto"
     *   "auto"  the first of self, shm and tcp that fits; for GPU memory NCCL, if each rank has it and its own GPU */
    const char *kind;
    /* Upper bound of all that cs_comm_alloc returns; 0: as much as the machine has. On the host this reserves address
     * space only; a page costs memory once it is written. */
    size_t heap_bytes;
    double timeout_seconds; /* how long cs_comm_open waits for the other ranks; 0: 600 */
    /* A GPU that the engine opened; it must outlive the comm. NULL, or a CPU device: host memory. Either every rank gives
     * a device or none does; CS_DISAGREE if some ranks give a GPU and others a CPU. */
    cs_device *device;
} cs_comm_settings;

/* Blocks until all ranks have called it. CS_NO_PEER after the timeout, with a sentence that names the missing ranks.
 * Collectives then run on the calling thread. */
cs_status cs_comm_open(cs_comm **comm, const cs_world *world, const cs_comm_settings *settings);
void cs_comm_close(cs_comm *comm); /* accepts NULL; frees all memory from cs_comm_alloc */

int cs_comm_rank(const cs_comm *comm);
int cs_comm_size(const cs_comm *comm);
const char *cs_comm_kind(const cs_comm *comm); /* the transport in use: of GPU memory if it is NCCL, else the host's */

/* Returns zeroed memory, aligned to 4096 bytes on the host and to 64 bytes on a GPU. Every rank must allocate the same
 * sizes in the same order, but the call does not wait for other ranks. The memory lives until the comm is closed.
 * Without memory it prints a sentence and ends the process. */
void *cs_comm_alloc(cs_comm *comm, size_t bytes);

/* Replaces data[count] by the sum, minimum or maximum over all ranks, element by element. Every cs_dtype is allowed. */
void cs_comm_all_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op);
/* in has size * count elements on every rank, in `size` parts. out[count] becomes the sum over ranks of part number
 * `rank`. out may be that part of in. */
void cs_comm_reduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, cs_reduce_op op);
/* out[size * count] becomes in[count] of all ranks, in order of ranks. in may be this rank's part of out. */
void cs_comm_all_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype);
/* data[count] of rank `root` replaces data[count] of all other ranks. */
void cs_comm_broadcast(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, int root);
/* Returns when all ranks have called it. */
void cs_comm_barrier(cs_comm *comm);
/* Point-to-point, blocking. Messages between two ranks arrive in the order in which they were sent. A receive whose
 * length differs from the send's ends the process with a sentence that has both lengths. */
void cs_comm_send(cs_comm *comm, const void *data, size_t bytes, int to);
void cs_comm_receive(cs_comm *comm, void *data, size_t bytes, int from);

/* What the calls since cs_comm_open cost this rank. Over NCCL a call ends when it is queued, so seconds do not contain
 * the transfer, unless comms_logger records it. */
typedef struct {
    uint64_t
        bytes; /* lower bound of what this rank had to send, in elements: (size - 1) * count for a reduce_scatter or
                * all_gather, 2 * (size - 1) / size * count for an all_reduce, (size - 1) * count for a broadcast's
                * root; times the size of an element */
    double seconds; /* in the calls, waiting included */
    uint64_t calls;
} cs_comm_traffic;
cs_comm_traffic cs_comm_counters(const cs_comm *comm);

#ifdef __cplusplus
}
#endif
#endif
