/* nccl.c - collectives on the memory of GPUs by NCCL, in the comm stream. Built into the CUDA module.
 *
 * The ranks have met over the host's side, which also brings them rank 0's unique id. No call of NCCL blocks: what is
 * under way is polled for, until the time-out. NCCL does not notice everywhere that a process is gone, and its kernels
 * would wait for it for ever; so a thread watches NCCL's own errors and the lives of the other ranks, as the host's
 * side knows them, and when one is lost it aborts NCCL, which ends the kernels, and then this process. */
#include "comm/call.h"
#include "comm/transport.h"
#include "base/clock.h"
#include "base/rng.h"
#include "device/cuda/cuda.h"

#include <nccl.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEFAULT_SECONDS = 600, LOOK_MILLISECONDS = 50, LEFT_SECONDS = 60, ABORT_SECONDS = 10, FAREWELL_SECONDS = 10 };

static const double YIELD_SECONDS = 0.005; /* of waiting for a call, before the thread sleeps */

typedef struct {
    cs_comm *comm;   /* the far side */
    ncclComm_t nccl; /* NULL: not begun */
    cudaStream_t stream;
    int number;           /* of the GPU */
    double seconds;       /* until what does not get under way is given up */
    pthread_mutex_t lock; /* over all calls of NCCL, and `nccl` */
    pthread_t watch;
    bool watching;
    atomic_bool closing;
    _Atomic int doing; /* what cs_call_name names: the last call put into the stream */
} connection;

static void pause_for(int milliseconds)
{
    nanosleep(&(struct timespec){ milliseconds / 1000, milliseconds % 1000 * 1000000L }, NULL);
}

/* As the host's side knows it: a rank that has ended, or -1. A world of one rank has no others. */
static int missing_rank(const connection *own, bool *closed)
{
    cs_comm *host = own->comm->host;
    return host->transport->missing ? host->transport->missing(host, closed) : -1;
}

/* ---- ending ----------------------------------------------------------------------------------- */

static void *abort_nccl(void *argument)
{
    ncclCommAbort(argument);
    return NULL;
}

/* Ends the kernels that wait for others, so that the process can go. NCCL itself may hang: then it goes without. The
 * caller holds the lock, and keeps it. */
static void give_up(connection *own)
{
    pthread_t thread;
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += ABORT_SECONDS;
    if (own->nccl && pthread_create(&thread, NULL, abort_nccl, own->nccl) == 0)
        pthread_timedjoin_np(thread, NULL, &end);
    own->nccl = NULL;
}

static const char *doing(connection *own)
{
    int last = atomic_load(&own->doing);
    return last ? cs_call_name(last) : "setting up";
}

static const char *reason_of(const connection *own, ncclResult_t error)
{
    const char *text = ncclGetLastError(own->nccl);
    return text && text[0] ? text : ncclGetErrorString(error);
}

/* The others are given the time to see who was first before this rank ends, too. */
static _Noreturn void lose(connection *own, int peer, const char *what)
{
    pause_for(4 * LOOK_MILLISECONDS);
    give_up(own);
    cs_fatal(CS_NO_PEER, "rank %d %s (while this rank was in %s over NCCL)", peer, what, doing(own));
}

/* An error of NCCL: most are another rank's end, which the host's side sees a moment later. The caller holds the lock.
 */
static _Noreturn void fail(connection *own, ncclResult_t error)
{
    bool closed = true;
    char reason[512];
    snprintf(reason, sizeof reason, "%s", reason_of(own, error));
    for (int looks = 0; looks < 1000 / LOOK_MILLISECONDS; looks++) {
        int peer = missing_rank(own, &closed);
        if (peer >= 0 && !closed)
            lose(own, peer, "was lost");
        pause_for(LOOK_MILLISECONDS);
    }
    give_up(own);
    cs_fatal(CS_NO_PEER, "NCCL failed in %s: %s (%s); NCCL_DEBUG=INFO makes it say more", doing(own),
             ncclGetErrorString(error), reason);
}

/* ---- watching --------------------------------------------------------------------------------- */

/* Not while the caller's thread is in a call: that sees its errors itself. */
static void look_for_errors(connection *own)
{
    ncclResult_t state = ncclSuccess;
    if (pthread_mutex_trylock(&own->lock) != 0)
        return;
    ncclResult_t asked = ncclCommGetAsyncError(own->nccl, &state);
    if (asked != ncclSuccess || (state != ncclSuccess && state != ncclInProgress))
        fail(own, asked != ncclSuccess ? asked : state);
    pthread_mutex_unlock(&own->lock);
}

/* A rank that closed has done all its collectives, so this one's will soon be done as well; unless it is not in the
 * last of them. */
static void look_for_ranks(connection *own, double *alone_since)
{
    bool closed = true;
    int peer = missing_rank(own, &closed);
    double now = cs_clock_seconds();
    if (peer < 0 || (closed && !cs_cuda_is_busy(cs_device_stream(own->comm->device, CS_COMM))))
        *alone_since = now;
    if (peer < 0 || (closed && now - *alone_since < LEFT_SECONDS))
        return;
    pthread_mutex_lock(&own->lock);
    lose(own, peer, closed ? "has left" : "was lost");
}

static void *watch(void *argument)
{
    connection *own = argument;
    double since = cs_clock_seconds();
    CS_CUDA(cudaSetDevice(own->number)); /* a thread's own setting; without it the first GPU would be opened too */
    while (!atomic_load(&own->closing)) {
        look_for_errors(own);
        look_for_ranks(own, &since);
        pause_for(LOOK_MILLISECONDS);
    }
    return NULL;
}

/* ---- calls ------------------------------------------------------------------------------------ */

/* NULL: a graph does it. `more` is what else tells a call from others: type, or peer. */
static connection *begin(cs_comm *comm, const void *out, const void *in, int64_t count, int more)
{
    connection *own = comm->own;
    uint64_t where = cs_rng_mix((uint64_t)(uintptr_t)out, (uint64_t)(uintptr_t)in);
    uint64_t what = cs_rng_mix((uint64_t)comm->doing, (uint64_t)more);
    atomic_store(&own->doing, comm->doing);
    if (cs_cuda_replays(cs_rng_mix(cs_rng_mix(where, what), (uint64_t)count)))
        return NULL;
    pthread_mutex_lock(&own->lock);
    return own;
}

/* Returns when the call is in the stream. NCCL hands each call of a communicator that does not block to a thread of its
 * own, which takes some tens of microseconds; this thread gives way meanwhile, since a sleep would last a millisecond.
 * Only the first call of a kind, which connects ranks, takes so long that it is slept for. */
static void end(connection *own, ncclResult_t result)
{
    double began = cs_clock_seconds(), deadline = began + own->seconds;
    while (result == ncclInProgress) {
        pthread_mutex_unlock(&own->lock);
        if (cs_clock_seconds() - began < YIELD_SECONDS)
            sched_yield();
        else
            pause_for(1);
        pthread_mutex_lock(&own->lock);
        ncclResult_t asked = ncclCommGetAsyncError(own->nccl, &result);
        if (asked != ncclSuccess)
            result = asked;
        if (result == ncclInProgress && cs_clock_seconds() > deadline) {
            give_up(own);
            cs_fatal(CS_NO_PEER,
                     "%s over NCCL did not begin within %.3g seconds: a rank does not call it, or cannot be reached",
                     doing(own), own->seconds);
        }
    }
    if (result != ncclSuccess)
        fail(own, result);
    pthread_mutex_unlock(&own->lock);
}

static ncclDataType_t type_of(cs_dtype dtype)
{
    static const ncclDataType_t types[] = { [CS_F32] = ncclFloat32, [CS_BF16] = ncclBfloat16, [CS_F16] = ncclFloat16,
                                            [CS_I32] = ncclInt32,   [CS_I64] = ncclInt64,     [CS_U8] = ncclUint8 };
    return types[dtype];
}

static ncclRedOp_t operation_of(cs_reduce_op op)
{
    static const ncclRedOp_t operations[] = { [CS_SUM] = ncclSum, [CS_MIN] = ncclMin, [CS_MAX] = ncclMax };
    return operations[op];
}

static void all_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    connection *own = begin(comm, data, data, count, (int)dtype);
    if (own)
        end(own, ncclAllReduce(data, data, (size_t)count, type_of(dtype), operation_of(op), own->nccl, own->stream));
}

static void reduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    connection *own = begin(comm, out, in, count, (int)dtype);
    if (own)
        end(own, ncclReduceScatter(in, out, (size_t)count, type_of(dtype), operation_of(op), own->nccl, own->stream));
}

static void all_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    connection *own = begin(comm, out, in, count, (int)dtype);
    if (own)
        end(own, ncclAllGather(in, out, (size_t)count, type_of(dtype), own->nccl, own->stream));
}

static void broadcast(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, int root)
{
    connection *own = begin(comm, data, data, count, (int)dtype);
    if (own)
        end(own, ncclBroadcast(data, data, (size_t)count, type_of(dtype), root, own->nccl, own->stream));
}

static void send_message(cs_comm *comm, const void *data, size_t bytes, int to)
{
    connection *own = begin(comm, data, data, (int64_t)bytes, to);
    if (own)
        end(own, ncclSend(data, bytes, ncclUint8, to, own->nccl, own->stream));
}

static void receive_message(cs_comm *comm, void *data, size_t bytes, int from)
{
    connection *own = begin(comm, data, data, (int64_t)bytes, from);
    if (own)
        end(own, ncclRecv(data, bytes, ncclUint8, from, own->nccl, own->stream));
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
/* Registered, a block is read and written where it lies, not copied through NCCL's own buffers; where what is between
 * these GPUs cannot do that, NCCL leaves it at that, and gives no ticket. */
static void lend(cs_comm *comm, cs_comm_block *block)
{
    connection *own = comm->own;
    pthread_mutex_lock(&own->lock);
    end(own, ncclCommRegister(own->nccl, block->memory, block->bytes, &block->ticket));
}

static void take_back(connection *own)
{
    for (size_t i = 0; i < own->comm->block_count; i++)
        if (own->comm->blocks[i].ticket)
            ncclCommDeregister(own->nccl, own->comm->blocks[i].ticket);
}
#else
static void lend(cs_comm *comm, cs_comm_block *block)
{
    (void)comm, (void)block;
}

static void take_back(connection *own)
{
    (void)own;
}
#endif

/* ---- opening ---------------------------------------------------------------------------------- */

/* A GPU of one machine, as it was started: two machines have GPUs at the same place of their buses. */
static void seat(char text[CS_TRANSPORT_SEAT])
{
    char machine[40] = "", bus[32] = "";
    int number = 0;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (file && !fgets(machine, 37, file))
        machine[0] = 0;
    if (file)
        fclose(file);
    CS_CUDA(cudaGetDevice(&number));
    CS_CUDA(cudaDeviceGetPCIBusId(bus, sizeof bus, number));
    snprintf(text, CS_TRANSPORT_SEAT, "%s of machine %s", bus, machine);
}

static cs_status refuse(const char *what, ncclResult_t error)
{
    return cs_fail(CS_NO_PEER, "NCCL: %s: %s (%s); NCCL_DEBUG=INFO makes it say more", what, ncclGetErrorString(error),
                   ncclGetLastError(NULL));
}

static cs_status await(connection *own)
{
    double deadline = cs_clock_seconds() + own->seconds;
    ncclResult_t state = ncclInProgress;
    bool closed = true;
    while (state == ncclInProgress) {
        ncclResult_t asked = ncclCommGetAsyncError(own->nccl, &state);
        if (asked != ncclSuccess)
            state = asked;
        int peer = missing_rank(own, &closed);
        if (state != ncclSuccess && peer >= 0)
            return cs_fail(CS_NO_PEER, "rank %d %s while NCCL connected the ranks", peer,
                           closed ? "gave up" : "was lost");
        if (state == ncclInProgress && cs_clock_seconds() > deadline)
            return cs_fail(CS_NO_PEER,
                           "NCCL did not connect the %d ranks within %.3g seconds, though all have met; "
                           "NCCL_DEBUG=INFO makes it say why",
                           own->comm->world.size, own->seconds);
        if (state == ncclInProgress)
            pause_for(1);
    }
    return state == ncclSuccess ? CS_OK : refuse("connecting the ranks", state);
}

static cs_status connect(connection *own)
{
    cs_comm *host = own->comm->host;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    memset(&id, 0, sizeof id);
    if (own->comm->world.rank == 0) {
        ncclResult_t given = ncclGetUniqueId(&id);
        if (given != ncclSuccess)
            return refuse("a unique id for the ranks", given);
    }
    host->transport->broadcast(host, &id, sizeof id, CS_U8, 0);
    config.blocking = 0;
    ncclResult_t begun = ncclCommInitRankConfig(&own->nccl, own->comm->world.size, id, own->comm->world.rank, &config);
    if (begun != ncclSuccess && begun != ncclInProgress)
        return refuse("joining the ranks", begun);
    return await(own);
}

static cs_status open_nccl(cs_comm *comm, const cs_comm_settings *settings)
{
    connection *own = calloc(1, sizeof *own);
    comm->own = own;
    if (!own)
        return cs_fail(CS_NO_MEMORY, "no memory for the communication of %d GPUs", comm->world.size);
    own->comm = comm;
    own->stream = cs_cuda_stream(cs_device_stream(comm->device, CS_COMM));
    own->seconds = settings->timeout_seconds > 0 ? settings->timeout_seconds : DEFAULT_SECONDS;
    pthread_mutex_init(&own->lock, NULL);
    CS_CUDA(cudaGetDevice(&own->number));
    CS_TRY(connect(own));
    int error = pthread_create(&own->watch, NULL, watch, own);
    if (error)
        return cs_fail_errno(CS_NO_MEMORY, error, "cannot start the thread that watches NCCL");
    own->watching = true;
    return CS_OK;
}

/* ---- closing ---------------------------------------------------------------------------------- */

/* All that was given is done, while the thread still watches. NCCL does not end before the graphs do that have captured
 * its calls. */
static void finish(connection *own)
{
    double end = cs_clock_seconds() + FAREWELL_SECONDS;
    cs_stream_sync(cs_device_stream(own->comm->device, CS_COMM));
    atomic_store(&own->closing, true);
    pthread_join(own->watch, NULL);
    cs_cuda_graphs_drop(own->comm->device);
    take_back(own);
    ncclResult_t state = ncclCommFinalize(own->nccl);
    while (state == ncclInProgress && cs_clock_seconds() < end) {
        pause_for(1);
        if (ncclCommGetAsyncError(own->nccl, &state) != ncclSuccess)
            state = ncclInternalError;
    }
    if (state == ncclSuccess)
        ncclCommDestroy(own->nccl);
    else
        give_up(own);
}

static void close_nccl(cs_comm *comm)
{
    connection *own = comm->own;
    if (!own)
        return;
    if (own->watching)
        finish(own);
    else
        give_up(own);
    pthread_mutex_destroy(&own->lock);
    free(own);
}

const cs_transport cs_comm_nccl = {
    .edition = CS_TRANSPORT_EDITION,
    .name = "nccl",
    .open = open_nccl,
    .close = close_nccl,
    .all_reduce = all_reduce,
    .reduce_scatter = reduce_scatter,
    .all_gather = all_gather,
    .broadcast = broadcast,
    .send = send_message,
    .receive = receive_message,
    .seat = seat,
    .lend = lend,
};
