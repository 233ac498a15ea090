/* nccl.c - collectives on GPU memory with NCCL, queued on the comm stream. Built into the CUDA module.
 *
 * The ranks have found each other through the host's side of the comm (comm/transport.h), by which rank 0 also sends
 * NCCL's unique id to the others.
 *
 * The communicator is a blocking one (config.blocking = 1). NCCL makes a blocking call in the caller's own thread,
 * which takes an estimated 10 to 15 microseconds. For each call of a nonblocking communicator NCCL creates a thread,
 * and the caller polls until that thread is done. This takes 60 to 90 microseconds (NCCL 2.28.9, group.cc,
 * ncclGroupEndInternal; measured with a thread that does as much work, not on a GPU). bench_comm prints what a call
 * really costs.
 *
 * Blocking calls have a disadvantage: the creation of the communicator, and the first call of each kind, which connects
 * the ranks, return only if all ranks take part. Therefore a second thread, the watchdog (function watch), supervises
 * the caller. The watchdog knows the time until which the call in progress must return, reads NCCL's asynchronous
 * error, and asks the host's side which ranks live. When a rank is lost, or the time is over, the watchdog aborts NCCL
 * and ends this process with an error message.
 *
 * How NCCL is aborted: ncclCommAbort sets flags that kernels and blocked calls read, and then frees the communicator.
 * The communicator must not be freed while the caller is inside a blocking call, but NCCL waits only for the threads of
 * nonblocking communicators (init.cc, ncclCommEnsureReady). This file therefore calls ncclCommAbort after
 * ncclGroupStart. Then the flags are still set at once, but only ncclGroupEnd would free the communicator (the same in
 * NCCL 2.27.7, 2.28.9 and 2.30.7), and this file never calls ncclGroupEnd. The flags make kernels and calls end, this
 * process ends at once, and the operating system frees the memory, which other ranks of the host may still be reading
 * until then. If a later version of NCCL sets the flags only in ncclGroupEnd, the kernels will end only when the
 * process ends.
 *
 * How the comm is closed: ncclCommFinalize and ncclCommDestroy block as well. The watchdog calls them before it ends,
 * so that the thread that closes the comm can wait for them with a time limit.
 *
 * CUDA graphs: NCCL launches a captured call in the thread that captures, like any other call. NCCL cannot finalize a
 * communicator as long as a graph exists that has captured calls of it, so the graphs are dropped first.
 *
 * Memory blocks of cs_comm_alloc are not registered with NCCL. They come from cudaMalloc, but for the GPUs of one host
 * NCCL registers only memory from ncclMemAlloc (2.28.9, p2p.cc, ipcRegisterBuffer). */
#include "comm/call.h"
#include "comm/transport.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/thread.h"
#include "device/cuda/cuda.h"

#include <nccl.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

_Static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 7), "abort relies on what ncclCommAbort does in a group");

enum { DEFAULT_SECONDS = 600, LOOK_MILLISECONDS = 50, LEFT_SECONDS = 60, CLOSE_SECONDS = 10 };

typedef struct {
    cs_comm *comm;            /* the device side of the comm */
    _Atomic(ncclComm_t) nccl; /* NCCL's communicator; NULL until the ranks are connected */
    cudaStream_t stream;
    int number;     /* number of the GPU */
    double seconds; /* time limit in seconds of a call of NCCL on the host */
    /* Time of ce_clock_seconds at which the call in progress must have returned; 0 if there is no call. */
    _Atomic double deadline;
    /* Held in every call of NCCL except ncclCommAbort, because NCCL allows one thread at a time. */
    pthread_mutex_t lock;
    pthread_t watch;
    atomic_bool closing, ending;
    _Atomic int doing; /* The last collective, as a number for ce_call_name; 0 while the ranks are being connected. */
} connection;

static void pause_for(int milliseconds)
{
    nanosleep(&(struct timespec){ milliseconds / 1000, milliseconds % 1000 * 1000000L }, NULL);
}

/* Returns a rank that has ended, as the host's side knows it, or -1. In a world of one rank it always returns -1. */
static int missing_rank(const connection *conn, bool *closed)
{
    cs_comm *host = conn->comm->host;
    return host->transport->missing ? host->transport->missing(host, closed) : -1;
}

/* ---- ending the process ---- */

static const char *doing(connection *conn)
{
    int last = atomic_load(&conn->doing);
    return last ? ce_call_name(last) : "the connection of the ranks";
}

/* A thread calls this function before it ends the process. The function returns only in the first thread that calls it;
 * other threads block in it. */
static void claim_ending(connection *conn)
{
    while (atomic_exchange(&conn->ending, true))
        pause();
}

/* Blocks if another thread is ending the process. After an abort the results of kernels are undefined, so the caller
 * must not use them. */
static void stop_if_ending(connection *conn)
{
    if (atomic_load(&conn->ending))
        claim_ending(conn);
}

/* Aborts NCCL: kernels and calls that wait for other ranks return, as the head of this file explains. The process must
 * end next, because the results of the kernels are undefined. */
static void abort_nccl(connection *conn)
{
    ncclComm_t nccl = atomic_load(&conn->nccl);
    if (nccl) {
        ncclGroupStart();
        ncclCommAbort(nccl);
    }
}

/* Ends the process because rank `peer` was lost or has left. It is called after claim_ending. It first gives the other
 * ranks time to detect which rank was lost first. */
static _Noreturn void lose(connection *conn, int peer, const char *what)
{
    pause_for(4 * LOOK_MILLISECONDS);
    abort_nccl(conn);
    ce_fatal(CS_NO_PEER, "rank %d %s (while this rank was in %s over NCCL)", ce_comm_name(conn->comm->host, peer), what,
             doing(conn));
}

/* Ends the process because of an error of NCCL. Most such errors are caused by the end of another rank, which the
 * host's side detects a moment later. Therefore this function looks for such a rank for one second, to name it in the
 * message. */
static _Noreturn void fail(connection *conn, ncclResult_t error)
{
    bool closed = true;
    char reason[512];
    claim_ending(conn);
    snprintf(reason, sizeof reason, "%s", ncclGetLastError(NULL));
    for (int looks = 0; looks < 1000 / LOOK_MILLISECONDS; looks++) {
        int peer = missing_rank(conn, &closed);
        if (peer >= 0 && !closed)
            lose(conn, peer, "was lost");
        pause_for(LOOK_MILLISECONDS);
    }
    abort_nccl(conn);
    ce_fatal(CS_NO_PEER, "NCCL failed in %s: %s (%s); NCCL_DEBUG=INFO makes it print the reason", doing(conn),
             ncclGetErrorString(error), reason);
}

/* ---- the watchdog ---- */

static bool is_waiting(connection *conn)
{
    return atomic_load(&conn->deadline) > 0 || ce_cuda_is_busy(ce_device_stream(conn->comm->device, CE_COMM));
}

/* Ends the process if another rank was lost. If another rank has closed its comm, that rank has completed all its
 * collectives. The collectives of this rank will then soon be complete too, unless this rank has called a collective
 * that the other rank never called. So the process ends only if this rank waits for collectives for LEFT_SECONDS
 * without a break after the other rank has closed its comm. */
static void look_for_ranks(connection *conn, double *alone_since)
{
    bool closed = true;
    int peer = missing_rank(conn, &closed);
    double now = ce_clock_seconds();
    if (peer < 0 || (closed && !is_waiting(conn)))
        *alone_since = now;
    if (peer < 0 || (closed && now - *alone_since < LEFT_SECONDS))
        return;
    claim_ending(conn);
    lose(conn, peer, closed ? "has left" : "was lost");
}

/* Looks for an asynchronous error of NCCL. Does nothing while the caller is inside a call of NCCL, because that call
 * itself returns the error. */
static void look_for_errors(connection *conn)
{
    ncclResult_t state = ncclSuccess;
    ncclComm_t nccl = atomic_load(&conn->nccl);
    if (!nccl || pthread_mutex_trylock(&conn->lock) != 0)
        return;
    ncclResult_t asked = ncclCommGetAsyncError(nccl, &state);
    pthread_mutex_unlock(&conn->lock);
    if (asked != ncclSuccess || state != ncclSuccess)
        fail(conn, asked != ncclSuccess ? asked : state);
}

static void look_at_deadline(connection *conn)
{
    double deadline = atomic_load(&conn->deadline);
    if (deadline == 0 || ce_clock_seconds() < deadline)
        return;
    claim_ending(conn);
    abort_nccl(conn);
    ce_fatal(CS_NO_PEER,
             "%s over NCCL did not return within %.3g seconds: a rank does not call it, or cannot be reached; "
             "NCCL_DEBUG=INFO makes NCCL print the reason",
             doing(conn), conn->seconds);
}

static void *watch(void *argument)
{
    connection *conn = argument;
    double since = ce_clock_seconds();
    /* Each thread has a current device of its own, at first GPU 0. Without this call, this thread would also open GPU
     * 0. */
    CE_CUDA(cudaSetDevice(conn->number));
    while (!atomic_load(&conn->closing)) {
        look_for_ranks(conn, &since);
        look_for_errors(conn);
        look_at_deadline(conn);
        pause_for(LOOK_MILLISECONDS);
    }
    if (ncclCommFinalize(conn->nccl) == ncclSuccess)
        ncclCommDestroy(conn->nccl);
    return NULL;
}

/* ---- calls ---- */

static void enter(connection *conn)
{
    pthread_mutex_lock(&conn->lock);
    atomic_store(&conn->deadline, ce_clock_seconds() + conn->seconds);
}

/* Begins a call of NCCL. Returns NULL if the call is part of a CUDA graph that is being replayed; then the caller must
 * not make the call. `more` is the data type or the peer, and becomes a part of the hash that identifies the call. */
static connection *begin(cs_comm *comm, const void *out, const void *in, int64_t count, int more)
{
    connection *conn = comm->private_data;
    uint64_t where = ce_rng_mix((uint64_t)(uintptr_t)out, (uint64_t)(uintptr_t)in);
    uint64_t what = ce_rng_mix((uint64_t)comm->call.what, (uint64_t)more);
    stop_if_ending(conn);
    atomic_store(&conn->doing, comm->call.what);
    if (ce_cuda_replays(ce_rng_mix(ce_rng_mix(where, what), (uint64_t)count)))
        return NULL;
    enter(conn);
    return conn;
}

/* Ends a call of NCCL that began with enter(). `result` is what NCCL returned. */
static void end(connection *conn, ncclResult_t result)
{
    atomic_store(&conn->deadline, 0);
    if (result != ncclSuccess)
        fail(conn, result);
    pthread_mutex_unlock(&conn->lock);
}

static ncclDataType_t type_of(cs_dtype dtype)
{
    static const ncclDataType_t types[] = { [CS_F32] = ncclFloat32, [CS_BF16] = ncclBfloat16, [CS_F16] = ncclFloat16,
                                            [CS_I32] = ncclInt32,   [CS_I64] = ncclInt64,     [CS_U8] = ncclUint8 };
    return types[dtype];
}

static ncclRedOp_t operation_of(cs_reduce_op op)
{
    static const ncclRedOp_t operations[] = {
        [CS_SUM] = ncclSum, [CS_MIN] = ncclMin, [CS_MAX] = ncclMax, [CS_AVG] = ncclAvg, [CS_PROD] = ncclProd
    };
    return operations[op];
}

static void all_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    connection *conn = begin(comm, data, data, count, (int)dtype);
    if (conn)
        end(conn, ncclAllReduce(data, data, (size_t)count, type_of(dtype), operation_of(op), conn->nccl, conn->stream));
}

static void reduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    connection *conn = begin(comm, out, in, count, (int)dtype);
    if (conn)
        end(conn,
            ncclReduceScatter(in, out, (size_t)count, type_of(dtype), operation_of(op), conn->nccl, conn->stream));
}

static void all_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    connection *conn = begin(comm, out, in, count, (int)dtype);
    if (conn)
        end(conn, ncclAllGather(in, out, (size_t)count, type_of(dtype), conn->nccl, conn->stream));
}

static void broadcast(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, int root)
{
    connection *conn = begin(comm, data, data, count, (int)dtype);
    if (conn)
        end(conn, ncclBroadcast(data, data, (size_t)count, type_of(dtype), root, conn->nccl, conn->stream));
}

static void send_message(cs_comm *comm, const void *data, size_t bytes, int to)
{
    connection *conn = begin(comm, data, data, (int64_t)bytes, to);
    if (conn)
        end(conn, ncclSend(data, bytes, ncclUint8, to, conn->nccl, conn->stream));
}

static void receive_message(cs_comm *comm, void *data, size_t bytes, int from)
{
    connection *conn = begin(comm, data, data, (int64_t)bytes, from);
    if (conn)
        end(conn, ncclRecv(data, bytes, ncclUint8, from, conn->nccl, conn->stream));
}

/* ---- opening ---- */

/* Writes a name of the GPU that no other GPU of any machine has. GPUs of two machines may have the same address on the
 * bus, so the name contains the random id that the kernel gives to each boot. */
static void gpu_name(char text[CE_TRANSPORT_GPU_NAME])
{
    char machine[40] = "", bus[32] = "";
    int number = 0;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (file && !fgets(machine, 37, file))
        machine[0] = 0;
    if (file)
        fclose(file);
    CE_CUDA(cudaGetDevice(&number));
    CE_CUDA(cudaDeviceGetPCIBusId(bus, sizeof bus, number));
    snprintf(text, CE_TRANSPORT_GPU_NAME, "%s of machine %s", bus, machine);
}

static cs_status share_id(const connection *conn, ncclUniqueId *id)
{
    cs_comm *host = conn->comm->host;
    memset(id, 0, sizeof *id);
    if (conn->comm->world.rank == 0) {
        ncclResult_t given = ncclGetUniqueId(id);
        if (given != ncclSuccess)
            return ce_fail(CS_NO_PEER,
                           "NCCL cannot make a unique id for the ranks: %s (%s); NCCL_DEBUG=INFO makes it print the "
                           "reason",
                           ncclGetErrorString(given), ncclGetLastError(NULL));
    }
    host->transport->broadcast(host, id, sizeof *id, CS_U8, 0);
    return CS_OK;
}

/* Connects the ranks. After a failure end() ends the process, because nothing else works until the ranks are
 * connected. */
static void connect(connection *conn, ncclUniqueId id)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t made = NULL;
    config.blocking = 1;
    enter(conn);
    end(conn, ncclCommInitRankConfig(&made, conn->comm->world.size, id, conn->comm->world.rank, &config));
    atomic_store(&conn->nccl, made);
}

static cs_status open_nccl(cs_comm *comm, const cs_comm_settings *settings)
{
    ncclUniqueId id;
    connection *conn = calloc(1, sizeof *conn);
    comm->private_data = conn;
    if (!conn)
        return ce_fail(CS_NO_MEMORY, "no memory for the communication of %d GPUs", comm->world.size);
    conn->comm = comm;
    conn->stream = ce_cuda_stream(ce_device_stream(comm->device, CE_COMM));
    conn->seconds = settings->timeout_seconds > 0 ? settings->timeout_seconds : DEFAULT_SECONDS;
    pthread_mutex_init(&conn->lock, NULL);
    CE_CUDA(cudaGetDevice(&conn->number));
    CE_TRY(share_id(conn, &id));
    int error = ce_thread_start(&conn->watch, watch, conn);
    if (error)
        return ce_fail_errno(CS_NO_MEMORY, error, "cannot start the thread that watches NCCL");
    connect(conn, id);
    return CS_OK;
}

/* ---- closing ---- */

/* Waits for the comm stream, while the watchdog still detects lost ranks. Then makes the watchdog close NCCL and end.
 * Returns false if the watchdog does not end in time because it is still inside NCCL. NCCL is not aborted in this case:
 * the comm stream is complete, so no kernel waits for other ranks. */
static bool finish(connection *conn)
{
    double seconds = conn->seconds < CLOSE_SECONDS ? conn->seconds : CLOSE_SECONDS;
    struct timespec end;
    ce_stream_sync(ce_device_stream(conn->comm->device, CE_COMM));
    stop_if_ending(conn);
    ce_cuda_graphs_drop(conn->comm->device);
    atomic_store(&conn->closing, true);
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 1 + (time_t)seconds;
    if (pthread_timedjoin_np(conn->watch, NULL, &end) == 0)
        return true;
    ce_log(CE_LOG_WARNING, "NCCL did not end within %.3g seconds, so its memory is not freed", seconds);
    return false;
}

static void close_nccl(cs_comm *comm)
{
    connection *conn = comm->private_data;
    if (!conn || (conn->nccl && !finish(conn)))
        return;
    pthread_mutex_destroy(&conn->lock);
    free(conn);
}

const ce_transport ce_comm_nccl = {
    .edition = CE_TRANSPORT_EDITION,
    .name = "nccl",
    .open = open_nccl,
    .close = close_nccl,
    .all_reduce = all_reduce,
    .reduce_scatter = reduce_scatter,
    .all_gather = all_gather,
    .broadcast = broadcast,
    .send = send_message,
    .receive = receive_message,
    .gpu_name = gpu_name,
};
