/* nccl.cc - emulated NCCL with blocking communicators.
 *
 * A call returns when it is in the stream, or when another thread has aborted the communicator. The first call of each
 * kind connects the ranks and waits for all of them. Like NCCL, a call does not detect that another process has ended:
 * the call waits until the communicator is aborted. At most one thread may be inside a call with a communicator. No
 * thread may be inside when the communicator is freed. Therefore another thread must call ncclCommAbort in a group: the
 * communicator is then aborted at once, and freed only at the end of the group. */
#include "emulator.h"
#include "ring.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <vector>

struct ncclComm {
    std::shared_ptr<ring> members = std::make_shared<ring>();
    bool connected[6] = {};      /* for each kind of call: whether its first call has been made */
    int inside = 0;              /* number of threads inside a call */
    std::deque<ring_call> calls; /* calls of the open group */
    cudaStream_t stream = nullptr;
    /* Each graph that has captured calls of this communicator shares this pointer. So use_count() > 1 while such a
     * graph exists. */
    std::shared_ptr<int> captured = std::make_shared<int>(0);
};

static thread_local int depth;
static thread_local std::vector<ncclComm_t> grouped, aborted;

/* ---- entering a call ---- */

/* Keeps the calling thread busy for CSPEED_EMULATOR_NCCL_MICROSECONDS, because a call of NCCL costs CPU time too. */
static void spend_time()
{
    static const char *text = getenv("CSPEED_EMULATOR_NCCL_MICROSECONDS");
    auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(text ? atoi(text) : 0);
    while (std::chrono::steady_clock::now() < end)
        ;
}

struct visit {
    ncclComm_t comm;

    explicit visit(ncclComm_t comm) : comm(comm)
    {
        if (comm->inside++)
            emulator_fatal("two threads are inside of one NCCL communicator");
    }
    ~visit()
    {
        comm->inside--;
    }
};

/* Fault injection: CSPEED_EMULATOR_NCCL_FAULT="RANK CALL FAULT" applies FAULT in that rank's first call of that name
 * (init, collective, error, finalize). die: the process is killed; hang: the call returns when the communicator is
 * aborted; fail: the call returns ncclRemoteError. */
static ncclResult_t fault(const ring *members, const char *call)
{
    const char *text = getenv("CSPEED_EMULATOR_NCCL_FAULT");
    std::string wanted = std::to_string(members->rank) + " " + call + " ";
    if (!text || strncmp(text, wanted.c_str(), wanted.size()) != 0)
        return ncclSuccess;
    std::string what = text + wanted.size();
    if (what == "die")
        raise(SIGKILL);
    while (what == "hang" && !members->aborted)
        emulator_pause();
    return ncclRemoteError;
}

/* ---- communicators ---- */

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    std::string name = ring_make();
    *id = {};
    name.copy(id->internal, sizeof id->internal - 1);
    return name.empty() ? ncclSystemError : ncclSuccess;
}

/* Returns when all ranks have joined. */
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    emulator_guard guard(emulator_lock);
    *comm = nullptr;
    if (ranks < 1 || ranks > RING_RANKS || rank < 0 || rank >= ranks)
        return ncclInvalidArgument;
    if (config->blocking == 0)
        emulator_fatal("NCCL's nonblocking communicators are not emulated");
    ncclComm_t made = *comm = new ncclComm;
    made->members->rank = rank;
    made->members->size = ranks;
    made->members->name = std::string(id.internal, strnlen(id.internal, sizeof id.internal));
    ncclResult_t result = fault(made->members.get(), "init");
    if (result != ncclSuccess || !ring_join(made->members.get()))
        return result != ncclSuccess ? result : ncclSystemError;
    while (!ring_is_whole(made->members.get()) && !made->members->aborted)
        emulator_pause();
    return made->members->aborted ? ncclRemoteError : ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    emulator_guard guard(emulator_lock);
    visit one(comm);
    *state = fault(comm->members.get(), "error");
    return ncclSuccess;
}

/* Aborts the process while graphs exist that have captured calls of the communicator; NCCL would wait forever. */
ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    emulator_guard guard(emulator_lock);
    visit one(comm);
    if (comm->captured.use_count() > 1)
        emulator_fatal("NCCL is ended while there are graphs that have captured its calls");
    return fault(comm->members.get(), "finalize");
}

/* Waits until no graph holds calls of the communicator, then deletes the communicator. Operations that are still in the
 * stream share comm->members, so comm->members exists until they end. */
static void release(ncclComm_t comm)
{
    if (comm->inside)
        emulator_fatal("an NCCL communicator is freed while a thread is inside of it");
    while (comm->captured.use_count() > 1)
        emulator_pause();
    delete comm;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    emulator_guard guard(emulator_lock);
    release(comm);
    return ncclSuccess;
}

/* Sets comm->members->aborted at once. This ends all waits of this communicator, in calls and in operations of the
 * stream. Then frees the communicator; inside a group, the end of the group frees the communicator. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    emulator_guard guard(emulator_lock);
    comm->members->aborted = true;
    if (depth)
        aborted.push_back(comm);
    else
        release(comm);
    return ncclSuccess;
}

/* ---- calls ---- */

static void put_into_stream(ncclComm_t comm)
{
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

static ncclResult_t run(ncclComm_t comm)
{
    visit one(comm);
    ncclResult_t result = fault(comm->members.get(), "collective");
    for (const ring_call &call : comm->calls) {
        if (result == ncclSuccess && !comm->connected[call.kind] && !ring_connect(comm->members.get(), call))
            result = ncclRemoteError;
        comm->connected[call.kind] = true;
    }
    if (result == ncclSuccess)
        put_into_stream(comm);
    return result;
}

static ncclResult_t give(ncclComm_t comm, cudaStream_t stream, const ring_call &call)
{
    if (!depth)
        spend_time();
    emulator_guard guard(emulator_lock);
    if (call.rank < 0 || call.rank >= comm->members->size)
        return ncclInvalidArgument;
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
        result = result == ncclSuccess ? run(comm) : result;
    for (ncclComm_t comm : aborted)
        release(comm);
    grouped.clear();
    aborted.clear();
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

/* ---- names, versions, errors ---- */

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
