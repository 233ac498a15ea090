/* nccl.cc - NCCL's calls: a comm that does not block is in progress for a while, and what it was given is put into its
 * stream only when it says that it is not any more.
 *
 * Like the real one it does not see that another process is gone: it waits until somebody aborts it. */
#include "emulator.h"
#include "ring.h"

#include <chrono>
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

enum { POLLS = 3 }; /* in which it is in progress */

/* CSPEED_EMULATOR_NCCL_MICROSECONDS: how long after its beginning a call of a comm that does not block is in progress at
 * the least, as the real one hands it to a thread. */
static std::chrono::microseconds delay()
{
    const char *text = getenv("CSPEED_EMULATOR_NCCL_MICROSECONDS");
    return std::chrono::microseconds(text ? atoi(text) : 0);
}

struct ncclComm {
    std::shared_ptr<ring> members = std::make_shared<ring>();
    bool blocking = true;
    ncclResult_t state = ncclSuccess;
    int polls = 0;
    std::chrono::steady_clock::time_point begun = {};
    bool seen[6] = {};           /* kinds of calls that were connected */
    std::deque<ring_call> calls; /* not in the stream yet */
    cudaStream_t stream = nullptr;
    int registered = 0;
    std::shared_ptr<int> captured = std::make_shared<int>(0); /* which graphs hold too that captured calls */
};

static thread_local int depth;
static thread_local std::vector<ncclComm_t> grouped;

/* ---- progress ---- */

static void put_into_stream(ncclComm_t comm)
{
    if (comm->calls.empty())
        return;
    std::shared_ptr<int> held;
    if (emulator_stream_of(comm->stream)->place.capture)
        held = comm->captured;
    for (ring_call &call : comm->calls)
        call.captured = held != nullptr;
    emulator_enqueue(comm->stream, [members = comm->members, held, calls = std::move(comm->calls)] {
        ring_run(members.get(), calls);
    });
    comm->calls.clear();
}

static void look(ncclComm_t comm)
{
    bool early = !comm->blocking && std::chrono::steady_clock::now() < comm->begun + delay();
    if (comm->state != ncclInProgress || comm->polls++ < POLLS || early || !ring_is_whole(comm->members.get()))
        return;
    comm->state = ncclSuccess;
    put_into_stream(comm);
}

/* The first call of a kind takes time, as ranks are connected by it. */
static ncclResult_t begin(ncclComm_t comm, bool slow)
{
    comm->state = ncclInProgress;
    comm->polls = comm->blocking || !slow ? POLLS : 0;
    comm->begun = std::chrono::steady_clock::now();
    do
        look(comm);
    while (comm->blocking && comm->state == ncclInProgress && (emulator_pause(), true));
    return comm->state;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    emulator_guard guard(emulator_lock);
    look(comm);
    *state = comm->state;
    return ncclSuccess;
}

/* ---- comms ---- */

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    std::string name = ring_make();
    *id = {};
    name.copy(id->internal, sizeof id->internal - 1);
    return name.empty() ? ncclSystemError : ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    emulator_guard guard(emulator_lock);
    *comm = nullptr;
    if (ranks < 1 || ranks > RING_RANKS || rank < 0 || rank >= ranks)
        return ncclInvalidArgument;
    ncclComm_t made = new ncclComm;
    made->blocking = !config || config->blocking != 0;
    made->members->rank = rank;
    made->members->size = ranks;
    made->members->name = std::string(id.internal, strnlen(id.internal, sizeof id.internal));
    if (!ring_join(made->members.get())) {
        delete made;
        return ncclSystemError;
    }
    *comm = made;
    return begin(made, true);
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}

/* The real one waits without end for graphs that captured its calls. */
ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    emulator_guard guard(emulator_lock);
    if (comm->captured.use_count() > 1)
        emulator_fatal("NCCL is ended while there are graphs that have captured its calls");
    return comm->state == ncclSuccess ? begin(comm, true) : ncclInvalidUsage;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    emulator_guard guard(emulator_lock);
    if (comm->registered)
        fprintf(stderr, "emulator: %d blocks are still registered with NCCL\n", comm->registered);
    delete comm;
    return ncclSuccess;
}

/* What waits in the stream returns; it holds the members itself. Graphs are waited for. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    emulator_guard guard(emulator_lock);
    comm->members->aborted = true;
    while (comm->captured.use_count() > 1)
        emulator_pause();
    delete comm;
    return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t comm, int *ranks)
{
    *ranks = comm->members->size;
    return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int *rank)
{
    *rank = comm->members->rank;
    return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(ncclComm_t, int *device)
{
    return cudaGetDevice(device) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

/* ---- memory ---- */

ncclResult_t ncclCommRegister(ncclComm_t comm, void *memory, size_t bytes, void **handle)
{
    emulator_guard guard(emulator_lock);
    if (!emulator_is_device(memory))
        return ncclInvalidArgument;
    emulator_check_range("ncclCommRegister", memory, bytes);
    *handle = memory;
    comm->registered++;
    return ncclSuccess;
}

ncclResult_t ncclCommDeregister(ncclComm_t comm, void *handle)
{
    emulator_guard guard(emulator_lock);
    if (!handle || comm->registered == 0)
        return ncclInvalidArgument;
    comm->registered--;
    return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void **memory, size_t bytes)
{
    return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void *memory)
{
    return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclInvalidArgument;
}

/* ---- calls ---- */

static ncclResult_t run(ncclComm_t comm)
{
    bool slow = false;
    for (const ring_call &call : comm->calls) {
        slow = slow || !comm->seen[call.kind];
        comm->seen[call.kind] = true;
    }
    return begin(comm, slow);
}

static ncclResult_t give(ncclComm_t comm, cudaStream_t stream, const ring_call &call)
{
    emulator_guard guard(emulator_lock);
    if (comm->state != ncclSuccess || call.rank < 0 || call.rank >= comm->members->size)
        return comm->state != ncclSuccess ? ncclInvalidUsage : ncclInvalidArgument;
    comm->calls.push_back(call);
    comm->stream = stream;
    if (!depth)
        return run(comm);
    for (ncclComm_t other : grouped)
        if (other == comm)
            return ncclSuccess;
    grouped.push_back(comm);
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
    depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    emulator_guard guard(emulator_lock);
    ncclResult_t result = ncclSuccess;
    if (depth == 0)
        return ncclInvalidUsage;
    if (--depth)
        return ncclSuccess;
    for (ncclComm_t comm : grouped)
        if (run(comm) == ncclInProgress)
            result = ncclInProgress;
    grouped.clear();
    return result;
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream)
{
    return give(comm, stream, { RING_ALL_REDUCE, in, out, count, type, op, 0 });
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
    return give(comm, stream, { RING_REDUCE_SCATTER, in, out, count, type, op, 0 });
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream)
{
    return give(comm, stream, { RING_ALL_GATHER, in, out, count, type, ncclSum, 0 });
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream)
{
    return give(comm, stream, { RING_BROADCAST, in, out, count, type, ncclSum, root });
}

ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int to, ncclComm_t comm, cudaStream_t stream)
{
    return give(comm, stream, { RING_SEND, data, nullptr, count, type, ncclSum, to });
}

ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int from, ncclComm_t comm, cudaStream_t stream)
{
    return give(comm, stream, { RING_RECEIVE, nullptr, data, count, type, ncclSum, from });
}

/* ---- words ---- */

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const text[] = { "no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress" };
    return (unsigned)result < sizeof text / sizeof *text ? text[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t)
{
    return "";
}

ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}
