/* comm.h - collective communication between the ranks of a job: open a communicator, all-reduce, groups. (public)
 *
 *     cs_world world; cs_comm *comm;
 *     CS_MUST(cs_world_read(&world));
 *     CS_MUST(cs_comm_open(&comm, &world, &(cs_comm_settings){ .kind = "auto" }));
 *     float *data = cs_comm_alloc(comm, 1000 * sizeof *data);
 *     cs_comm_all_reduce(comm, data, 1000, CS_F32, CS_SUM);
 *     cs_comm_close(comm);
 *
 * All ranks call the same collectives in the same order with the same counts, operation and root. On a CPU the ranks
 * compare their calls: if two calls differ, or a rank leaves a call out, the process ends with exit code 76 and prints
 * a sentence that names both ranks and both calls. Counts are numbers of elements unless a name says bytes; a count of
 * 0 is allowed. Any rank may be the root. A sum over ranks follows a balanced binary tree, ((0 1) (2 3)) ...; 16-bit
 * floats are added in fp32, and the sum is rounded once. The result of a sum therefore has the same bits on every rank
 * and in every run, and an all_reduce has the bits of a reduce_scatter followed by an all_gather. If a peer dies, the
 * collective prints a sentence and ends this process with exit code 75.
 *
 * Any memory may be passed to a collective. Memory from cs_comm_alloc is faster in all_reduce, reduce_scatter,
 * all_gather and broadcast: if all large buffers of such a call come from cs_comm_alloc, the ranks of one host work in
 * place. Other memory, and the memory of the other collectives, is copied through staging buffers.
 *
 * On a GPU. With a GPU as the device of the settings, cs_comm_alloc returns memory of that GPU. A collective recognises
 * GPU memory by the address of a buffer. The buffers of one call, on all ranks, must be either all in GPU memory or all
 * in host memory. Host memory goes through the host's transport, as without a GPU. A collective on GPU memory is queued
 * on the device's communication stream, and the call returns before the collective is done. The engine orders its
 * streams by events of the device: the collective waits for earlier operations of the other streams, and later
 * operations of the other streams wait for the collective. NCCL carries out the collective. Without NCCL the data goes
 * through pinned host memory and the host's transport, and the result has the same bits as on a CPU. NCCL sums in an
 * order of its own and may round 16-bit sums more than once, so the statements about equal bits above do not hold for
 * NCCL. NCCL also does not notice when ranks call different collectives. Scatter, gather, reduce, all_to_all, the calls
 * whose names end in _v, and the calls whose names begin with cs_comm_i are for host memory only; with GPU memory they
 * end the process with exit code 70. */
#ifndef CS_COMM_COMM_H
#define CS_COMM_COMM_H

#include "cspeed/cspeed.h"

#ifdef __cplusplus
extern "C" {
#endif

/* This process's position in the job, and the address of the rendezvous. */
typedef struct {
    int rank, size;
    /* local_size: number of the ranks on this host; local_rank: this process's number among these ranks, from 0 */
    int local_rank, local_size;
    char address[256]; /* MASTER_ADDR: host name or address of rank 0's host */
    int port;          /* MASTER_PORT */
    char job[64];      /* CSPEED_JOB_ID, the job's name; "" if cspeed's launcher did not start this process */
    int attempt;       /* CSPEED_ATTEMPT, the number of restarts of the job; 0 if the variable is not set */
    bool bound;        /* CSPEED_BOUND; true: this process has cores that the host's other ranks do not use */
} cs_world;

/* Reads the environment: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT (torchrun's
 * names), or the variables that Open MPI, MPICH, MVAPICH, PALS or srun set for the ranks that they start. If none is
 * set, the world has one rank. CS_BAD_CONFIG: some of the variables are missing or contradict each other; cs_error()
 * quotes them. */
cs_status cs_world_read(cs_world *world);

typedef struct cs_comm cs_comm;
typedef struct cs_device cs_device; /* an opaque type: only the engine opens devices */
/* The operation of a reduction. Integers wrap around on overflow. CS_AVG is the sum divided by the number of ranks;
 * 16-bit floats are rounded after the division. For integers CS_AVG divides the sum after it wrapped around, and rounds
 * the quotient towards zero. A minimum or maximum is NaN if any rank's value is NaN. */
typedef enum { CS_SUM, CS_MIN, CS_MAX, CS_AVG, CS_PROD } cs_reduce_op;

typedef struct {
    /* The transport:
     *   "self"  a world of one rank
     *   "shm"   shared memory; all ranks are on one host
     *   "tcp"   sockets; one host or several. Where the tree of summation allows it, the ranks of each host first sum
     *           among themselves through shared memory.
     *   "mpi"   messages of MPI, for ranks that mpirun or srun started; libcspeed_mpi.so must have been built. The
     *           world must be that of MPI_COMM_WORLD. MPI is finalized when the process exits with code 0. A program
     *           that initializes MPI itself must ask for MPI_THREAD_SERIALIZED, and must finalize MPI itself after it
     *           has closed its comms. When a rank dies, mpirun ends the others. For GPU memory, "mpi" is the same as
     *           "auto".
     *   "nccl"  NCCL for GPU memory; `device` must be a GPU. For host memory, "nccl" is the same as "auto".
     *   "auto"  the first of self, shm and tcp that fits; for GPU memory NCCL, if each rank has it and its own GPU */
    const char *kind;
    /* Upper bound, in bytes, of the memory that all calls of cs_comm_alloc return together; 0 means as much as the
     * machine has. On the host only address space is reserved: a page uses memory after it is first written. */
    size_t heap_bytes;
    double timeout_seconds; /* seconds for which cs_comm_open waits for the other ranks; 0 means 600 */
    /* A GPU that the engine opened; the GPU must stay open until the comm is closed. If `device` is NULL or a CPU,
     * cs_comm_alloc returns host memory. Either every rank gives a device or none does. CS_DISAGREE: some ranks give a
     * GPU and others a CPU. */
    cs_device *device;
    /* Seconds for which a call may wait for other ranks; 0 means no limit while the other ranks are alive. After this
     * time the process prints a sentence that names a rank for which the call waited, and ends with exit code 75. For
     * calls over NCCL, timeout_seconds is the limit instead. */
    double call_seconds;
    /* If true, the calls whose names begin with cs_comm_i may be used. For these calls, each rank has a second set of
     * connections (TCP) or segments (shared memory), and a thread, which uses a part of a core while such calls run. */
    bool nonblocking;
} cs_comm_settings;

/* Blocks until all ranks have called this function. CS_NO_PEER: some ranks did not call it within timeout_seconds;
 * cs_error() names them. The collectives of this comm run on the thread that calls them. */
cs_status cs_comm_open(cs_comm **comm, const cs_world *world, const cs_comm_settings *settings);
/* Opens a comm. init_method is the rendezvous, in PyTorch's notation:
 *   "env://"            the environment, as cs_world_read reads it; rank and size must be -1 or equal to RANK and
 *                       WORLD_SIZE
 *   "tcp://HOST:PORT"   rank 0 listens there; HOST is a name or address of rank 0's host, in brackets if IPv6
 *   "file://PATH"       rank 0 chooses a port and writes it into the file, which must be visible to all ranks. The file
 *                       must not exist before; rank 0 removes it when all ranks have connected
 * The ranks determine which of them share a host. Without CSPEED_SECRET, HOST must be a loopback address, and with
 * file:// all ranks must be on one host. CS_BAD_CONFIG: the address, rank or size is wrong. CS_NO_PEER: as with
 * cs_comm_open. */
cs_status cs_comm_open_at(cs_comm **comm, const char *init_method, int rank, int size,
                          const cs_comm_settings *settings);
void cs_comm_close(cs_comm *comm); /* Closes the comm, which may be NULL, and frees all memory from cs_comm_alloc. */

/* Divides the ranks of a comm into groups. Ranks that pass the same color (>= 0) form a group, in which they are
 * numbered in ascending order of key; ranks with equal keys are in the order of `parent`. A group is a comm of its own:
 * it has its own numbers of ranks, memory, connections and transport, it may be split again, and groups may work at the
 * same time. All ranks of `parent` must call this function. A rank that is to be in no group passes a negative color
 * and gets a comm with rank -1 and size 0; on this comm every call except cs_comm_close ends the process with exit code
 * 70. The groups have the settings of `parent`, and `parent` may be closed before its groups. With a device, each group
 * opens NCCL again. The errors are those of cs_comm_open. */
cs_status cs_comm_split(cs_comm **group, cs_comm *parent, int color, int key);

int cs_comm_rank(const cs_comm *comm);
int cs_comm_size(const cs_comm *comm);
const char *cs_comm_kind(const cs_comm *comm); /* the transport in use: "nccl" if GPU memory uses NCCL, otherwise the
                                                * host's transport */

/* The algorithm of the last collective of host memory, such as "direct", "in_place" or "hierarchical"; "" before
 * the first one. docs/collectives.md describes the algorithms. */
const char *cs_comm_algorithm(const cs_comm *comm);

/* Changes settings.call_seconds of this comm on this rank only. The comm may be a group. No call of this comm may be in
 * progress. */
void cs_comm_set_call_seconds(cs_comm *comm, double seconds);

/* Returns zeroed memory, aligned to 4096 bytes on the host and to 64 bytes on a GPU. Every rank must allocate the same
 * sizes in the same order, but the call does not wait for other ranks. The memory lives until the comm is closed. If
 * there is not enough memory, the call prints a sentence and ends the process. */
void *cs_comm_alloc(cs_comm *comm, size_t bytes);

/* Replaces each element of data[count] by the result of `op` for that element over all ranks. Every cs_dtype is
 * allowed. */
void cs_comm_all_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op);
/* `in` has size * count elements on every rank, in `size` parts. out[count] becomes the result of `op` over all ranks
 * for part number `rank`, where `rank` is the caller's rank. `out` may be that part of `in`. */
void cs_comm_reduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, cs_reduce_op op);
/* out[size * count] becomes in[count] of all ranks, in order of ranks. `in` may be this rank's part of `out`. */
void cs_comm_all_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype);
/* data[count] of rank `root` replaces data[count] of all other ranks. */
void cs_comm_broadcast(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, int root);
/* data[count] of rank `root` becomes the result of `op` over all ranks, element by element. The data of other ranks
 * does not change. */
void cs_comm_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op, int root);
/* On the root, `in` has size * count elements, in `size` parts. out[count] on rank r becomes part r of that buffer.
 * `in` is only read on the root. On the root, `out` may be the root's part of `in`. */
void cs_comm_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, int root);
/* out[size * count] of the root becomes in[count] of all ranks, in order of ranks. `out` is only written on the root.
 * On the root, `in` may be the root's part of `out`. */
void cs_comm_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, int root);
/* `in` and `out` have size * count elements, in `size` parts. Part i of `out` becomes part number `rank` (the caller's
 * rank) of the buffer `in` of rank i. `in` and `out` must not overlap. */
void cs_comm_all_to_all(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype);
/* Like cs_comm_reduce_scatter and cs_comm_all_gather, but the part of rank i has counts[i] elements. `counts` has
 * `size` elements and must be the same on all ranks. The parts are adjacent. */
void cs_comm_reduce_scatter_v(cs_comm *comm, void *out, const void *in, const int64_t *counts, cs_dtype dtype,
                              cs_reduce_op op);
void cs_comm_all_gather_v(cs_comm *comm, void *out, const void *in, const int64_t *counts, cs_dtype dtype);
/* Returns when all ranks have called this function. */
void cs_comm_barrier(cs_comm *comm);
/* cs_comm_send sends a message to rank `to`, and cs_comm_receive receives one from rank `from`; both calls block.
 * Messages between two ranks arrive in the order in which they were sent. If a receive and its send have different
 * lengths, the process prints a sentence with both lengths and ends. */
void cs_comm_send(cs_comm *comm, const void *data, size_t bytes, int to);
void cs_comm_receive(cs_comm *comm, void *data, size_t bytes, int from);

/* Calls that return before they are done, in a comm that was opened with settings.nonblocking. Until cs_work_wait has
 * returned, the program must not write the buffers of a call, and must not read the buffers that the call writes. A
 * thread carries out the calls of a comm in the order in which they were made: consecutive messages are transferred at
 * the same time, and a collective begins when all earlier calls of this rank are done. Two ranks must therefore make
 * the calls that concern both of them in the same order. Calls whose names do not begin with cs_comm_i are independent
 * of these calls and may be made in the meantime. */
typedef struct cs_work cs_work;
cs_work *cs_comm_isend(cs_comm *comm, const void *data, size_t bytes, int to);
cs_work *cs_comm_ireceive(cs_comm *comm, void *data, size_t bytes, int from);
cs_work *cs_comm_iall_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op);
cs_work *cs_comm_ireduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype,
                                 cs_reduce_op op);
cs_work *cs_comm_iall_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype);
bool cs_work_is_done(cs_work *work);
void cs_work_wait(cs_work *work); /* returns when the call of `work` is done; `work` is then no longer valid */

/* What the calls of a comm since cs_comm_open have cost this rank. A call over NCCL ends when it is queued, so
 * `seconds` does not contain the transfer, unless comms_logger records the call. */
typedef struct {
    uint64_t
        bytes; /* bytes that this rank has to send if every part goes directly to its receivers. The number of elements
                * is (size - 1) * count for a reduce_scatter, all_gather or all_to_all, 2 * (size - 1) / size * count
                * for an all_reduce, (size - 1) * count for the root of a broadcast or scatter, and count for each rank
                * but the root of a gather or reduce */
    /* bytes that calls over the transport "tcp" have sent to ranks of other hosts, without the heads of its frames.
     * Hierarchical calls send fewer than `bytes` says. Other transports, and calls whose names begin with cs_comm_i, do
     * not count them. */
    uint64_t between_hosts;
    /* seconds in the calls, waiting included; for calls whose names begin with cs_comm_i, seconds in cs_work_wait */
    double seconds;
    uint64_t calls;
} cs_comm_traffic;
cs_comm_traffic cs_comm_counters(const cs_comm *comm);

#ifdef __cplusplus
}
#endif
#endif
